//! The whole suite of stores on SQLite: in a file, in memory, and on a table with another name.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::conformance::{Capabilities, Defect, Harness, TxEnd};
use posthaste::store::Store;
use posthaste::writer::NewRow;
use posthaste::{Admin, EventId, StoreError, Timestamp};
use posthaste_sqlx::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, SqlitePool};
use tempfile::TempDir;

struct Sqlite {
    store: SqliteStore,
    pool: SqlitePool,
    table: &'static str,
    _dir: Option<TempDir>,
}

impl Sqlite {
    async fn in_a_file(table: &'static str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let options = SqliteConnectOptions::new().filename(dir.path().join("it's a file.db"));
        Self::open(options.create_if_missing(true), table, Some(dir)).await
    }

    async fn in_memory() -> Self {
        Self::open("sqlite::memory:".parse().expect("a good URL"), "outbox_event", None).await
    }

    async fn open(options: SqliteConnectOptions, table: &'static str, dir: Option<TempDir>) -> Self {
        let name = table.parse().expect("a good name");
        let store = SqliteStore::builder(&options).table(name).migrate().connect().await;
        let store = store.expect("the store opens");
        let pool = SqlitePoolOptions::new().connect_with(options).await.expect("the pool opens");
        Self { store, pool, table, _dir: dir }
    }
}

#[async_trait]
impl Harness for Sqlite {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn admin(&self) -> Arc<dyn Admin> {
        Arc::new(self.store.clone())
    }

    async fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn insert(&self, rows: &[NewRow], end: TxEnd) -> Result<Vec<Option<i64>>, StoreError> {
        let failed = |error| StoreError::backend("SQLite", error);
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
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
            Defect::FullAttempts => ("attempts", i64::MAX.to_string()),
            Defect::NoPayload => ("payload", "NULL".to_owned()),
        };
        let payload = if column == "payload" { "" } else { ", payload" };
        let text = if column == "payload" { "" } else { ", '{}'" };
        let sql = format!(
            r#"INSERT INTO "{}" (event_id, event_type, {column}{payload}) VALUES (?1, 'Raw', {value}{text})"#,
            self.table
        );
        let inserted = sqlx::query(AssertSqlSafe(sql)).bind(id.as_str().to_owned()).execute(&self.pool).await;
        inserted.is_ok().then_some(id)
    }

    async fn give_again(&self, seq: i64) -> bool {
        let delete = format!(r#"DELETE FROM "{}" WHERE seq = {seq}"#, self.table);
        let forget = format!("UPDATE sqlite_sequence SET seq = {} WHERE name = '{}'", seq - 1, self.table);
        for sql in [delete, forget] {
            sqlx::query(AssertSqlSafe(sql)).execute(&self.pool).await.expect("the number is free");
        }
        true
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    async fn close(&self) {
        self.pool.close().await;
        self.store.close().await;
    }
}

mod file {
    use super::*;
    posthaste::store_conformance!(Sqlite::in_a_file("outbox_event").await);
}

mod memory {
    use super::*;
    posthaste::store_conformance!(Sqlite::in_memory().await);
}

mod reserved_word_as_table {
    use super::*;
    posthaste::store_conformance!(Sqlite::in_a_file("Order").await);
}
