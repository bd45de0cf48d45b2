//! The Writer: stored rows, deliveries and hook calls, for every way in which a transaction can end.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use posthaste::{Admin as _, BoxError, MemoryStore, MemoryWriter, Outbox, Recorder, Routes};
use sqlx::{AssertSqlSafe, Connection as _};

use crate::support::*;

/// The tests of this file.
macro_rules! writer_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::writer:
            outside_a_transaction_is_refused,
            raw_begin_is_a_transaction_too,
            transaction_commits_on_ok,
            transaction_rolls_back_on_an_error_a_panic_and_when_it_is_dropped,
            tx_is_the_connection_that_sqlx_takes,
            function_over_any_transaction_runs_in_memory_and_in_the_database,
            engine_needs_no_connection_of_the_services_pool,
        );
    };
}
pub(crate) use writer_tests;

/// A running engine that is woken only by the hot path and by commits.
pub(crate) struct Fixture {
    pub(crate) db: Db,
    pub(crate) outbox: Outbox,
    pub(crate) writer: Writer,
    pub(crate) recorder: Recorder,
    pub(crate) log: HookCalls,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with_pool(4).await
    }

    /// On a database with a table of the service.
    pub(crate) async fn with_pool(connections: u32) -> Self {
        let db = Db::with_pool(connections).await;
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
        let (recorder, log) = (Recorder::new(), HookCalls::default());
        let outbox = db.engine(&recorder).hook(log.clone()).start().expect("a good configuration");
        let writer = Writer::new(&db.store, &outbox);
        Self { db, outbox, writer, recorder, log }
    }

    pub(crate) async fn begin(&self) -> Tx {
        self.writer.begin(&self.db.pool).await.expect("a transaction")
    }

    pub(crate) async fn write(&self, id: &str) {
        self.db.write(&self.writer, &[id]).await;
    }

    /// Waits until every due event is delivered. Returns all deliveries.
    pub(crate) async fn delivered(&self) -> Vec<String> {
        // Makes every pending row due unless it is leased.
        let due = format!("UPDATE outbox_event SET available_at = {LONG_AGO_SQL}");
        self.db.execute(&format!("{due} WHERE locked_by IS NULL AND status IN (0, 2)")).await;
        within_timeout("the engine is idle", self.outbox.idle()).await.expect("the store works");
        delivered(&self.recorder)
    }

    pub(crate) async fn orders(&self) -> i64 {
        self.db.int("SELECT count(*) FROM orders").await
    }

    pub(crate) async fn close(&self) {
        self.outbox.shutdown().await;
        self.db.close().await;
    }
}

// S0-23, S2-14, S3-24
pub(crate) async fn outside_a_transaction_is_refused() {
    let w = Fixture::with_pool(1).await;
    let mut connection = w.db.pool.acquire().await.unwrap();
    assert_no_transaction(w.writer.insert(&mut connection, event("a")).await);
    assert_no_transaction(w.writer.insert_all(&mut connection, events(&["b", "c", "d"])).await);
    for (n, end) in RAW_ENDS_SQL.iter().enumerate() {
        run(&mut *connection, "BEGIN").await.unwrap();
        run(&mut *connection, &format!("INSERT INTO orders VALUES ({n})")).await.unwrap();
        run(&mut *connection, end).await.unwrap();
        assert_no_transaction(w.writer.insert(&mut connection, event("e")).await);
    }
    // The check leaves nothing open.
    assert!(is_outside_a_transaction(&mut connection).await);
    assert!(!connection.is_in_transaction());
    drop(connection);
    assert!(w.db.ids().await.is_empty());
    w.close().await;
}

// S2-15
pub(crate) async fn raw_begin_is_a_transaction_too() {
    let w = Fixture::new().await;
    let mut connection = w.db.pool.acquire().await.unwrap();
    let id = |begin: &str| begin.replace(' ', "-");
    for begin in RAW_BEGINS_SQL {
        run(&mut *connection, begin).await.unwrap();
        let receipt = w.writer.insert(&mut connection, event(&id(begin))).await.unwrap();
        run(&mut *connection, "COMMIT").await.unwrap();
        w.outbox.committed(receipt);
    }
    drop(connection);
    assert_eq!(set_of(w.delivered().await), set_of(RAW_BEGINS_SQL.iter().map(|begin| id(begin))));
    assert_eq!(w.recorder.count(), RAW_BEGINS_SQL.len());
    w.close().await;
}

