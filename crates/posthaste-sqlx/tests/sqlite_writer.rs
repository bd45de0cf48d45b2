//! The writer's door on SQLite: what is stored, what is delivered and which hooks run, for every way
//! in which a transaction can end.
#![cfg(feature = "sqlite")]

mod support;

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use posthaste::{BoxError, CommitError, EventId, Outbox, Recorder, Source, StoreError, WriteError};
use posthaste_sqlx::{SqliteTx, SqliteWriter};
use sqlx::{Connection as _, Executor as _, SqliteConnection};
use support::*;

/// A running engine that only the hot path and the bell of commits can wake.
struct World {
    db: Db,
    outbox: Outbox,
    writer: SqliteWriter,
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

    async fn begin(&self) -> SqliteTx {
        self.writer.begin(&self.db.pool).await.expect("a transaction")
    }

    /// Waits until everything that could be delivered is, then answers what was.
    async fn delivered(&self) -> Vec<String> {
        // Whatever is leased to nobody alive any more shall be found too.
        self.db.execute("UPDATE outbox_event SET available_at = 0 WHERE locked_by IS NULL").await;
        soon("the engine is idle", self.outbox.idle()).await.expect("the store answers");
        delivered(&self.recorder)
    }
}

// S0-04, S2-01
#[tokio::test]
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
}

// S0-04
#[tokio::test]
async fn receipt_of_a_rolled_back_transaction_delivers_nothing_even_if_its_caller_says_committed() {
    let w = World::new().await;
    let mut tx = w.db.pool.begin().await.unwrap();
    let lie = w.writer.insert(&mut tx, event("undone")).await.unwrap();
    tx.rollback().await.unwrap();
    // Its number is given away again.
    let mut tx = w.begin().await;
    tx.write(event("kept")).await.unwrap();
    tx.commit().await.unwrap();
    w.outbox.committed(lie);
    assert_eq!(w.delivered().await, ["kept"]);
}

// T12
#[tokio::test]
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
    let rolled_back: Vec<_> = w.log.lines().into_iter().filter(|l| l.starts_with("after_rollback")).collect();
    assert_eq!(rolled_back, ["after_rollback undone", "after_rollback dropped"]);
}

// T12: through the connection, behind the back of the `Tx`.
#[tokio::test]
async fn raw_savepoint_that_is_rolled_back_takes_its_event_along() {
    let w = World::new().await;
    let mut tx = w.begin().await;
    tx.write(event("before")).await.unwrap();
    tx.execute("SAVEPOINT mine").await.unwrap();
    tx.write(event("undone")).await.unwrap();
    tx.execute("ROLLBACK TO mine").await.unwrap();
    tx.execute("RELEASE mine").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["before"]);
    assert!(w.log.lines().contains(&"after_rollback undone".to_owned()), "{:?}", w.log.lines());
}

/// A row that was rolled back gives its number to the next one.
#[tokio::test]
async fn event_of_a_rolled_back_savepoint_is_not_taken_for_the_one_that_has_its_number_now() {
    let w = World::new().await;
    let mut tx = w.begin().await;
    tx.execute("SAVEPOINT mine").await.unwrap();
    tx.write(event("undone")).await.unwrap();
    tx.execute("ROLLBACK TO mine").await.unwrap();
    tx.write(event("kept")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["kept"]);
    let lines = w.log.lines();
    assert_eq!(lines[lines.len() - 2..], ["after_rollback undone", "after_commit kept"]);

    let mut tx = w.begin().await;
    tx.execute("SAVEPOINT mine").await.unwrap();
    tx.write(event("undone")).await.unwrap();
    tx.execute("ROLLBACK TO mine").await.unwrap();
    let by_hand =
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('by-hand', 'Tested', '{}')";
    tx.execute(by_hand).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["by-hand", "kept"]);
}

