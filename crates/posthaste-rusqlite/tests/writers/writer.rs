//! Tests beyond the Writer conformance suite: closures, threads, refused COMMITs, transactions that SQLite ends by
//! itself, writer contexts without a store.

use std::panic::{AssertUnwindSafe, catch_unwind};

use posthaste::conformance::Scene;
use posthaste::{BoxError, CommitError, Outbox, Recorder, Route, Routes, StoreError, WriteError};
use posthaste_rusqlite::{SqliteTx, SqliteWriter};
use posthaste_sql_writer::{Sqlite, WriterContext};
use posthaste_sqlx::SqliteStore;
use posthaste_testkit::{TransactionEnds, delivered, event, within_timeout};
use rusqlite::Connection;
use tempfile::TempDir;

/// A file for one test, an engine on it, and a record of how each transaction ended.
struct Fixture {
    connection: Connection,
    store: SqliteStore,
    outbox: Outbox,
    writer: SqliteWriter,
    recorder: Recorder,
    ends: TransactionEnds,
    _dir: TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("test.db");
        let url = format!("sqlite:{}?mode=rwc", file.display());
        let builder = SqliteStore::builder(&url.parse().expect("a valid URL"));
        let store = builder.migrate().connect().await.expect("the store opens");
        let connection = Connection::open(file).expect("the file opens");
        connection.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, item)").expect("a table");
        let (recorder, ends) = (Recorder::new(), TransactionEnds::default());
        let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
        let builder = Outbox::builder(store.clone(), routes).single_node().hook(ends.clone());
        let outbox = builder.start().expect("a valid configuration");
        let writer = SqliteWriter::new(&store, &outbox);
        Self { connection, store, outbox, writer, recorder, ends, _dir: dir }
    }

    fn ids(&self) -> Vec<String> {
        let query = self.connection.prepare("SELECT event_id FROM outbox_event ORDER BY seq");
        let mut query = query.expect("a valid query");
        let ids = query.query_map([], |row| row.get(0)).expect("rows");
        ids.collect::<Result<_, _>>().expect("texts")
    }

    async fn delivered(&self) -> Vec<String> {
        within_timeout("the engine is idle", self.outbox.idle()).await.expect("the store works");
        delivered(&self.recorder)
    }
}

fn assert_no_transaction<T: std::fmt::Debug>(result: Result<T, WriteError>) {
    assert!(matches!(result, Err(WriteError::Store(StoreError::NoTransaction))), "{result:?}");
}

#[tokio::test]
async fn transaction_commits_on_ok_and_rolls_back_on_an_error_and_a_panic() {
    let mut w = Fixture::new().await;
    let result = w.writer.transaction(&mut w.connection, |tx: &mut SqliteTx<'_>| {
        tx.execute("INSERT INTO orders DEFAULT VALUES", [])?;
        tx.write(event("kept"))?;
        Ok::<_, BoxError>(17)
    });
    assert_eq!(result.unwrap(), 17);
    let failed = w.writer.transaction(&mut w.connection, |tx: &mut SqliteTx<'_>| {
        tx.write(event("failed"))?;
        Err::<(), BoxError>("no".into())
    });
    assert_eq!(failed.unwrap_err().to_string(), "no");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        w.writer.transaction(&mut w.connection, |tx: &mut SqliteTx<'_>| {
            tx.write(event("panicked"))?;
            std::panic::resume_unwind(Box::new("no"));
            #[allow(unreachable_code, reason = "gives the closure its type")]
            Ok::<(), BoxError>(())
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(w.ends.take(), ["committed kept", "rolled back failed", "rolled back panicked"]);
    assert_eq!(w.ids(), ["kept"]);
    assert_eq!(w.delivered().await, ["kept"]);
}

/// A common pattern with rusqlite: a loop over rows, with a statement that borrows the connection.
#[tokio::test]
async fn events_are_written_while_a_query_is_read() {
    let mut w = Fixture::new().await;
    w.connection.execute_batch("INSERT INTO orders VALUES (1, 'tea'), (2, 'coffee')").unwrap();
    let tx = w.writer.begin(&mut w.connection).unwrap();
    let mut items = tx.prepare("SELECT item FROM orders").unwrap();
    for item in items.query_map([], |row| row.get::<_, String>(0)).unwrap() {
        tx.write(event(&item.unwrap())).unwrap();
    }
    drop(items);
    tx.commit().unwrap();
    assert_eq!(w.delivered().await, ["coffee", "tea"]);
}

/// Writing an event needs no Tokio runtime.
#[tokio::test]
async fn event_written_on_a_plain_thread_takes_the_hot_path() {
    let Fixture { mut connection, outbox, writer, recorder, store, _dir, .. } = Fixture::new().await;
    let thread = std::thread::spawn(move || {
        let tx = writer.begin(&mut connection)?;
        tx.write(event("a"))?;
        tx.commit()?;
        Ok::<_, BoxError>(())
    });
    tokio::task::spawn_blocking(|| thread.join()).await.unwrap().unwrap().unwrap();
    within_timeout("it is delivered", recorder.wait_for(1)).await;
    assert_eq!(recorder.deliveries()[0].source, posthaste::Source::Hot);
    outbox.shutdown().await;
    store.close().await;
}

