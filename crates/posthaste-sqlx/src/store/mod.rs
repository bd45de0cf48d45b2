//! The store of all SQL databases: its shared state, and the calls of the engine.

pub(crate) mod admin;
pub(crate) mod backlog;
pub(crate) mod builder;
pub(crate) mod claim;
pub(crate) mod diagnose;
pub(crate) mod lease;
pub(crate) mod purge;
pub(crate) mod settle;
pub(crate) mod stats;

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::store::{
    Claim, Claimed, Lease, Notifier, Park, Purge, Release, Renew, Settle, Settled, Store, Unpark,
};
use posthaste::writer::{NewRow, WriterCore};
use posthaste::{Outbox, StoreError, Timestamp};
use posthaste_sql_writer::WriterContext;
use tokio_util::sync::CancellationToken;

use crate::OpenError;
use crate::claim_floor::ClaimFloor;
use crate::clock_and_pauses::ServerStateCache;
use crate::parked_routes_cache::ParkedNames;
use crate::sql::Sql;
use crate::tx::TxDialect;
use crate::writer::{Statements, Writer};
use claim::ClaimDialect;
use diagnose::DiagnoseDialect;
use lease::LeaseDialect;
use settle::SettleDialect;

/// The parts of a store that belong to one database.
pub(crate) trait StoreDialect: TxDialect {
    type Connections: Connections;

    /// State that only the store of this database has.
    type State: fmt::Debug + Send + Sync;

    /// What a Writer of this store has besides its context.
    fn writer_state(store: &SqlStore<Self>) -> Self::WriterState;

    fn writer_context(store: &SqlStore<Self>, core: WriterCore) -> WriterContext<Self::Outbox> {
        WriterContext::new(core, Arc::clone(&store.0.statements))
    }

    /// Notifies `wake` whenever there may be rows to claim, until the store ends.
    fn watch(
        store: Weak<Inner<Self>>,
        stop: CancellationToken,
        wake: Notifier,
    ) -> impl Future<Output = ()> + Send + 'static;

    /// Wakes other processes, because rows became due. Only for databases on which they do not notice by themselves.
    fn notify_others(_store: &SqlStore<Self>) {}

    /// Ends running work before the connections are closed.
    fn finish(_store: &SqlStore<Self>) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// A database with a store: everything in which it differs from the others. Each part is a trait in the file of the
/// same name, here and in the module of the database.
pub(crate) trait Dialect: ClaimDialect + SettleDialect + LeaseDialect + DiagnoseDialect {}

#[cfg(feature = "postgres")]
impl Dialect for sqlx::Postgres {}

#[cfg(feature = "mysql")]
impl Dialect for sqlx::MySql {}

#[cfg(feature = "sqlite")]
impl Dialect for sqlx::Sqlite {}

/// The connections of a store.
pub(crate) trait Connections: fmt::Debug + Send + Sync {
    /// Explains an error and names the next step, where it is known.
    fn explain(&self, error: sqlx::Error) -> OpenError;

    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// An outbox in a SQL database. Cheap to clone.
///
/// It opens a few connections of its own: an exhausted pool of the service never stops it, and it never exhausts that
/// pool. Any number of processes may share a table.
#[derive(Debug)]
pub struct SqlStore<D: StoreDialect>(pub(crate) Arc<Inner<D>>);

#[derive(Debug)]
pub(crate) struct Inner<D: StoreDialect> {
    /// The store's own connections.
    pub(crate) connections: D::Connections,
    /// The statements about this outbox table.
    pub(crate) sql: Sql,
    /// The statements of Writers, shared with every Writer of this store.
    pub(crate) statements: Arc<Statements<D>>,
    /// The server's clock and the paused routes, up to a second old. Every claim reads it; pausing and resuming clear
    /// it.
    pub(crate) server_state: ServerStateCache,
    /// The names for which rows are parked. Every claim reads it; a background task refreshes it.
    pub(crate) parked_names: ParkedNames,
    /// Where claims begin to read.
    pub(crate) claim_floor: ClaimFloor,
    /// Notified when there may be rows to claim. Created when an engine first calls `wake`, together with the task that
    /// watches the database.
    pub(crate) wake: OnceLock<Notifier>,
    /// Cancelled when the store is closed or dropped, to end its tasks.
    pub(crate) stop: CancellationToken,
    pub(crate) state: D::State,
}

impl<D: Dialect> SqlStore<D> {
    /// The INSERT alone, for the conformance suite: without hooks, limits or receipt. Services use a
    /// [`Writer`](crate::Writer).
    #[doc(hidden)]
    pub async fn insert_rows(
        &self,
        connection: &mut D::Connection,
        rows: &[NewRow],
    ) -> Result<Vec<Option<i64>>, StoreError> {
        let inserted = D::insert(&self.0.statements, connection, rows).await;
        inserted.map_err(|error| self.failed(error))
    }