/// Written, taken back and written again under the same id, as a retried step would.
#[tokio::test]
async fn event_that_is_written_again_after_its_savepoint_was_rolled_back_is_delivered_once() {
    let w = World::new().await;
    let mut tx = w.begin().await;
    tx.execute("SAVEPOINT mine").await.unwrap();
    tx.write(event("again")).await.unwrap();
    tx.execute("ROLLBACK TO mine").await.unwrap();
    tx.write_all(events(&["other", "again"])).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["again", "other"]);
    let commits: Vec<_> = w.log.lines().into_iter().filter(|line| line.starts_with("after_commit")).collect();
    assert_eq!(commits, ["after_commit other,again"]);
}

// T12
#[tokio::test]
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
    let rolled_back: Vec<_> = w.log.lines().into_iter().filter(|l| l.starts_with("after_rollback")).collect();
    assert_eq!(rolled_back, ["after_rollback dropped", "after_rollback in-vain"]);
}

// S0-23, S2-14, S3-24
#[tokio::test]
async fn outside_a_transaction_is_refused() {
    let w = World::new().await;
    let mut connection = w.db.pool.acquire().await.unwrap();
    assert_no_transaction(w.writer.insert(&mut connection, event("a")).await);
    // The question has left nothing open.
    connection.execute("BEGIN").await.unwrap();
    connection.execute("ROLLBACK").await.unwrap();

    for end in ["ROLLBACK", "COMMIT"] {
        let mut tx = w.db.pool.begin().await.unwrap();
        tx.execute(end).await.unwrap();
        assert_no_transaction(w.writer.insert(&mut tx, event("b")).await);
        assert_no_transaction(w.writer.insert_all(&mut tx, events(&["c", "d"])).await);
        drop(tx);
        // A pool of its own for each: the driver does not notice that its transaction is gone.
        let own = w.db.store.writer(&w.outbox);
        let mut tx = own.begin(&Db::new().await.pool).await.unwrap();
        tx.execute(end).await.unwrap();
        assert_no_transaction(tx.write(event("e")).await);
    }
    assert!(w.db.ids().await.is_empty());
}

fn assert_no_transaction<T: std::fmt::Debug>(answer: Result<T, WriteError>) {
    assert!(matches!(answer, Err(WriteError::Store(StoreError::NoTransaction))), "{answer:?}");
}

// S2-15
#[tokio::test]
async fn raw_begin_is_a_transaction_too() {
    let w = World::new().await;
    let mut connection = w.db.pool.acquire().await.unwrap();
    for begin in ["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "SAVEPOINT outermost"] {
        connection.execute(begin).await.unwrap();
        let receipt = w.writer.insert(&mut connection, event(&begin.replace(' ', "-"))).await.unwrap();
        connection.execute("COMMIT").await.unwrap();
        w.outbox.committed(receipt);
    }
    let expected = ["BEGIN", "BEGIN-EXCLUSIVE", "BEGIN-IMMEDIATE", "SAVEPOINT-outermost"];
    assert_eq!(w.delivered().await, expected);
}

// S2-02
#[tokio::test]
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
}

#[tokio::test]
async fn dropped_receipt_is_delivered_within_the_hot_lease() {
    let w = World::new().await;
    let mut tx = w.db.pool.begin().await.unwrap();
    drop(w.writer.insert(&mut tx, event("a")).await.unwrap());
    tx.commit().await.unwrap();
    let started = Instant::now();
    soon("it is released and found", w.recorder.wait_for(1)).await;
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(w.recorder.deliveries()[0].source, Source::Cold);
}

// T12
#[tokio::test]
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
}

#[tokio::test]
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
}

#[tokio::test]
async fn transaction_commits_on_ok() {
    let w = World::new().await;
    w.db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    let answer = w.writer.transaction(&w.db.pool, async |tx: &mut SqliteTx| {
        sqlx::query("INSERT INTO orders VALUES (17)").execute(&mut **tx).await?;
        tx.write(event("a")).await?;
        Ok::<_, BoxError>(17)
    });
    assert_eq!(answer.await.unwrap(), 17);
    assert_eq!(w.db.int("SELECT count(*) FROM orders").await, 1);
    assert_eq!(w.delivered().await, ["a"]);
}

