//! The store on MySQL and MariaDB, in tables of its own that are dropped at the end.

mod baseline_relay;
mod statements;
mod tables;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use posthaste_sqlx::{ForeignTableStore, MySqlStore, TableName};
use sqlx::MySqlPool;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use tokio::sync::Mutex;

use super::bench_store::{
    BenchStore, BenchTables as _, ByHand, CrossProcessLatency, SnapshotGuard, TableFill,
};
use super::cross_process;
use super::figures::per_second;
use super::foreign_preset::{ColumnTypes, ForeignPreset};
use super::load::Load;
use super::progress::Progress;
use statements::Statements;
use tables::MySqlTables;

/// Events that are settled one by one, at the most: that takes long.
const MAX_ONE_BY_ONE_EVENTS: u64 = 1_000;

const COLUMN_TYPES: ColumnTypes = ColumnTypes { uuid: "CHAR(36)", bytes: "MEDIUMBLOB", json: "JSON" };

/// A database with tables that nobody else has.
pub(super) struct MySqlBench {
    options: MySqlConnectOptions,
    pool: MySqlPool,
    name: &'static str,
    /// What all our tables begin with, random so that they are nobody else's.
    prefix: String,
    sets: AtomicU32,
    open: Mutex<Vec<MySqlStore>>,
}

impl MySqlBench {
    pub(super) async fn open(options: MySqlConnectOptions, writers: usize) -> anyhow::Result<Self> {
        let connections = u32::try_from(writers)?.saturating_add(2);
        let pool = MySqlPoolOptions::new()
            .min_connections(connections)
            .max_connections(connections)
            // A round trip more for every transaction would hide what an outbox costs.
            .test_before_acquire(false)
            .connect_with(options.clone())
            .await?;
        let name = if statements::is_mariadb(&pool).await? { "mariadb" } else { "mysql" };
        let prefix = format!("posthaste_bench_{:08x}", fastrand::u32(..));
        Ok(Self { options, pool, name, prefix, sets: AtomicU32::new(0), open: Mutex::default() })
    }

    async fn fresh(&self) -> anyhow::Result<MySqlTables> {
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

impl BenchStore for MySqlBench {
    type Tables = MySqlTables;

    fn name(&self) -> &'static str {
        self.name
    }

    async fn create(&self) -> anyhow::Result<MySqlTables> {
        let set = self.sets.fetch_add(1, Ordering::Relaxed);
        let table = TableName::from_str(&format!("{}_{set}", self.prefix))?;
        let store = MySqlStore::builder(&self.options).table(table.clone()).migrate().connect().await?;
        self.open.lock().await.push(store.clone());
        let statements = Statements::create(&self.pool, &table).await?;
        Ok(MySqlTables { pool: self.pool.clone(), store, table, statements })
    }

    async fn clear(&self) -> anyhow::Result<()> {
        for store in self.open.lock().await.drain(..) {
            store.close().await;
        }
        statements::drop_tables(&self.pool, &self.prefix).await
    }

    async fn close(&self) -> anyhow::Result<()> {
        self.clear().await?;
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
        // Nobody is woken here: others look by themselves whether something is due.
        Ok(Some(ByHand { proved: Some(proved), drain, one_by_one, notify_cost: None }))
    }

    async fn cross_process_latency(&self, load: &Load) -> anyhow::Result<Option<CrossProcessLatency>> {
        let tables = self.fresh().await?;
        let reading = MySqlStore::builder(&self.options).table(tables.table.clone()).connect().await?;
        self.open.lock().await.push(reading.clone());
        Ok(Some(cross_process::latency(&tables, Arc::new(reading), load).await?))
    }

    async fn hold_snapshot(&self) -> anyhow::Result<Option<SnapshotGuard>> {
        Ok(Some(statements::hold_snapshot(&self.options).await?))
    }

    async fn foreign(&self, preset: ForeignPreset, load: &Load) -> anyhow::Result<Option<ForeignTableStore>> {
        let table = format!("{}_foreign", self.prefix);
        for statement in preset.statements(&table, "waiting", COLUMN_TYPES, load) {
            statements::run(&self.pool, statement).await?;
        }
        let layout = preset.layout().table(TableName::from_str(&table)?);
        Ok(Some(ForeignTableStore::mysql(&self.options, layout).connect().await?))
    }
}

/// Events per claim of the loops by hand: as many as the engine takes.
const CLAIM_EVENTS: usize = super::measured_engine::CLAIM_EVENTS;