    /// Closes the store's connections. Calls after it fail.
    pub async fn close(&self) {
        D::finish(self).await;
        self.connections().close().await;
        self.0.stop.cancel();
    }
}

impl<D: StoreDialect> SqlStore<D> {
    pub(crate) fn new(
        connections: D::Connections,
        sql: Sql,
        statements: Statements<D>,
        state: D::State,
    ) -> Self {
        Self(Arc::new(Inner {
            connections,
            sql,
            statements: Arc::new(statements),
            server_state: ServerStateCache::default(),
            parked_names: ParkedNames::default(),
            claim_floor: ClaimFloor::new(),
            wake: OnceLock::new(),
            stop: CancellationToken::new(),
            state,
        }))
    }

    pub(crate) fn connections(&self) -> &D::Connections {
        &self.0.connections
    }

    pub(crate) fn sql(&self) -> &Sql {
        &self.0.sql
    }

    pub(crate) fn failed(&self, error: sqlx::Error) -> StoreError {
        failed::<D>(self.connections(), error)
    }

    pub(crate) fn forget_cached_state(&self) {
        self.0.server_state.forget();
        self.0.parked_names.forget();
    }

    /// Wakes the engine of this process and other processes, because rows became due.
    pub(crate) fn notify_due(&self) {
        self.notify_engine();
        D::notify_others(self);
    }

    pub(crate) fn notify_engine(&self) {
        if let Some(wake) = self.0.wake.get() {
            wake.notify();
        }
    }

    /// The notifier. The first call starts the task that watches the database.
    fn watched(&self) -> Notifier {
        let wake = self.0.wake.get_or_init(|| {
            let wake = Notifier::new();
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(D::watch(Arc::downgrade(&self.0), self.0.stop.clone(), wake.clone()));
            }
            wake
        });
        wake.clone()
    }
}

pub(crate) fn failed<D: StoreDialect>(connections: &D::Connections, error: sqlx::Error) -> StoreError {
    match connections.explain(error) {
        OpenError::Database(error) => StoreError::backend(D::NAME, error),
        known => StoreError::backend(D::NAME, known),
    }
}

impl<D: StoreDialect> Clone for SqlStore<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D: StoreDialect> Drop for Inner<D> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl<D: StoreDialect> Writer<D> {
    /// A Writer for this outbox. Create it once and clone it: every clone shares its statements.
    pub fn new(store: &SqlStore<D>, outbox: &Outbox) -> Self {
        Self { context: D::writer_context(store, outbox.writer_core()), state: D::writer_state(store) }
    }
}

#[async_trait]
impl<D: Dialect> Store for SqlStore<D> {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.claim_rows(claim).await
    }

    async fn settle(&self, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        match settle.settlements {
            [] => Ok(Vec::new()),
            _ => D::settle(self, settle).await,
        }
    }

    async fn renew(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        D::renew(self, renew).await
    }

    async fn release(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        D::release(self, release).await
    }

    async fn park(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        D::park(self, park).await
    }

    async fn unpark(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        D::unpark(self, unpark).await
    }

    async fn purge_batch(&self, purge: &Purge) -> Result<u64, StoreError> {
        D::purge(self, purge).await
    }

    async fn oldest_pending(&self, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        D::oldest_pending(self, now).await
    }

    fn wake(&self) -> Option<Notifier> {
        Some(self.watched())
    }
}
