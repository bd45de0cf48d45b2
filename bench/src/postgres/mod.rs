//! The PostgreSQL store, in a schema of its own that is dropped at the end.

mod notify_cost;
mod statements;

use std::str::FromStr;

use anyhow::Result;
use async_trait::async_trait;
use posthaste_sqlx::postgres::Notify;
use posthaste_sqlx::{ForeignTableStore, PgStore, SchemaName, TableName};
use posthaste_stores::OutboxRef;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

use crate::bench_store::{ByHand, NotifyCost, SnapshotGuard};
use crate::foreign_preset::{ColumnTypes, ForeignPreset};
use crate::progress::Progress;
use crate::sql::{self, SqlBench, SqlDatabase, SqlTables, baseline};
use crate::workload::Load;
use statements::PgStatements;

const COLUMN_TYPES: ColumnTypes = ColumnTypes { uuid: "UUID", bytes: "BYTEA", json: "JSONB" };

pub(super) type PostgresBench = SqlBench<PostgresSchema>;

/// A schema that no other process uses.
pub(super) struct PostgresSchema {
    options: PgConnectOptions,
    schema: SchemaName,
}

impl PostgresBench {
    pub(super) async fn open(options: PgConnectOptions, writers: usize) -> Result<Self> {
        let pool = sql::pool(options.clone(), writers).await?;
        let schema = SchemaName::from_str(&format!("posthaste_bench_{:08x}", fastrand::u32(..)))?;
        statements::create_schema(&pool, &schema).await?;
        Ok(Self::new(PostgresSchema { options, schema }, pool))
    }

    /// Another store on the same tables, as another process would have.
    async fn another(&self, outbox: &OutboxRef, notify: Notify) -> Result<PgStore> {
        let store = self.database.another(outbox, notify).await?;
        self.close_at_the_end(&store).await;
        Ok(store)
    }
}

impl PostgresSchema {
    async fn another(&self, outbox: &OutboxRef, notify: Notify) -> Result<PgStore> {
        let builder = PgStore::builder(&self.options).schema(self.schema.clone()).notify(notify);
        Ok(builder.table(outbox.table.parse()?).connect().await?)
    }
}

#[async_trait]
impl SqlDatabase for PostgresSchema {
    type Statements = PgStatements;

    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn create(&self, pool: &PgPool, set: u32) -> Result<SqlTables<PgStatements>> {
        let table = TableName::from_str(&format!("outbox_{set}"))?;
        let builder = PgStore::builder(&self.options).schema(self.schema.clone());
        let store = builder.table(table.clone()).migrate().connect().await?;
        let statements = PgStatements::create(pool, &self.schema, &table).await?;
        let outbox = OutboxRef { table: table.to_string(), schema: Some(self.schema.clone()) };
        Ok(SqlTables { pool: pool.clone(), store, outbox, statements })
    }

    async fn drop_tables(&self, pool: &PgPool) -> Result<()> {
        statements::drop_schema(pool, &self.schema).await?;
        statements::create_schema(pool, &self.schema).await
    }

    async fn close(&self, pool: &PgPool) -> Result<()> {
        statements::drop_schema(pool, &self.schema).await?;
        pool.close().await;
        Ok(())
    }

    async fn another_store(&self, outbox: &OutboxRef) -> Result<Option<PgStore>> {
        self.another(outbox, Notify::Off).await.map(Some)
    }

    async fn by_hand(bench: &PostgresBench, load: &Load, progress: &Progress) -> Result<Option<ByHand>> {
        let by_hand = baseline::measure(bench, load, progress).await?;
        progress.begin("without an engine, with notifications");
        let with_notify = notify_cost::transactions_per_second(bench, load, Notify::AfterCommit).await?;
        progress.begin("without an engine, without notifications");
        let without_notify = notify_cost::transactions_per_second(bench, load, Notify::Off).await?;
        let notify_cost = Some(NotifyCost { with_notify, without_notify });
        Ok(Some(ByHand { notify_cost, ..by_hand }))
    }

    async fn hold_snapshot(&self) -> Result<Option<SnapshotGuard>> {
        Ok(Some(statements::hold_snapshot(&self.options).await?))
    }

    async fn foreign(
        &self,
        pool: &PgPool,
        preset: ForeignPreset,
        load: &Load,
    ) -> Result<Option<ForeignTableStore>> {
        let layout = preset.layout();
        let table = format!("\"{}\".\"{}\"", self.schema, layout.table_name());
        for statement in preset.statements(&table, "waiting", COLUMN_TYPES, load) {
            statements::run(pool, statement).await?;
        }
        statements::run(pool, format!("VACUUM (ANALYZE) {table}")).await?;
        let builder = ForeignTableStore::postgres(&self.options, layout).schema(self.schema.clone());
        Ok(Some(builder.connect().await?))
    }
}
