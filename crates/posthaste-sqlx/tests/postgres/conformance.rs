//! The whole suite of stores on PostgreSQL: on the server itself, on a table with another name, and
//! through a PgBouncer in transaction mode.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::conformance::{Capabilities, Defect, Harness, TxEnd};
use posthaste::store::Store;
use posthaste::writer::NewRow;
use posthaste::{Admin, EventId, StoreError, Timestamp};
use posthaste_sqlx::postgres::PgStoreBuilder;
use posthaste_sqlx::{PgStore, SchemaName};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgPool};

use crate::support::{drop_schema, new_schema, pgbouncer, server};

struct Postgres {
    store: PgStore,
    pool: PgPool,
    schema: SchemaName,
    table: &'static str,
}

impl Postgres {
    async fn direct(table: &'static str) -> Self {
        Self::open(server(), table, |builder| builder).await
    }

    async fn through_pgbouncer() -> Self {
        Self::open(pgbouncer(), "outbox_event", PgStoreBuilder::pgbouncer).await
    }

    async fn open(
        options: PgConnectOptions,
        table: &'static str,
        change: impl FnOnce(PgStoreBuilder) -> PgStoreBuilder,
    ) -> Self {
        let schema = new_schema();
        let builder = PgStore::builder(&options).schema(schema.clone());
        let builder = change(builder.table(table.parse().expect("a good name")));
        let store = builder.migrate().connect().await.expect("the store opens");
        // What a service behind PgBouncer has to do for its own statements.
        let pool =
            PgPoolOptions::new().max_connections(4).connect_lazy_with(options.extra_float_digits(None));
        Self { store, pool, schema, table }
    }
}

#[async_trait]
impl Harness for Postgres {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn admin(&self) -> Arc<dyn Admin> {
        Arc::new(self.store.clone())
    }

    async fn now(&self) -> Timestamp {
        let text = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8";
        let mut tx = self.pool.begin().await.expect("a transaction");
        let now = sqlx::query_scalar(text).persistent(false).fetch_one(&mut *tx).await.expect("a clock");
        tx.commit().await.expect("nothing to commit");
        Timestamp::from_micros(now)
    }

    async fn insert(&self, rows: &[NewRow], end: TxEnd) -> Result<Vec<Option<i64>>, StoreError> {
        let failed = |error| StoreError::backend("PostgreSQL", error);
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
            r#"INSERT INTO "{}"."{}" (event_id, event_type, {column}{payload}) VALUES ('{id}', 'Raw', {value}{text})"#,
            self.schema, self.table
        );
        let inserted = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.pool).await;
        inserted.is_ok().then_some(id)
    }

    async fn give_again(&self, seq: i64) -> bool {
        let table = format!(r#""{}"."{}""#, self.schema, self.table);
        let sql = format!(
            "DELETE FROM {table} WHERE seq = {seq}; \
             SELECT setval(pg_get_serial_sequence('{table}', 'seq'), {seq}, false)"
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.pool).await.expect("the number is free");
        true
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    async fn close(&self) {
        self.pool.close().await;
        self.store.close().await;
        drop_schema(&self.schema).await;
    }
}

mod direct {
    use super::*;
    posthaste::store_conformance!(
        Postgres::direct("outbox_event").await,
        #[ignore = "needs PostgreSQL: cargo xtask test"]
    );
}

mod reserved_word_as_table {
    use super::*;
    posthaste::store_conformance!(
        Postgres::direct("Order").await,
        #[ignore = "needs PostgreSQL: cargo xtask test"]
    );
}

mod through_pgbouncer {
    use super::*;
    posthaste::store_conformance!(
        Postgres::through_pgbouncer().await,
        #[ignore = "needs PostgreSQL: cargo xtask test"]
    );
}
