//! The PostgreSQL store, in a schema of its own that is dropped at the end.

mod baseline_relay;
mod notify_cost;
mod statements;
mod tables;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use posthaste_sqlx::postgres::Notify;
use posthaste_sqlx::{ForeignTableStore, PgStore, SchemaName, TableName};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::sync::Mutex;

use super::bench_store::{
    BenchStore, BenchTables as _, ByHand, CrossProcessLatency, NotifyCost, SnapshotGuard, TableFill,
};
use super::cross_process;
use super::figures::per_second;
use super::foreign_preset::{ColumnTypes, ForeignPreset};
use super::load::Load;
use super::progress::Progress;
use statements::Statements;
use tables::PgTables;

/// Events that are settled one by one, at the most: that takes long.
const MAX_ONE_BY_ONE_EVENTS: u64 = 1_000;

const COLUMN_TYPES: ColumnTypes = ColumnTypes { uuid: "UUID", bytes: "BYTEA", json: "JSONB" };

/// A server with a schema that nobody else has.
pub(super) struct PostgresBench {
    options: PgConnectOptions,
    pool: PgPool,
    schema: SchemaName,
    sets: AtomicU32,
    open: Mutex<Vec<PgStore>>,
}

impl PostgresBench {
    pub(super) async fn open(options: PgConnectOptions, writers: usize) -> anyhow::Result<Self> {
        let connections = u32::try_from(writers)?.saturating_add(2);
        let pool = PgPoolOptions::new()
            .min_connections(connections)
            .max_connections(connections)
            // A round trip more for every transaction would hide what an outbox costs.
            .test_before_acquire(false)
            .connect_with(options.clone())
            .await?;
        let schema = SchemaName::from_str(&format!("posthaste_bench_{:08x}", fastrand::u32(..)))?;
        statements::create_schema(&pool, &schema).await?;
        Ok(Self { options, pool, schema, sets: AtomicU32::new(0), open: Mutex::default() })
    }

    /// A store on these tables as another process has one.
    async fn another(&self, tables: &PgTables, notify: Notify) -> anyhow::Result<PgStore> {
        let builder = PgStore::builder(&self.options).schema(self.schema.clone()).notify(notify);
        let store = builder.table(tables.table.clone()).connect().await?;
        self.open.lock().await.push(store.clone());
        Ok(store)
    }

    async fn fresh(&self) -> anyhow::Result<PgTables> {
        self.clear().await?;
        self.create().await
    }

    async fn proved(&self, load: &Load) -> anyhow::Result<f64> {
        let tables = self.fresh().await?;
        let work = {
            let load = load.clone();
            move |number| {
                let (tables, load) = (tables.clone(), load.clone());
                async move { tables.hand_written_and_proved(number, load.body()).await }
            }
        };
        Ok(per_second(load.events, load.spread(load.events, work).await?))
    }

    async fn drain(&self, load: &Load) -> anyhow::Result<f64> {
        let tables = self.fresh().await?;
        tables.fill(TableFill::pending(load.events), load).await?;
        Ok(per_second(
            load.events,
            baseline_relay::best_case(&self.options, &tables.statements, load.events).await?,
        ))
    }

    async fn one_by_one(&self, load: &Load) -> anyhow::Result<f64> {
        let tables = self.fresh().await?;
        let events = load.events.min(MAX_ONE_BY_ONE_EVENTS);
        tables.fill(TableFill::pending(events), load).await?;
        Ok(per_second(
            events,
            baseline_relay::one_by_one(&self.options, &tables.statements, events).await?.all,
        ))
    }
}

impl BenchStore for PostgresBench {
    type Tables = PgTables;

    fn name(&self) -> &'static str {
        "postgres"
    }

    async fn create(&self) -> anyhow::Result<PgTables> {
        let set = self.sets.fetch_add(1, Ordering::Relaxed);
        let table = TableName::from_str(&format!("outbox_{set}"))?;
        let builder = PgStore::builder(&self.options).schema(self.schema.clone());
        let store = builder.table(table.clone()).migrate().connect().await?;
        self.open.lock().await.push(store.clone());
        let statements = Statements::create(&self.pool, &self.schema, &table).await?;
        let schema = self.schema.clone();
        Ok(PgTables { pool: self.pool.clone(), store, schema, table, statements })
    }

    async fn clear(&self) -> anyhow::Result<()> {
        for store in self.open.lock().await.drain(..) {
            store.close().await;
        }
        statements::drop_schema(&self.pool, &self.schema).await?;
        statements::create_schema(&self.pool, &self.schema).await
    }

    async fn close(&self) -> anyhow::Result<()> {
        self.clear().await?;
        statements::drop_schema(&self.pool, &self.schema).await?;
        self.pool.close().await;
        Ok(())
    }

    async fn by_hand(&self, load: &Load, progress: &Progress) -> anyhow::Result<Option<ByHand>> {
        progress.begin("a hand-written INSERT that is proved");
        let proved = self.proved(load).await?;
        progress.begin("drained by hand");
        let drain = self.drain(load).await?;
        progress.begin("drained by hand, one by one");
        let one_by_one = self.one_by_one(load).await?;
        progress.begin("without an engine, waking others");
        let with_notify = notify_cost::transactions_per_second(self, load, Notify::AfterCommit).await?;
        progress.begin("without an engine, waking nobody");
        let without_notify = notify_cost::transactions_per_second(self, load, Notify::Off).await?;
        let notify_cost = Some(NotifyCost { with_notify, without_notify });
        Ok(Some(ByHand { proved: Some(proved), drain, one_by_one, notify_cost }))
    }

    async fn cross_process_latency(&self, load: &Load) -> anyhow::Result<Option<CrossProcessLatency>> {
        let tables = self.fresh().await?;
        let reading = Arc::new(self.another(&tables, Notify::Off).await?);
        Ok(Some(cross_process::latency(&tables, reading, load).await?))
    }

    async fn hold_snapshot(&self) -> anyhow::Result<Option<SnapshotGuard>> {
        Ok(Some(statements::hold_snapshot(&self.options).await?))
    }

    async fn foreign(&self, preset: ForeignPreset, load: &Load) -> anyhow::Result<Option<ForeignTableStore>> {
        let layout = preset.layout();
        let table = format!("\"{}\".\"{}\"", self.schema, layout.table_name());
        for statement in preset.statements(&table, "waiting", COLUMN_TYPES, load) {
            statements::run(&self.pool, statement).await?;
        }
        statements::run(&self.pool, format!("VACUUM (ANALYZE) {table}")).await?;
        let builder = ForeignTableStore::postgres(&self.options, layout).schema(self.schema.clone());
        Ok(Some(builder.connect().await?))
    }
}

/// Events per claim of the loops by hand: as many as the engine takes.
const CLAIM_EVENTS: u64 = super::measured_engine::CLAIM_EVENTS as u64;
