//! What must be so before anything is delivered from an outbox table of others, on PostgreSQL.

use posthaste_sqlx::layout::{Layout, LayoutStore, LayoutStoreBuilder};

use crate::support::*;

#[macro_use]
#[path = "../cases/layout_open.rs"]
mod cases;

layout_open_tests!("needs PostgreSQL: cargo xtask test");

/// A user without rights.
pub(crate) struct User {
    pub(crate) name: String,
}

impl User {
    pub(crate) async fn new(db: &Db) -> Self {
        let name = format!("{}_relay", db.schema);
        db.execute(&format!("CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA {} TO {name}", db.schema)).await;
        Self { name }
    }

    pub(crate) async fn grant(&self, db: &Db, rights: &str, table: &str) {
        db.execute(&format!("GRANT {rights} ON {table} TO {}", self.name)).await;
    }

    pub(crate) async fn drop(&self, db: &Db) {
        db.execute(&format!("DROP OWNED BY {name}; DROP ROLE {name}", name = self.name)).await;
    }
}

pub(crate) fn as_user(db: &Db, user: &User, layout: Layout) -> LayoutStoreBuilder {
    LayoutStore::postgres(&server().username(&user.name), layout).schema(db.schema.clone())
}
