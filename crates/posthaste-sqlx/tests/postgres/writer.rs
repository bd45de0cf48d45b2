//! The writer on PostgreSQL: what is stored, what is delivered and which hooks run, for every way
//! in which a transaction can end.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use posthaste::{Admin as _, BoxError, CommitError, Outbox, Recorder, Source, StoreError, WriteError};
use posthaste_sqlx::{PgTx, PgWriter};
use sqlx::{Connection as _, Executor as _, PgConnection};

use crate::support::*;

/// A running engine that only the hot path and the wake-ups of commits can wake.
struct Fixture {
    db: Db,
    outbox: Outbox,
    writer: PgWriter,
    recorder: Recorder,
    log: HookCalls,
}

impl Fixture {
    async fn new() -> Self {
        Self::on(Db::new().await)
    }

    fn on(db: Db) -> Self {
        let (recorder, log) = (Recorder::new(), HookCalls::default());
        let outbox = db.engine(&recorder).hook(log.clone()).start().expect("a good configuration");
        let writer = db.store.writer(&outbox);
        Self { db, outbox, writer, recorder, log }
    }

    async fn begin(&self) -> PgTx {
        self.writer.begin(&self.db.pool).await.expect("a transaction")
    }

    /// Waits until everything that could be delivered is, then answers what was.
    async fn delivered(&self) -> Vec<String> {
        // Whatever is leased to nobody alive any more shall be found too.
        self.db.execute("UPDATE outbox_event SET available_at = 'epoch' WHERE locked_by IS NULL").await;
        within_timeout("the engine is idle", self.outbox.idle()).await.expect("the store answers");
        delivered(&self.recorder)
    }

