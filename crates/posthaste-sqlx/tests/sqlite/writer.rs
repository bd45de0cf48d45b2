//! The writer's door on SQLite: what is stored, what is delivered and which hooks run, for every way
//! in which a transaction can end.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use posthaste::{BoxError, CommitError, Outbox, Recorder, Routes, StoreError, WriteError};
use posthaste_sqlx::{SqliteTx, SqliteWriter};
use sqlx::{Executor as _, SqliteConnection};

use crate::support::*;

/// A running engine that only the hot path and the wake-ups of commits can wake.
struct Fixture {
    db: Db,
    outbox: Outbox,
    writer: SqliteWriter,
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

    async fn begin(&self) -> SqliteTx {
        self.writer.begin(&self.db.pool).await.expect("a transaction")
    }

    /// Waits until everything that could be delivered is, then answers what was.
    async fn delivered(&self) -> Vec<String> {
        // Whatever is leased to nobody alive any more shall be found too.
        self.db.execute("UPDATE outbox_event SET available_at = 0 WHERE locked_by IS NULL").await;
        within_timeout("the engine is idle", self.outbox.idle()).await.expect("the store answers");
        delivered(&self.recorder)
    }
}

/// A row that was rolled back gives its number to the next one, whoever inserts it.
#[tokio::test]
async fn event_of_a_rolled_back_savepoint_is_not_taken_for_a_foreign_row_that_has_its_number_now() {
    let w = Fixture::new().await;
    let mut tx = w.begin().await;
    tx.execute("SAVEPOINT mine").await.unwrap();
    tx.write(event("undone")).await.unwrap();
    tx.execute("ROLLBACK TO mine").await.unwrap();
    let by_hand =
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('by-hand', 'Tested', '{}')";
    tx.execute(by_hand).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["by-hand"]);
}

// S0-23, S2-14, S3-24
#[tokio::test]
async fn outside_a_transaction_is_refused() {
    let w = Fixture::new().await;
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
        let pool = sqlx::SqlitePool::connect_with(w.db.options.clone()).await.unwrap();
        let mut tx = own.begin(&pool).await.unwrap();
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
    let w = Fixture::new().await;
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

#[tokio::test]
async fn transaction_commits_on_ok() {
    let w = Fixture::new().await;
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
    let w = Fixture::on(Db::with_pool(1).await);
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

#[tokio::test]
async fn commit_that_a_deferred_foreign_key_refuses_is_rolled_back_and_delivers_nothing() {
    let w = Fixture::on(Db::with_pool(1).await);
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
    let w = Fixture::new().await;
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
    within_timeout("the poller delivers it", w.recorder.wait_for(1)).await;
    assert_eq!(delivered(&w.recorder), ["committed"]);
}

/// The driver goes on to count a transaction that SQLite has ended by itself.
#[tokio::test]
async fn pool_is_usable_after_a_transaction_was_ended_behind_its_back() {
    let w = Fixture::on(Db::with_pool(1).await);
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

// S2-12, S2-15
/// What sqlx's users write: a function over the connection of whoever calls it.
#[tokio::test]
async fn tx_is_the_connection_that_sqlx_takes() {
    async fn add(connection: &mut SqliteConnection, id: i64) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO orders VALUES (?1)").bind(id).execute(connection).await.map(|_| ())
    }
    let w = Fixture::new().await;
    w.db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    let mut tx = w.begin().await;
    add(&mut tx, 1).await.unwrap();
    let mut savepoint = tx.savepoint().await.unwrap();
    add(&mut savepoint, 2).await.unwrap();
    savepoint.release().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.db.int("SELECT count(*) FROM orders").await, 2);
}

/// A file has many names, and each of them is good.
#[cfg(unix)]
#[tokio::test]
async fn pool_of_the_same_file_by_another_name_is_taken() {
    let w = Fixture::new().await;
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(w.db.path(), &link).unwrap();
    let roundabout = w.db.dir.path().join("..").join(w.db.dir.path().file_name().unwrap()).join("test.db");
    for (id, name) in [("link", link), ("roundabout", roundabout)] {
        let pool = sqlx::SqlitePool::connect_with(w.db.options.clone().filename(&name)).await.unwrap();
        let mut tx = w.writer.begin(&pool).await.unwrap();
        tx.write(event(id)).await.unwrap();
        tx.commit().await.unwrap();
        pool.close().await;
    }
    assert_eq!(w.db.ids().await, ["link", "roundabout"]);
}

#[tokio::test]
async fn one_database_in_memory_is_told_from_another() {
    let memory = async || {
        let pool = sqlx::SqlitePool::connect("sqlite::memory:").await.unwrap();
        let store = posthaste_sqlx::SqliteStore::builder(&pool.connect_options()).migrate().connect().await;
        (pool, store.unwrap())
    };
    let ((pool, store), (other, _other_store)) = (memory().await, memory().await);
    let outbox = Outbox::builder(store.clone(), Routes::new()).writer_only().build().unwrap();
    let writer = store.writer(&outbox);
    let mut tx = writer.begin(&pool).await.unwrap();
    tx.write(event("kept")).await.unwrap();
    tx.commit().await.unwrap();
    let refused = writer.begin(&other).await.expect_err("it is another one");
    assert!(matches!(refused, StoreError::OtherDatabase { .. }), "{refused:?}");
    let w = Fixture::new().await;
    let refused = writer.begin(&w.db.pool).await.expect_err("it is a file");
    assert!(refused.to_string().contains("test.db"), "{refused}");
}
