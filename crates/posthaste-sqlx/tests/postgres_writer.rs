//! The writer's door on PostgreSQL: what is stored, what is delivered and which hooks run, for every way
//! in which a transaction can end.
#![cfg(feature = "postgres")]

mod postgres_support;

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use postgres_support::*;
use posthaste::{
    Admin as _, BoxError, CommitError, EventId, Outbox, Recorder, Source, StoreError, WriteError,
};
use posthaste_sqlx::{PgTx, PgWriter};
use sqlx::{Connection as _, Executor as _, PgConnection};

/// A running engine that only the hot path and the bell of commits can wake.
struct World {
    db: Db,
    outbox: Outbox,
    writer: PgWriter,
    recorder: Recorder,
    log: Log,
}

impl World {
    async fn new() -> Self {
        Self::on(Db::new().await)
    }

    fn on(db: Db) -> Self {
        let (recorder, log) = (Recorder::new(), Log::default());
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
        soon("the engine is idle", self.outbox.idle()).await.expect("the store answers");
        delivered(&self.recorder)
    }

    async fn close(self) {
        self.outbox.shutdown().await;
        self.db.close().await;
    }
}

// S0-04, S2-01
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn rolled_back_event_is_never_delivered() {
    let w = World::new().await;
    let mut tx = w.begin().await;
    tx.write(event("undone")).await.unwrap();
    tx.write_all(events(&["undone-2", "undone-3"])).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = w.begin().await;
    tx.write(event("dropped")).await.unwrap();
    drop(tx);
    let mut tx = w.begin().await;
    tx.write(event("kept")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["kept"]);
    assert_eq!(w.db.ids().await, ["kept"]);
    w.close().await;
}

// S2-02
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn hot_path_delivers_after_commit() {
    let w = World::new().await;
    let mut tx = w.begin().await;
    tx.write(event("by-tx")).await.unwrap();
    tx.commit().await.unwrap();
    soon("the hot path delivers", w.recorder.wait_for(1)).await;

    let mut tx = w.db.pool.begin().await.unwrap();
    let receipt = w.writer.insert(&mut tx, event("by-receipt")).await.unwrap();
    tx.commit().await.unwrap();
    w.outbox.committed(receipt);
    soon("the hot path delivers", w.recorder.wait_for(2)).await;
    let sources: Vec<Source> = w.recorder.deliveries().iter().map(|delivery| delivery.source).collect();
    assert_eq!(sources, [Source::Hot, Source::Hot]);
    assert_eq!(w.delivered().await, ["by-receipt", "by-tx"], "once each");
    w.close().await;
}

// S0-04
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn receipt_of_a_rolled_back_transaction_delivers_nothing_even_if_its_caller_says_committed() {
    let w = World::new().await;
    let mut tx = w.db.pool.begin().await.unwrap();
    let lie = w.writer.insert(&mut tx, event("undone")).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = w.begin().await;
    tx.write(event("kept")).await.unwrap();
    tx.commit().await.unwrap();
    w.outbox.committed(lie);
    assert_eq!(w.delivered().await, ["kept"]);
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn dropped_receipt_is_delivered_within_the_hot_lease() {
    let w = World::new().await;
    let mut tx = w.db.pool.begin().await.unwrap();
    drop(w.writer.insert(&mut tx, event("a")).await.unwrap());
    tx.commit().await.unwrap();
    let started = Instant::now();
    soon("it is released and found", w.recorder.wait_for(1)).await;
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(w.recorder.deliveries()[0].source, Source::Cold);
    w.close().await;
}

/// PostgreSQL answers the COMMIT of such a transaction with a ROLLBACK that the driver takes for `Ok`.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn aborted_transaction_whose_error_was_swallowed_is_rolled_back_and_delivers_nothing() {
    let w = World::on(Db::with_pool(1).await);
    for (n, wrong) in ["SELECT 1/0", "SELECT * FROM nowhere", "no sql"].into_iter().enumerate() {
        let mut tx = w.begin().await;
        tx.write(event("undone")).await.unwrap();
        let _ = tx.execute(wrong).await.expect_err(wrong);
        let answer = tx.commit().await;
        assert!(matches!(answer, Err(CommitError::RolledBack(_))), "{wrong}: {answer:?}");
        assert_eq!(w.log.of("after_rollback").len(), n + 1, "{wrong}");
    }
    assert!(w.log.of("after_commit").is_empty());
    // The one connection is free again, outside any transaction.
    let mut tx = w.begin().await;
    tx.write(event("kept")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.db.ids().await, ["kept"]);
    assert_eq!(w.delivered().await, ["kept"]);
    w.close().await;
}

