//! The whole suite of stores on MySQL or MariaDB, and once more on a table with another name.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::conformance::{Capabilities, Defect, Harness, TxEnd};
use posthaste::store::Store;
use posthaste::writer::NewRow;
use posthaste::{Admin, EventId, StoreError, Timestamp};
use posthaste_sqlx::MySqlStore;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, Connection as _, MySqlPool};

use crate::support::{drop_database, new_database, server};

struct MySql {
    store: MySqlStore,
    pool: MySqlPool,
    database: String,
    table: &'static str,
}

impl MySql {
    async fn new(table: &'static str) -> Self {
        let database = new_database().await;
        let options = server().database(&database);
        let builder = MySqlStore::builder(&options).table(table.parse().expect("a good name"));
        let store = builder.migrate().connect().await.expect("the store opens");
        let pool = MySqlPoolOptions::new().max_connections(4).connect_lazy_with(options);
        Self { store, pool, database, table }
    }
}

#[async_trait]
impl Harness for MySql {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn admin(&self) -> Arc<dyn Admin> {
        Arc::new(self.store.clone())
    }

    async fn now(&self) -> Timestamp {
        let text = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
        Timestamp::from_micros(sqlx::query_scalar(text).fetch_one(&self.pool).await.expect("a clock"))
    }

    async fn insert(&self, rows: &[NewRow], end: TxEnd) -> Result<Vec<Option<i64>>, StoreError> {
        let failed = |error| StoreError::backend("MySQL", error);
        let mut tx = self.pool.begin().await.map_err(failed)?;
        let seqs = match end {
            TxEnd::SavepointRolledBack => {
                let mut savepoint = tx.begin().await.map_err(failed)?;
                let seqs = self.store.insert_rows(&mut savepoint, rows).await?;
                savepoint.rollback().await.map_err(failed)?;
                seqs
            }
            _ => self.store.insert_rows(&mut tx, rows).await?,
        };
        match end {
            TxEnd::Rollback => tx.rollback().await.map_err(failed)?,
            _ => tx.commit().await.map_err(failed)?,
        }
        Ok(seqs)
    }

    async fn insert_raw(&self, defect: Defect) -> Option<EventId> {
        let id = EventId::uuid_v7();
        let headers = format!("{{\"a\": [{:?}]}}", Defect::SECRET);
        let (column, value) = match defect {
            Defect::BadHeaders => ("headers", format!("'{headers}'")),
            Defect::UnknownStatus => ("status", "77".to_owned()),
            Defect::NegativeAttempts => ("attempts", "-1".to_owned()),
            Defect::FullAttempts => ("attempts", i32::MAX.to_string()),
            Defect::NoPayload => ("payload", "NULL".to_owned()),
        };
        let payload = if column == "payload" { "" } else { ", payload" };
        let text = if column == "payload" { "" } else { ", '{}'" };
        let sql = format!(
            "INSERT INTO `{}` (event_id, event_type, {column}{payload}) VALUES ('{id}', 'Raw', {value}{text})",
            self.table
        );
        let inserted = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.pool).await;
        inserted.is_ok().then_some(id)
    }

    async fn give_again(&self, seq: i64) -> bool {
        let delete = format!("DELETE FROM `{}` WHERE seq = {seq}", self.table);
        let forget = format!("ALTER TABLE `{}` AUTO_INCREMENT = {seq}", self.table);
        for sql in [delete, forget] {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.pool).await.expect("the number is free");
        }
        true
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    async fn close(&self) {
        self.pool.close().await;
        self.store.close().await;
        drop_database(&self.database).await;
    }
}

mod usual {
    use super::*;
    posthaste::store_conformance!(
        MySql::new("outbox_event").await,
        #[ignore = "needs MariaDB: cargo xtask test"]
    );
}

mod reserved_word_as_table {
    use super::*;
    posthaste::store_conformance!(
        MySql::new("Order").await,
        #[ignore = "needs MariaDB: cargo xtask test"]
    );
}
