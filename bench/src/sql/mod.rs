//! A SQL database under test: its own tables, which are dropped at the end.

pub(crate) mod baseline;
mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use async_trait::async_trait;
use posthaste_sqlx::ForeignTableStore;
use posthaste_stores::OutboxRef;
use sqlx::{Database, Pool};
use tokio::sync::Mutex;

use crate::bench_store::{BenchStore, ByHand, CrossProcessLatency, SnapshotGuard};
use crate::cross_process;
use crate::foreign_preset::ForeignPreset;
use crate::progress::Progress;
use crate::workload::Load;
pub(crate) use tables::{Connection, SqlTables, Statements};

/// Operations of a database besides its [`Statements`]. An operation that a database does not support has a default
/// that does nothing.
#[async_trait]
pub(crate) trait SqlDatabase: Sized + Send + Sync + 'static {
    type Statements: Statements;

    fn name(&self) -> &'static str;

    /// Creates new tables, the `set`-th of this run.
    async fn create(&self, pool: &PoolOf<Self>, set: u32) -> Result<SqlTables<Self::Statements>>;

    /// Drops all tables that this benchmark created.
    async fn drop_tables(&self, pool: &PoolOf<Self>) -> Result<()>;

    /// Cleans up after the tables were dropped.
    async fn close(&self, pool: &PoolOf<Self>) -> Result<()> {
        pool.close().await;
        Ok(())
    }

    /// Another store on the same tables, as another process would have. `None` if processes find each other's events
    /// only by polling.
    async fn another_store(&self, _: &OutboxRef) -> Result<Option<StoreOf<Self>>> {
        Ok(None)
    }

    /// See [`BenchStore::by_hand`].
    async fn by_hand(_: &SqlBench<Self>, _: &Load, _: &Progress) -> Result<Option<ByHand>> {
        Ok(None)
    }

    /// See [`BenchStore::hold_snapshot`].
    async fn hold_snapshot(&self) -> Result<Option<SnapshotGuard>> {
        Ok(None)
    }

    /// See [`BenchStore::foreign`].
    async fn foreign(
        &self,
        _: &PoolOf<Self>,
        _: ForeignPreset,
        _: &Load,
    ) -> Result<Option<ForeignTableStore>> {
        Ok(None)
    }
}

/// The pool of the database of these statements.
pub(crate) type PoolOf<D> = Pool<<<D as SqlDatabase>::Statements as Statements>::Db>;

pub(crate) type StoreOf<D> = <<D as SqlDatabase>::Statements as Statements>::Store;

/// A database with tables that no other process uses.
pub(crate) struct SqlBench<D: SqlDatabase> {
    pub(crate) database: D,
    pub(crate) pool: PoolOf<D>,
    sets: AtomicU32,
    open: Mutex<Vec<StoreOf<D>>>,
}

impl<D: SqlDatabase> SqlBench<D> {
    pub(crate) fn new(database: D, pool: PoolOf<D>) -> Self {
        Self { database, pool, sets: AtomicU32::new(0), open: Mutex::default() }
    }

    /// Registers a store that must be closed before its tables are dropped.
    pub(crate) async fn close_at_the_end(&self, store: &StoreOf<D>) {
        self.open.lock().await.push(store.clone());
    }
}

impl<D: SqlDatabase> BenchStore for SqlBench<D> {
    type Tables = SqlTables<D::Statements>;

    fn name(&self) -> &'static str {
        self.database.name()
    }

    async fn create(&self) -> Result<Self::Tables> {
        let set = self.sets.fetch_add(1, Ordering::Relaxed);
        let tables = self.database.create(&self.pool, set).await?;
        self.close_at_the_end(&tables.store).await;
        Ok(tables)
    }

    async fn clear(&self) -> Result<()> {
        for store in self.open.lock().await.drain(..) {
            D::Statements::close(&store).await;
        }
        self.database.drop_tables(&self.pool).await
    }

    async fn close(&self) -> Result<()> {
        self.clear().await?;
        self.database.close(&self.pool).await
    }

    async fn by_hand(&self, load: &Load, progress: &Progress) -> Result<Option<ByHand>> {
        D::by_hand(self, load, progress).await
    }

    async fn cross_process_latency(&self, load: &Load) -> Result<Option<CrossProcessLatency>> {
        let tables = self.fresh().await?;
        let Some(reading) = self.database.another_store(&tables.outbox).await? else { return Ok(None) };
        self.close_at_the_end(&reading).await;
        Ok(Some(cross_process::latency(&tables, Arc::new(reading), load).await?))
    }

    async fn hold_snapshot(&self) -> Result<Option<SnapshotGuard>> {
        self.database.hold_snapshot().await
    }

    async fn foreign(&self, preset: ForeignPreset, load: &Load) -> Result<Option<ForeignTableStore>> {
        self.database.foreign(&self.pool, preset, load).await
    }
}

/// A pool with a connection for each writer, and for what runs beside them.
pub(crate) async fn pool<DB: Database>(
    options: <DB::Connection as sqlx::Connection>::Options,
    writers: usize,
) -> Result<Pool<DB>> {
    let connections = u32::try_from(writers)?.saturating_add(2);
    let pool = sqlx::pool::PoolOptions::new().min_connections(connections).max_connections(connections);
    // A check of the connection before every transaction would hide the cost of the outbox.
    Ok(pool.test_before_acquire(false).connect_with(options).await?)
}