/// Also where no event stands for it: what else was written in that transaction is gone.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn aborted_transaction_without_events_is_not_called_committed() {
    let w = World::new().await;
    w.db.execute("CREATE TABLE orders (id int PRIMARY KEY)").await;
    let mut tx = w.begin().await;
    tx.execute("INSERT INTO orders VALUES (17)").await.unwrap();
    let _ = tx.execute("SELECT 1/0").await.expect_err("a wrong statement");
    // The write fails as well, so that the transaction has no events.
    let _ = tx.write(event("undone")).await.expect_err("the transaction is aborted");
    let answer = tx.commit().await;
    assert!(matches!(answer, Err(CommitError::RolledBack(_))), "{answer:?}");
    assert_eq!(w.db.int("SELECT count(*) FROM orders").await, 0);
    w.close().await;
}

/// The receipt's caller saw `Ok` from COMMIT, as sqlx answers for an aborted transaction.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn receipt_of_an_aborted_transaction_delivers_nothing() {
    let w = World::new().await;
    let mut tx = w.db.pool.begin().await.unwrap();
    let receipt = w.writer.insert(&mut tx, event("undone")).await.unwrap();
    let _ = tx.execute("SELECT 1/0").await.expect_err("a wrong statement");
    tx.commit().await.expect("the driver believes it");
    w.outbox.committed(receipt);
    assert!(w.delivered().await.is_empty());
    assert!(w.db.ids().await.is_empty());
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn commit_that_a_deferred_constraint_refuses_is_rolled_back_and_delivers_nothing() {
    let w = World::on(Db::with_pool(1).await);
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

// T12
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn rolled_back_savepoint_takes_its_event_along() {
    let w = World::new().await;
    let mut tx = w.begin().await;
    tx.write(event("before")).await.unwrap();
    let mut savepoint = tx.savepoint().await.unwrap();
    savepoint.write(event("undone")).await.unwrap();
    savepoint.rollback().await.unwrap();
    let mut savepoint = tx.savepoint().await.unwrap();
    savepoint.write(event("dropped")).await.unwrap();
    drop(savepoint);
    tx.write(event("after")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["after", "before"]);
    assert_eq!(w.db.ids().await, ["before", "after"]);
    assert_eq!(w.log.of("after_rollback"), ["undone", "dropped"]);
    w.close().await;
}

// T12: through the connection, behind the back of the `Tx`.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn raw_savepoint_that_is_rolled_back_takes_its_event_along() {
    let w = World::new().await;
    let mut tx = w.begin().await;
    tx.write(event("before")).await.unwrap();
    tx.execute("SAVEPOINT mine").await.unwrap();
    tx.write(event("undone")).await.unwrap();
    // An error is healed by the way back.
    let _ = tx.execute("SELECT 1/0").await.expect_err("a wrong statement");
    tx.execute("ROLLBACK TO mine").await.unwrap();
    tx.execute("RELEASE mine").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["before"]);
    assert_eq!(w.db.ids().await, ["before"]);
    assert_eq!(
        (w.log.of("after_rollback"), w.log.of("after_commit")),
        (vec!["undone".into()], vec!["before".into()])
    );
    w.close().await;
}

