//! Checks of a foreign table before anything is delivered from it, on PostgreSQL.

use posthaste_sqlx::foreign::{ForeignTableStore, ForeignTableStoreBuilder, Layout};

use crate::foreign::{ORDER_SERVICE_SQL, builder};
use crate::support::*;

crate::cases::foreign_open::foreign_open_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);

pub(crate) const PARTITIONED_TABLE_SQL: &str =
    "CREATE TABLE parted (id BIGINT NOT NULL, at TIMESTAMPTZ NOT NULL,
  kind TEXT NOT NULL, body TEXT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE parted_2026 PARTITION OF parted FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')";

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

pub(crate) fn as_user(db: &Db, user: &User, layout: Layout) -> ForeignTableStoreBuilder {
    ForeignTableStore::postgres(&server().username(&user.name), layout).schema(db.schema.clone())
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn partial_index_or_index_on_an_expression_is_no_key() {
    let db = Db::new().await;
    db.execute(ORDER_SERVICE_SQL).await;
    db.execute(
        "ALTER TABLE outbox DROP CONSTRAINT outbox_pkey;
         CREATE UNIQUE INDEX ON outbox (id) WHERE status = 'NEW';
         CREATE UNIQUE INDEX ON outbox ((id::text), id);
         CREATE UNIQUE INDEX ON outbox (id, created_at)",
    )
    .await;
    let error = builder(&db, Layout::order_service()).connect().await.expect_err("no key").to_string();
    assert!(error.contains("rows from having the same id"), "{error}");
    db.execute("CREATE UNIQUE INDEX ON outbox (id) INCLUDE (status)").await;
    builder(&db, Layout::order_service()).connect().await.expect("a key").close().await;
    db.close().await;
}