#[tokio::test]
async fn commit_that_a_deferred_foreign_key_refuses_is_rolled_back_and_delivers_nothing() {
    let mut w = Fixture::new().await;
    w.connection.pragma_update(None, "foreign_keys", true).unwrap();
    w.connection
        .execute_batch("CREATE TABLE child (id INTEGER REFERENCES orders DEFERRABLE INITIALLY DEFERRED)")
        .unwrap();
    let tx = w.writer.begin(&mut w.connection).unwrap();
    tx.write(event("undone")).unwrap();
    tx.execute_batch("INSERT INTO child VALUES (1)").unwrap();
    let refused = tx.commit();
    assert!(matches!(refused, Err(CommitError::RolledBack(_))), "{refused:?}");
    assert_eq!(w.ends.take(), ["rolled back undone"]);
    let tx = w.writer.begin(&mut w.connection).unwrap();
    tx.write(event("kept")).unwrap();
    tx.commit().unwrap();
    assert_eq!(w.ids(), ["kept"]);
    assert_eq!(w.delivered().await, ["kept"]);
}

/// SQLite rolls back by itself and continues in autocommit mode, in which every later statement would be committed
/// alone.
#[tokio::test]
async fn nothing_is_written_after_a_full_disk_has_ended_the_transaction() {
    let mut w = Fixture::new().await;
    let pages: i64 = w.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    w.connection.query_row(&format!("PRAGMA max_page_count = {}", pages + 4), [], |_| Ok(())).unwrap();
    let tx = w.writer.begin(&mut w.connection).unwrap();
    tx.write(event("undone")).unwrap();
    let full = tx.execute("INSERT INTO orders (item) VALUES (zeroblob(1000000))", []).unwrap_err();
    assert_eq!(full.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull));
    if !tx.is_autocommit() {
        // SQLite decides which errors end a transaction. If this one did not, roll back as SQLite would.
        tx.execute_batch("ROLLBACK").unwrap();
    }
    assert_no_transaction(tx.write(event("late")));
    assert_no_transaction(tx.write_all(vec![event("late"), event("later")]));
    assert_no_transaction(w.writer.insert(&*tx, event("late")));
    let result = tx.commit();
    assert!(matches!(result, Err(CommitError::RolledBack(_))), "{result:?}");
    assert_eq!(w.ends.take(), ["rolled back undone"]);
    assert!(w.ids().is_empty());
}

#[tokio::test]
async fn commit_of_a_transaction_that_an_sql_text_ended_reports_how_it_ended() {
    let mut w = Fixture::new().await;
    let tx = w.writer.begin(&mut w.connection).unwrap();
    tx.write(event("undone")).unwrap();
    tx.execute_batch("ROLLBACK").unwrap();
    let result = tx.commit();
    assert!(matches!(result, Err(CommitError::RolledBack(_))), "{result:?}");
    assert_eq!(w.ends.take(), ["rolled back undone"]);

    let tx = w.writer.begin(&mut w.connection).unwrap();
    tx.write(event("committed")).unwrap();
    tx.execute_batch("COMMIT").unwrap();
    let result = tx.commit();
    assert!(matches!(result, Err(CommitError::Unknown(_))), "{result:?}");
    assert!(w.ends.take().is_empty());
    within_timeout("the poller delivers it", w.recorder.wait_for(1)).await;
    assert_eq!(w.delivered().await, ["committed"]);
}

/// SQLite does not report how many savepoints are open on such a connection.
#[tokio::test]
async fn receipt_in_a_transaction_begun_by_an_sql_text_is_only_a_wake_up() {
    let Fixture { connection, store, outbox, _dir, .. } = Fixture::new().await;
    outbox.shutdown().await;
    let scene = Scene::start(store.clone());
    let writer = SqliteWriter::new(&store, scene.outbox());
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let receipt = writer.insert(&connection, event("a")).unwrap();
    let leased = "SELECT locked_by IS NOT NULL OR lease_token <> 0 FROM outbox_event";
    assert!(!connection.query_row(leased, [], |row| row.get::<_, bool>(0)).unwrap());
    connection.execute_batch("COMMIT").unwrap();
    scene.outbox().committed(receipt);
    scene.outbox().shutdown().await;
    store.close().await;
}

#[tokio::test]
async fn events_written_without_a_store_are_found_by_a_relay() {
    let mut w = Fixture::new().await;
    let ends = TransactionEnds::default();
    let context = WriterContext::<Sqlite>::writer_only().hook(ends.clone()).build();
    let writer = SqliteWriter::from_context(context.clone());
    let tx = writer.begin(&mut w.connection).unwrap();
    tx.write(event("by-tx")).unwrap();
    tx.commit().unwrap();
    let tx = w.connection.transaction().unwrap();
    let receipt = writer.insert(&tx, event("by-receipt")).unwrap();
    tx.commit().unwrap();
    context.committed(receipt);
    assert_eq!(ends.take(), ["committed by-tx", "committed by-receipt"]);
    within_timeout("the relay delivers", w.recorder.wait_for(2)).await;
    assert_eq!(w.delivered().await, ["by-receipt", "by-tx"]);
}