/// Written, taken back and written again under the same id, as a retried step would.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn event_that_is_written_again_after_its_savepoint_was_rolled_back_is_delivered_once() {
    let w = World::new().await;
    let mut tx = w.begin().await;
    tx.execute("SAVEPOINT mine").await.unwrap();
    tx.write(event("again")).await.unwrap();
    tx.execute("ROLLBACK TO mine").await.unwrap();
    tx.write_all(events(&["other", "again"])).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["again", "other"]);
    assert_eq!(w.log.of("after_commit"), ["other,again"]);
    w.close().await;
}

// T12
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn nested_savepoints_end_from_the_inside() {
    let w = World::new().await;
    let mut tx = w.begin().await;
    let mut outer = tx.savepoint().await.unwrap();
    outer.write(event("outer")).await.unwrap();
    let mut kept = outer.savepoint().await.unwrap();
    kept.write(event("kept")).await.unwrap();
    kept.release().await.unwrap();
    let mut dropped = outer.savepoint().await.unwrap();
    dropped.write(event("dropped")).await.unwrap();
    drop(dropped);
    outer.release().await.unwrap();
    let mut undone = tx.savepoint().await.unwrap();
    let mut in_vain = undone.savepoint().await.unwrap();
    in_vain.write(event("in-vain")).await.unwrap();
    in_vain.release().await.unwrap();
    undone.rollback().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["kept", "outer"]);
    assert_eq!(w.db.ids().await, ["outer", "kept"]);
    assert_eq!(w.log.of("after_rollback"), ["dropped", "in-vain"]);
    w.close().await;
}

// T12
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn receipt_of_a_savepoint_is_only_a_wake_up_and_its_row_is_unleased() {
    let w = World::new().await;
    let mut tx = w.db.pool.begin().await.unwrap();
    let direct = w.writer.insert(&mut tx, event("direct")).await.unwrap();
    let mut savepoint = tx.begin().await.unwrap();
    let nested = w.writer.insert(&mut savepoint, event("nested")).await.unwrap();
    savepoint.commit().await.unwrap();
    let leased = "SELECT event_id, locked_by IS NOT NULL, lease_token <> 0 FROM outbox_event ORDER BY seq";
    let leased: Vec<(String, bool, bool)> = sqlx::query_as(leased).fetch_all(&mut *tx).await.unwrap();
    assert_eq!(leased, [("direct".to_owned(), true, true), ("nested".to_owned(), false, false)]);
    tx.commit().await.unwrap();
    w.outbox.committed(nested);
    w.outbox.committed(direct);
    soon("both are delivered", w.recorder.wait_for(2)).await;
    let source_of = |id: &str| w.recorder.deliveries().iter().find(|d| d.id().as_str() == id).unwrap().source;
    assert_eq!((source_of("direct"), source_of("nested")), (Source::Hot, Source::Cold));
    w.close().await;
}

