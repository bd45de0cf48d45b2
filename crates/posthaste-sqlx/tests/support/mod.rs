//! Test support for all databases: an outbox for one test, with a store, a pool and an engine.
//!
//! Everything that differs between databases is in the module `database` of each program: the types of its driver, and
//! [`Place`].

#![allow(dead_code, unreachable_pub, unused_imports, reason = "every program uses a part of it")]

pub mod child;

use std::ops::Deref;
use std::time::Duration;

use posthaste::admin::Filter;
use posthaste::store::{Claim, ClaimOrder, LeaseToken, Owner};
use posthaste::{
    Admin as _, Event, EventId, Outbox, Recorder, Route, Routes, Status, StoreError, WriteError,
};
use posthaste_sqlx::OpenError;
pub use posthaste_testkit::*;
use sqlx::pool::PoolOptions;
use sqlx::{AssertSqlSafe, Connection as _, Executor, Row as _};

pub use crate::database::*;

/// An outbox in a place of its own, with a pool like that of a service.
pub struct Db {
    pub store: Store,
    pub pool: Pool,
    pub place: Place,
}

impl Deref for Db {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Db {
    pub async fn new() -> Self {
        Self::with_pool(4).await
    }

    pub async fn with_pool(connections: u32) -> Self {
        Self::open(connections, |builder| builder).await
    }

    pub async fn open(connections: u32, change: impl FnOnce(StoreBuilder) -> StoreBuilder) -> Self {
        let place = Place::new().await;
        let store = change(place.builder()).migrate().connect().await.expect("the store opens");
        let pool = place.pool(connections).await;
        Self { store, pool, place }
    }

    /// A writer that the engine does not know, like one in another process: without a hot path.
    pub async fn writer_elsewhere(&self) -> Writer {
        plain_writer(&self.place.open().await)
    }

    /// A writer without an engine. Its rows wait for some engine.
    pub fn plain_writer(&self) -> Writer {
        plain_writer(&self.store)
    }

    /// An engine that delivers everything to the recorder and polls once an hour.
    pub fn engine(&self, recorder: &Recorder) -> posthaste::Builder {
        engine(&self.store, recorder)
    }

    pub fn start(&self, recorder: &Recorder) -> Outbox {
        self.engine(recorder).start().expect("a good configuration")
    }

    /// Writes events with these ids in one transaction.
    pub async fn write(&self, writer: &Writer, ids: &[&str]) {
        write(writer, &self.pool, events(ids)).await;
    }

    pub async fn execute(&self, sql: &str) {
        run(&self.pool, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub async fn int(&self, sql: &str) -> i64 {
        let sql = format!("SELECT CAST(({sql}) AS {INT_TYPE})");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&self.pool).await.expect("one value")
    }

    /// One value of any type, as text.
    pub async fn text(&self, sql: &str) -> Option<String> {
        text_of(&self.pool, sql).await
    }

    /// The ids in the table, in the order of insertion.
    pub async fn ids(&self) -> Vec<String> {
        texts_of(&self.pool, "SELECT event_id FROM outbox_event ORDER BY seq").await
    }

    pub async fn status(&self, id: &str) -> Option<Status> {
        let detail = self.store.get(&EventId::from(id)).await.expect("the store works");
        detail.map(|detail| detail.row.status)
    }

    pub async fn count(&self, status: Status) -> u64 {
        self.store.count(&Filter::status(status)).await.expect("the store works")
    }

    /// Waits until every row is DONE or DEAD.
    pub async fn until_nothing_waits(&self) {
        wait_until("everything is settled", async || {
            let stats = self.store.stats().await.expect("the store works");
            stats.new + stats.retry == 0
        })
        .await;
    }

    /// Removes the place. Only a passing test calls it, so the place of a failed test stays for inspection.
    pub async fn close(&self) {
        self.pool.close().await;
        self.store.close().await;
        self.place.remove().await;
    }
}

impl Place {
    /// A place in which these statements were executed.
    pub async fn with(sql: &str) -> Self {
        let place = Self::new().await;
        place.create().await;
        place.execute(sql).await;
        place
    }

    /// A place with an outbox.
    pub async fn migrated() -> Self {
        let place = Self::new().await;
        place.builder().migrate().connect().await.expect("an outbox").close().await;
        place
    }

    /// Opens the existing outbox, as another process would.
    pub async fn open(&self) -> Store {
        self.builder().connect().await.expect("the store opens")
    }

    pub async fn pool(&self, connections: u32) -> Pool {
        let pool = PoolOptions::new().max_connections(connections).connect_with(self.options());
        pool.await.expect("the pool opens")
    }

    pub async fn connect(&self) -> Connection {
        Connection::connect_with(&self.options()).await.expect("a connection")
    }

    /// Executes statements on a new connection.
    pub async fn execute(&self, sql: &str) {
        let done = run(&mut self.connect().await, sql).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The rows of a query with one column of text, on a new connection.
    pub async fn texts(&self, sql: &str) -> Vec<String> {
        texts_of(&mut self.connect().await, sql).await
    }
}

/// An engine that delivers everything to the recorder and polls once an hour.
pub fn engine(store: &Store, recorder: &Recorder) -> posthaste::Builder {
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    Outbox::builder(store.clone(), routes).single_node().poll_interval(HOUR)
}

pub fn plain_writer(store: &Store) -> Writer {
    let outbox = Outbox::builder(store.clone(), Routes::new()).writer_only().build();
    Writer::new(store, &outbox.expect("a good configuration"))
}

/// Writes events in one transaction.
pub async fn write(writer: &Writer, pool: &Pool, events: Vec<Event>) {
    let mut tx = writer.begin(pool).await.expect("a transaction");
    tx.write_all(events).await.expect("written");
    tx.commit().await.expect("committed");
}

/// A claim of a few events without other limits.
pub fn claim_for(owner: &Owner) -> Claim<'_> {
    Claim::new(owner, Duration::from_secs(30), 9)
}

pub async fn run(on: impl Executor<'_, Database = Database>, sql: &str) -> Result<(), sqlx::Error> {
    on.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.map(drop)
}

pub async fn text_of(on: impl Executor<'_, Database = Database>, sql: &str) -> Option<String> {
    let sql = format!("SELECT CAST(({sql}) AS {TEXT_TYPE})");
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(on).await.expect("one value")
}

/// The rows of a query with one column of text.
pub async fn texts_of(on: impl Executor<'_, Database = Database>, sql: &str) -> Vec<String> {
    let rows = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(on).await;
    rows.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Opens the store without and with migrations. Returns the error of each.
pub async fn errors_of(builder: StoreBuilder) -> [OpenError; 2] {
    let plain = builder.clone().connect().await.expect_err("it cannot be opened");
    [plain, builder.migrate().connect().await.expect_err("it cannot be migrated")]
}

pub fn assert_no_transaction<T: std::fmt::Debug>(result: Result<T, WriteError>) {
    assert!(matches!(result, Err(WriteError::Store(StoreError::NoTransaction))), "{result:?}");
}