#[tokio::test]
async fn transaction_rolls_back_on_an_error_a_panic_and_when_it_is_dropped() {
    let w = World::on(Db::with_pool(1).await);
    let failed = w.writer.transaction(&w.db.pool, async |tx: &mut SqliteTx| {
        tx.write(event("failed")).await?;
        Err::<(), BoxError>("no".into())
    });
    assert_eq!(failed.await.unwrap_err().to_string(), "no");

    let panicked = w.writer.transaction(&w.db.pool, async |tx: &mut SqliteTx| {
        tx.write(event("panicked")).await?;
        std::panic::resume_unwind(Box::new("no"));
        #[allow(unreachable_code, reason = "gives the closure its type")]
        Ok::<(), BoxError>(())
    });
    assert!(AssertUnwindSafe(panicked).catch_unwind().await.is_err());

    let written = tokio::sync::Notify::new();
    let cancelled = w.writer.transaction(&w.db.pool, async |tx: &mut SqliteTx| {
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
    let ends: Vec<_> = w.log.lines().into_iter().filter(|line| line.starts_with("after_rollback")).collect();
    assert_eq!(ends, ["after_rollback failed", "after_rollback panicked", "after_rollback cancelled"]);
}

// S2-11, S3-59
#[tokio::test]
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
}

#[tokio::test]
async fn commit_that_a_deferred_foreign_key_refuses_is_rolled_back_and_delivers_nothing() {
    let w = World::on(Db::with_pool(1).await);
    w.db.execute("CREATE TABLE parent (id INTEGER PRIMARY KEY)").await;
    w.db.execute("CREATE TABLE child (parent INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)").await;
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
}

#[tokio::test]
async fn commit_of_a_transaction_that_was_ended_behind_its_back_says_what_is_known() {
    let w = World::new().await;
    let mut tx = w.begin().await;
    tx.write(event("undone")).await.unwrap();
    tx.execute("ROLLBACK").await.unwrap();
    let answer = tx.commit().await;
    assert!(matches!(answer, Err(CommitError::RolledBack(_))), "{answer:?}");
    assert_eq!(w.log.lines().last().unwrap(), "after_rollback undone");

    let mut tx = w.begin().await;
    tx.write(event("committed")).await.unwrap();
    tx.execute("COMMIT").await.unwrap();
    let answer = tx.commit().await;
    assert!(matches!(answer, Err(CommitError::Unknown(_))), "{answer:?}");
    assert!(!w.log.lines().iter().any(|line| line.ends_with("commit committed")), "{:?}", w.log.lines());
    soon("the poller delivers it", w.recorder.wait_for(1)).await;
    assert_eq!(delivered(&w.recorder), ["committed"]);
}

/// The driver goes on to count a transaction that SQLite has ended by itself.
#[tokio::test]
async fn pool_is_usable_after_a_transaction_was_ended_behind_its_back() {
    let w = World::on(Db::with_pool(1).await);
    w.db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (1)").await;
    for end in ["ROLLBACK", "COMMIT", "INSERT OR ROLLBACK INTO orders VALUES (1)"] {
        for commits in [true, false] {
            let mut tx = w.begin().await;
            let _ = tx.execute(end).await;
            if commits {
                let _ = tx.commit().await;
            }
        }
    }
    let mut tx = w.begin().await;
    tx.write(event("kept")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["kept"]);
}

/// Written by two programs at once: the second sees what the first has committed.
#[tokio::test]
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
}

// S2-12, S2-15
/// What sqlx's users write: a function over the connection of whoever calls it.
#[tokio::test]
async fn tx_is_the_connection_that_sqlx_takes() {
    async fn add(connection: &mut SqliteConnection, id: i64) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO orders VALUES (?1)").bind(id).execute(connection).await.map(|_| ())
    }
    let w = World::new().await;
    w.db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    let mut tx = w.begin().await;
    add(&mut tx, 1).await.unwrap();
    let mut savepoint = tx.savepoint().await.unwrap();
    add(&mut savepoint, 2).await.unwrap();
    savepoint.release().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.db.int("SELECT count(*) FROM orders").await, 2);
}