pub(crate) async fn transaction_commits_on_ok() {
    let w = Fixture::new().await;
    let result = w.writer.transaction(&w.db.pool, async |tx: &mut Tx| {
        sqlx::query("INSERT INTO orders VALUES (17)").execute(&mut **tx).await?;
        tx.write(event("a")).await?;
        Ok::<_, BoxError>(17)
    });
    assert_eq!(result.await.unwrap(), 17);
    assert_eq!(w.orders().await, 1);
    assert_eq!(w.delivered().await, ["a"]);
    w.close().await;
}

pub(crate) async fn transaction_rolls_back_on_an_error_a_panic_and_when_it_is_dropped() {
    let w = Fixture::with_pool(1).await;
    let failed = w.writer.transaction(&w.db.pool, async |tx: &mut Tx| {
        tx.write(event("failed")).await?;
        Err::<(), BoxError>("no".into())
    });
    assert_eq!(failed.await.unwrap_err().to_string(), "no");

    let panicked = w.writer.transaction(&w.db.pool, async |tx: &mut Tx| {
        tx.write(event("panicked")).await?;
        std::panic::resume_unwind(Box::new("no"));
        #[allow(unreachable_code, reason = "gives the closure its type")]
        Ok::<(), BoxError>(())
    });
    assert!(AssertUnwindSafe(panicked).catch_unwind().await.is_err());

    let written = tokio::sync::Notify::new();
    let cancelled = w.writer.transaction(&w.db.pool, async |tx: &mut Tx| {
        tx.write(event("cancelled")).await?;
        written.notify_one();
        std::future::pending::<Result<(), BoxError>>().await
    });
    tokio::select! {
        _ = cancelled => unreachable!("it waits for ever"),
        () = written.notified() => {}
    }
    assert!(w.db.ids().await.is_empty());
    assert!(w.delivered().await.is_empty());
    assert_eq!(w.log.of("after_rollback"), ["failed", "panicked", "cancelled"]);
    w.close().await;
}

// S2-12, S2-15
/// The usual style with sqlx: a function that takes the connection of its caller.
pub(crate) async fn tx_is_the_connection_that_sqlx_takes() {
    async fn add(connection: &mut Connection, id: i32) -> Result<(), sqlx::Error> {
        let insert = AssertSqlSafe(format!("INSERT INTO orders VALUES ({id})"));
        sqlx::query(insert).execute(connection).await.map(drop)
    }
    let w = Fixture::new().await;
    let mut tx = w.begin().await;
    add(&mut tx, 1).await.unwrap();
    let mut savepoint = tx.savepoint().await.unwrap();
    add(&mut savepoint, 2).await.unwrap();
    savepoint.release().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.orders().await, 2);
    w.close().await;
}

// S2-27, S2-36, S3-25, S4-08
pub(crate) async fn engine_needs_no_connection_of_the_services_pool() {
    let w = Fixture::with_pool(1).await;
    w.db.write(&w.db.plain_writer(), &["cold"]).await;
    let mut reading = w.db.pool.begin().await.unwrap();
    sqlx::query("SELECT count(*) FROM outbox_event").fetch_one(&mut *reading).await.unwrap();
    w.outbox.poll_once().await.unwrap();
    wait_until("it is settled", async || w.db.store.stats().await.unwrap().done == 1).await;
    assert_eq!(delivered(&w.recorder), ["cold"]);
    assert!(w.db.pool.try_acquire().is_none(), "the service's only connection is still in use");
    reading.rollback().await.unwrap();
    w.close().await;
}

pub(crate) async fn function_over_any_transaction_runs_in_memory_and_in_the_database() {
    async fn place(mut tx: impl posthaste::writer::Tx, id: &str) -> Result<(), BoxError> {
        tx.write(event(id)).await?;
        Ok(tx.commit().await?)
    }
    let w = Fixture::new().await;
    let memory = MemoryStore::new();
    let outbox = Outbox::builder(memory.clone(), Routes::new()).writer_only().build();
    let writer = MemoryWriter::new(&memory, &outbox.expect("a good configuration"));

    place(w.begin().await, "placed").await.expect("committed");
    place(writer.begin().await.expect("a transaction"), "placed").await.expect("committed");

    assert_eq!(w.delivered().await, ["placed"]);
    assert_eq!(memory.rows()[0].id.as_str(), "placed");
    w.close().await;
}
