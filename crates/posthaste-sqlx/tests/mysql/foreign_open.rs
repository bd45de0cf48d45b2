//! Checks of a foreign table before anything is delivered from it, on MySQL and MariaDB.

use posthaste_sqlx::foreign::{ForeignTableStore, ForeignTableStoreBuilder, Layout};

use crate::support::*;

crate::cases::foreign_open::foreign_open_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);

pub(crate) const PARTITIONED_TABLE_SQL: &str =
    "CREATE TABLE parted (id BIGINT NOT NULL, at DATETIME(6) NOT NULL,
  kind VARCHAR(9) NOT NULL, body VARCHAR(9) NOT NULL, state VARCHAR(9) NOT NULL, PRIMARY KEY (id, at))
PARTITION BY RANGE COLUMNS (at) (PARTITION p2026 VALUES LESS THAN ('2027-01-01'))";

/// A user without rights.
pub(crate) struct User {
    pub(crate) name: String,
}

impl User {
    pub(crate) async fn new(_: &Db) -> Self {
        let name = new_user_name();
        administrate(&format!("CREATE USER {name}@'%'")).await;
        Self { name }
    }

    pub(crate) async fn grant(&self, db: &Db, rights: &str, table: &str) {
        administrate(&format!("GRANT {rights} ON {}.{table} TO {}@'%'", db.name, self.name)).await;
    }

    pub(crate) async fn drop(&self, _: &Db) {
        drop_user(&self.name).await;
    }
}

pub(crate) fn as_user(db: &Db, user: &User, layout: Layout) -> ForeignTableStoreBuilder {
    ForeignTableStore::mysql(&db.options.clone().username(&user.name), layout)
}