// S0-23, S2-14, S3-24
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn outside_a_transaction_is_refused() {
    let w = World::on(Db::with_pool(1).await);
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
    let w = World::new().await;
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
    let w = World::new().await;
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
async fn existing_id_is_a_no_op() {
    let w = World::new().await;
    let mut tx = w.begin().await;
    assert_eq!(tx.write(event("b")).await.unwrap(), Some(EventId::from("b")));
    tx.commit().await.unwrap();

    let mut tx = w.db.pool.begin().await.unwrap();
    let single = w.writer.insert(&mut tx, event("b")).await.unwrap();
    assert!(single.is_empty());
    assert_eq!(single.duplicates(), [EventId::from("b")]);
    // The one that exists stands in the middle: the numbers of the others do not follow each other.
    let batch = w.writer.insert_all(&mut tx, events(&["a", "b", "c", "c"])).await.unwrap();
    let ids: Vec<&str> = batch.ids().map(EventId::as_str).collect();
    assert_eq!(ids, ["a", "c"]);
    let mut duplicates: Vec<&str> = batch.duplicates().iter().map(EventId::as_str).collect();
    duplicates.sort_unstable();
    assert_eq!(duplicates, ["b", "c"]);
    let none = w.writer.insert_all(&mut tx, events(&["a", "b", "c"])).await.unwrap();
    assert_eq!((none.is_empty(), none.duplicates().len()), (true, 3));
    tx.commit().await.unwrap();
    for receipt in [single, batch, none] {
        w.outbox.committed(receipt);
    }
    soon("all are delivered", w.recorder.wait_for(3)).await;
    assert_eq!(w.delivered().await, ["a", "b", "c"], "once each");
    assert!(w.recorder.deliveries().iter().all(|delivery| delivery.source == Source::Hot));
    w.close().await;
}

/// Written by several at once: the second waits for the first and sees what it has committed.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn two_transactions_with_one_id_store_it_once() {
    let w = World::new().await;
    let write = |id: &'static str| {
        let (writer, pool) = (w.writer.clone(), w.db.pool.clone());
        async move {
            let mut tx = writer.begin(&pool).await.unwrap();
            tx.write(event(id)).await.unwrap();
            tx.commit().await.unwrap();
        }
    };
    tokio::join!(write("same"), write("same"), write("same"), write("other"));
    assert_eq!(w.delivered().await, ["other", "same"]);
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn transaction_commits_on_ok() {
    let w = World::new().await;
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
    let w = World::on(Db::with_pool(1).await);
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

// S2-11, S3-59
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn hooks_run_in_order_and_after_commit_only_after_the_commit() {
    let w = World::new().await;
    let mut tx = w.begin().await;
    tx.write_all(events(&["a", "b"])).await.unwrap();
    tx.write(event("c")).await.unwrap();
    let before = ["before_write a,b", "after_write a,b", "before_write c", "after_write c"];
    assert_eq!(w.log.lines(), before);
    tx.commit().await.unwrap();
    assert_eq!(w.log.lines()[4..], ["after_commit a,b", "after_commit c"]);

    let mut tx = w.begin().await;
    tx.write(event("d")).await.unwrap();
    drop(tx);
    assert_eq!(w.log.lines()[6..], ["before_write d", "after_write d", "after_rollback d"]);
    w.close().await;
}

/// The clock of a transaction stands still at its beginning: a lease that counted from there would be
/// over before the row is committed.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn born_leased_row_counts_from_its_statement_and_not_from_the_start_of_its_transaction() {
    let w = World::new().await;
    let mut tx = w.begin().await;
    tx.execute("SELECT pg_sleep(1.5)").await.unwrap();
    tx.write(event("single")).await.unwrap();
    tx.write_all(events(&["batch-1", "batch-2"])).await.unwrap();
    let late = "SELECT count(*) FROM outbox_event WHERE locked_by IS NOT NULL
        AND least(locked_at, inserted_at, available_at - interval '10 seconds') > now() + interval '1.4 seconds'";
    let late: i64 = sqlx::query_scalar(late).fetch_one(&mut *tx).await.unwrap();
    assert_eq!(late, 3, "all of them, by all their times");
    tx.commit().await.unwrap();
    soon("the hot path delivers", w.recorder.wait_for(3)).await;
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
    let w = World::new().await;
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
    let w = World::on(Db::with_pool(1).await);
    let mut tx = w.db.plain_writer().begin(&w.db.pool).await.unwrap();
    tx.write(event("cold")).await.unwrap();
    tx.commit().await.unwrap();
    let held = w.db.pool.acquire().await.unwrap();
    w.outbox.poll_once().await.unwrap();
    until("it is settled", async || w.db.store.stats().await.unwrap().done == 1).await;
    assert!(w.db.pool.try_acquire().is_none(), "the service's only connection is still in use");
    drop(held);
    w.close().await;
}