    async fn close(self) {
        self.outbox.shutdown().await;
        self.db.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn commit_that_a_deferred_constraint_refuses_is_rolled_back_and_delivers_nothing() {
    let w = Fixture::on(Db::with_pool(1).await);
    w.db.execute("CREATE TABLE parent (id int PRIMARY KEY)").await;
    w.db.execute("CREATE TABLE child (parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)").await;
    let mut tx = w.begin().await;
    tx.write(event("undone")).await.unwrap();
    tx.execute("INSERT INTO child VALUES (1)").await.unwrap();
    let refused = tx.commit().await;
    assert!(matches!(refused, Err(CommitError::RolledBack(_))), "{refused:?}");
    assert_eq!(w.log.lines().last().unwrap(), "after_rollback undone");
    // The one connection is free again, outside any transaction.
    let mut tx = w.begin().await;
    tx.write(event("kept")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.db.ids().await, ["kept"]);
    assert_eq!(w.delivered().await, ["kept"]);
    w.close().await;
}

// S0-23, S2-14, S3-24
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn outside_a_transaction_is_refused() {
    let w = Fixture::on(Db::with_pool(1).await);
    let mut connection = w.db.pool.acquire().await.unwrap();
    assert_no_transaction(w.writer.insert(&mut connection, event("a")).await);
    assert_no_transaction(w.writer.insert_all(&mut connection, events(&["b", "c"])).await);
    for end in ["ROLLBACK", "COMMIT", "END", "ABORT"] {
        connection.execute("BEGIN").await.unwrap();
        connection.execute(end).await.unwrap();
        assert_no_transaction(w.writer.insert(&mut connection, event("d")).await);
    }
    // The question has left nothing open.
    assert!(is_outside_a_transaction(&mut connection).await);
    assert!(!connection.is_in_transaction());
    drop(connection);
    assert!(w.db.ids().await.is_empty());
    w.close().await;
}

fn assert_no_transaction<T: std::fmt::Debug>(answer: Result<T, WriteError>) {
    assert!(matches!(answer, Err(WriteError::Store(StoreError::NoTransaction))), "{answer:?}");
}

// S2-15
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn raw_begin_is_a_transaction_too() {
    let w = Fixture::new().await;
    let mut connection = w.db.pool.acquire().await.unwrap();
    for begin in ["BEGIN", "START TRANSACTION", "BEGIN ISOLATION LEVEL SERIALIZABLE"] {
        connection.execute(begin).await.unwrap();
        let receipt = w.writer.insert(&mut connection, event(&begin.replace(' ', "-"))).await.unwrap();
        connection.execute("COMMIT").await.unwrap();
        w.outbox.committed(receipt);
    }
    drop(connection);
    assert_eq!(w.delivered().await, ["BEGIN", "BEGIN-ISOLATION-LEVEL-SERIALIZABLE", "START-TRANSACTION"]);
    w.close().await;
}

/// A raw transaction that is aborted already: the question whether there is one fails, and is not
/// mistaken for a no.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn insert_into_an_aborted_raw_transaction_fails_with_the_servers_words() {
    let w = Fixture::new().await;
    let mut connection = w.db.pool.acquire().await.unwrap();
    connection.execute("BEGIN").await.unwrap();
    let _ = connection.execute("SELECT 1/0").await.expect_err("a wrong statement");
    let error = w.writer.insert(&mut connection, event("a")).await.expect_err("aborted");
    assert!(matches!(error, WriteError::Store(StoreError::Backend { .. })), "{error:?}");
    assert!(format!("{error:?}").contains("25P02"), "{error:?}");
    connection.execute("ROLLBACK").await.unwrap();
    drop(connection);
    assert!(w.db.ids().await.is_empty());
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn transaction_commits_on_ok() {
    let w = Fixture::new().await;
    w.db.execute("CREATE TABLE orders (id int PRIMARY KEY)").await;
    let answer = w.writer.transaction(&w.db.pool, async |tx: &mut PgTx| {
        sqlx::query("INSERT INTO orders VALUES (17)").execute(&mut **tx).await?;
        tx.write(event("a")).await?;
        Ok::<_, BoxError>(17)
    });
    assert_eq!(answer.await.unwrap(), 17);
    assert_eq!(w.db.int("SELECT count(*) FROM orders").await, 1);
    assert_eq!(w.delivered().await, ["a"]);
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn transaction_rolls_back_on_an_error_a_panic_and_when_it_is_dropped() {
    let w = Fixture::on(Db::with_pool(1).await);
    let failed = w.writer.transaction(&w.db.pool, async |tx: &mut PgTx| {
        tx.write(event("failed")).await?;
        Err::<(), BoxError>("no".into())
    });
    assert_eq!(failed.await.unwrap_err().to_string(), "no");

    let panicked = w.writer.transaction(&w.db.pool, async |tx: &mut PgTx| {
        tx.write(event("panicked")).await?;
        std::panic::resume_unwind(Box::new("no"));
        #[allow(unreachable_code, reason = "gives the closure its type")]
        Ok::<(), BoxError>(())
    });
    assert!(AssertUnwindSafe(panicked).catch_unwind().await.is_err());

    let written = tokio::sync::Notify::new();
    let cancelled = w.writer.transaction(&w.db.pool, async |tx: &mut PgTx| {
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

/// The clock of a transaction stands still at its beginning: a lease that counted from there would be
/// over before the row is committed.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn born_leased_row_counts_from_its_statement_and_not_from_the_start_of_its_transaction() {
    let w = Fixture::new().await;
    let mut tx = w.begin().await;
    tx.execute("SELECT pg_sleep(1.5)").await.unwrap();
    tx.write(event("single")).await.unwrap();
    tx.write_all(events(&["batch-1", "batch-2"])).await.unwrap();
    let late = "SELECT count(*) FROM outbox_event WHERE locked_by IS NOT NULL
        AND least(locked_at, inserted_at, available_at - interval '10 seconds') > now() + interval '1.4 seconds'";
    let late: i64 = sqlx::query_scalar(late).fetch_one(&mut *tx).await.unwrap();
    assert_eq!(late, 3, "all of them, by all their times");
    tx.commit().await.unwrap();
    within_timeout("the hot path delivers", w.recorder.wait_for(3)).await;
    assert!(w.recorder.deliveries().iter().all(|delivery| delivery.source == Source::Hot));
    w.close().await;
}

/// What sqlx's users write: a function over the connection of whoever calls it.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn tx_is_the_connection_that_sqlx_takes() {
    async fn add(connection: &mut PgConnection, id: i32) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO orders VALUES ($1)").bind(id).execute(connection).await.map(|_| ())
    }
    let w = Fixture::new().await;
    w.db.execute("CREATE TABLE orders (id int PRIMARY KEY)").await;
    let mut tx = w.begin().await;
    add(&mut tx, 1).await.unwrap();
    let mut savepoint = tx.savepoint().await.unwrap();
    add(&mut savepoint, 2).await.unwrap();
    savepoint.release().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.db.int("SELECT count(*) FROM orders").await, 2);
    w.close().await;
}

// S2-27, S2-36, S3-25, S4-08
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn engine_needs_no_connection_of_the_services_pool() {
    let w = Fixture::on(Db::with_pool(1).await);
    let mut tx = w.db.plain_writer().begin(&w.db.pool).await.unwrap();
    tx.write(event("cold")).await.unwrap();
    tx.commit().await.unwrap();
    let held = w.db.pool.acquire().await.unwrap();
    w.outbox.poll_once().await.unwrap();
    wait_until("it is settled", async || w.db.store.stats().await.unwrap().done == 1).await;
    assert!(w.db.pool.try_acquire().is_none(), "the service's only connection is still in use");
    drop(held);
    w.close().await;
}

/// Shards often have the same name for their databases.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn database_of_the_same_name_on_another_server_is_refused() {
    let db = Db::new().await;
    let another = OwnServer::start().await;
    let other = posthaste_sqlx::PgStore::builder(&options_of(&another)).schema(db.schema.clone());
    let other = other.migrate().connect().await.expect("the store opens");
    let pool = pool_in(&db.schema, options_of(&another), 1).await;
    let mut tx = db.plain_writer().begin(&pool).await.unwrap();
    let refused = tx.write(event("lost")).await.expect_err("it is another server").to_string();
    for port in [server().get_port(), another.port()] {
        assert!(refused.contains(&format!("postgres on 127.0.0.1:{port}")), "{refused}");
    }
    drop(tx);
    pool.close().await;
    other.close().await;
    db.close().await;
}
