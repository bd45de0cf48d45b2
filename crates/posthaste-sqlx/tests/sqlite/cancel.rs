//! Futures that are dropped half way, as a web server does when its client hangs up. On a pool of one
//! connection the next borrower is never inside a stale transaction, and nothing is delivered that was
//! not committed.

use posthaste::{BoxError, Outbox, Recorder};
use posthaste_sqlx::{SqliteTx, SqliteWriter};
use sqlx::{Connection as _, Executor as _};

use crate::support::*;

struct Fixture {
    db: Db,
    writer: SqliteWriter,
    outbox: Outbox,
    recorder: Recorder,
}

const ROUNDS: usize = 500;

impl Fixture {
    async fn new() -> Self {
        let db = Db::with_pool(1).await;
        let recorder = Recorder::new();
        let outbox = db.start(&recorder);
        Self { writer: db.store.writer(&outbox), db, outbox, recorder }
    }

    /// The next one who borrows the connection starts from nothing.
    async fn assert_clean(&self, round: usize) {
        let connection = within_timeout("the connection comes back", self.db.pool.acquire()).await;
        let mut connection = connection.expect("a connection");
        assert!(!connection.is_in_transaction(), "the driver counts a transaction after round {round}");
        let begun = connection.execute("BEGIN IMMEDIATE").await;
        begun.unwrap_or_else(|error| panic!("round {round} left a transaction open: {error}"));
        connection.execute("ROLLBACK").await.expect("it was open");
    }

    /// All that is in the table is delivered, and nothing else.
    async fn assert_delivered_what_is_stored(&self) {
        wait_until("everything is delivered", async || {
            self.outbox.idle().await.expect("the store answers");
            set_of(self.recorder.ids()).is_superset(&set_of(self.db.ids().await))
        })
        .await;
        assert_eq!(set_of(self.recorder.ids()), set_of(self.db.ids().await));
    }
}

#[tokio::test]
async fn dropped_begin_leaves_no_transaction_behind() {
    let w = Fixture::new().await;
    let mut dropped = 0;
    for round in 0..ROUNDS {
        let begun = drop_after(fastrand::usize(1..5), w.writer.begin(&w.db.pool)).await;
        dropped += usize::from(begun.is_none());
        drop(begun);
        w.assert_clean(round).await;
    }
    assert!(dropped > ROUNDS / 10, "only {dropped} were dropped half way");
}

#[tokio::test]
async fn dropped_write_leaves_no_transaction_behind_and_delivers_nothing() {
    let w = Fixture::new().await;
    let mut dropped = 0;
    for round in 0..ROUNDS {
        let mut tx = w.writer.begin(&w.db.pool).await.unwrap();
        let write = tx.write_all(events(&[&format!("a{round}"), &format!("b{round}")]));
        dropped += usize::from(drop_after(fastrand::usize(1..6), write).await.is_none());
        drop(tx);
        w.assert_clean(round).await;
    }
    assert!(dropped > ROUNDS / 10, "only {dropped} were dropped half way");
    assert!(w.db.ids().await.is_empty());
    w.assert_delivered_what_is_stored().await;
}

/// A write that was dropped may have happened: the transaction goes on, and its commit tells.
#[tokio::test]
async fn transaction_goes_on_after_a_dropped_write() {
    let w = Fixture::new().await;
    for round in 0..ROUNDS / 5 {
        let mut tx = w.writer.begin(&w.db.pool).await.unwrap();
        let _ = drop_after(fastrand::usize(1..6), tx.write(event(&format!("dropped{round}")))).await;
        tx.write(event(&format!("kept{round}"))).await.unwrap();
        tx.commit().await.unwrap();
        w.assert_clean(round).await;
    }
    let stored = w.db.ids().await;
    assert_eq!(stored.iter().filter(|id| id.starts_with("kept")).count(), ROUNDS / 5);
    // Rows of dropped writes are leased to the engine that nobody told about them.
    w.db.execute("UPDATE outbox_event SET available_at = 0 WHERE status = 0").await;
    w.assert_delivered_what_is_stored().await;
}

#[tokio::test]
async fn dropped_commit_is_committed_or_rolled_back_and_delivered_accordingly() {
    let w = Fixture::new().await;
    let mut dropped = 0;
    for round in 0..ROUNDS {
        let mut tx = w.writer.begin(&w.db.pool).await.unwrap();
        tx.write(event(&format!("event{round}"))).await.unwrap();
        if round % 2 == 0 {
            // Once the connection was used, COMMIT comes after a proof.
            let _ = &mut *tx;
        }
        dropped += usize::from(drop_after(fastrand::usize(1..6), tx.commit()).await.is_none());
        w.assert_clean(round).await;
    }
    assert!(dropped > ROUNDS / 10, "only {dropped} were dropped half way");
    let stored = w.db.ids().await.len();
    assert!(0 < stored && stored < ROUNDS, "{stored} of {ROUNDS} committed");
    w.assert_delivered_what_is_stored().await;
}

#[tokio::test]
async fn dropped_transaction_closure_leaves_no_transaction_behind() {
    let w = Fixture::new().await;
    for round in 0..ROUNDS {
        let work = w.writer.transaction(&w.db.pool, async |tx: &mut SqliteTx| {
            let mut savepoint = tx.savepoint().await.map_err(BoxError::from)?;
            savepoint.write(event(&format!("inner{round}"))).await?;
            savepoint.release().await.map_err(BoxError::from)?;
            tx.write(event(&format!("outer{round}"))).await?;
            Ok::<_, BoxError>(())
        });
        let _ = drop_after(fastrand::usize(1..20), work).await;
        w.assert_clean(round).await;
    }
    let stored = w.db.ids().await;
    assert!(!stored.is_empty() && stored.len() < 2 * ROUNDS, "{} committed", stored.len());
    assert_eq!(stored.len() % 2, 0, "both or none of each");
    w.assert_delivered_what_is_stored().await;
}

/// The caller's mistake, an insert outside a transaction, must not become the next borrower's.
#[tokio::test]
async fn dropped_insert_outside_a_transaction_leaves_none_behind() {
    let w = Fixture::new().await;
    for round in 0..ROUNDS {
        let mut connection = w.db.pool.acquire().await.unwrap();
        let insert = w.writer.insert(&mut connection, event(&format!("event{round}")));
        let _ = drop_after(fastrand::usize(1..5), insert).await;
        drop(connection);
        w.assert_clean(round).await;
    }
    assert!(w.db.ids().await.is_empty());
}

#[tokio::test]
async fn dropped_insert_in_a_transaction_of_the_caller_delivers_what_was_committed() {
    let w = Fixture::new().await;
    for round in 0..ROUNDS {
        let mut tx = w.db.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let insert = w.writer.insert(&mut tx, event(&format!("event{round}")));
        if let Some(receipt) = drop_after(fastrand::usize(1..6), insert).await {
            tx.commit().await.unwrap();
            w.outbox.committed(receipt.unwrap());
        } else {
            drop(tx);
        }
        w.assert_clean(round).await;
    }
    assert!(!w.db.ids().await.is_empty());
    w.assert_delivered_what_is_stored().await;
}
