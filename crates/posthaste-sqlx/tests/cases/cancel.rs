//! Futures that are dropped half way, as a web server does when its client disconnects. On a pool of one connection,
//! the next caller never gets a connection inside a stale transaction, and nothing uncommitted is delivered. (T-CANCEL:
//! more than 2,000 dropped calls in total.)

use posthaste::{BoxError, CommitError};
use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, Executor as _};

use crate::cases::writer::Fixture;
use crate::support::*;

/// The tests of this file.
macro_rules! cancel_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::cancel:
            dropped_begin_leaves_no_transaction_behind,
            dropped_begin_of_sqlx_itself_is_counted,
            dropped_write_leaves_no_transaction_behind_and_delivers_nothing,
            transaction_goes_on_or_ends_after_a_dropped_write,
            dropped_commit_is_committed_or_rolled_back_and_delivered_accordingly,
            dropped_rollback_is_a_rollback,
            dropped_transaction_closure_leaves_no_transaction_behind,
            dropped_insert_outside_a_transaction_leaves_none_behind,
            dropped_insert_in_a_transaction_of_the_caller_delivers_what_was_committed,
        );
    };
}
pub(crate) use cancel_tests;

/// How many calls each test drops. A fast server completes many calls before they are dropped, so after very many
/// rounds fewer are enough.
const DROPPED_CALLS: usize = 250;
const MIN_DROPPED_CALLS: usize = 25;
const MAX_ROUNDS: usize = 50 * DROPPED_CALLS;

/// Counts dropped calls until there are enough.
#[derive(Default)]
pub(crate) struct Dropped {
    calls: usize,
    pub(crate) rounds: usize,
}

impl Dropped {
    pub(crate) fn next_round(&mut self) -> Option<usize> {
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            assert!(
                self.calls >= MIN_DROPPED_CALLS,
                "only {} of {MAX_ROUNDS} calls were dropped",
                self.calls
            );
            return None;
        }
        (self.calls < DROPPED_CALLS).then_some(self.rounds)
    }

    pub(crate) fn count<T>(&mut self, answer: Option<T>) -> Option<T> {
        self.calls += usize::from(answer.is_none());
        answer
    }
}

impl Fixture {
    /// Borrows a connection for statements that may be dropped, as a careful service does.
    async fn acquire(&self) -> PoolConnection<Database> {
        let mut connection =
            within_timeout("the connection comes back", self.db.pool.acquire()).await.unwrap();
        if !DROPPED_STATEMENT_IS_HARMLESS {
            connection.close_on_drop();
        }
        connection
    }

    /// Asserts that the next caller gets a connection without a transaction.
    pub(crate) async fn assert_clean(&self, round: usize) {
        let connection = within_timeout("the connection comes back", self.db.pool.acquire()).await;
        let mut connection = connection.expect("a connection");
        assert!(!connection.is_in_transaction(), "the driver counts a transaction after round {round}");
        let clean = is_outside_a_transaction(&mut connection).await;
        assert!(clean, "round {round} left a transaction open");
    }

    /// Asserts that all rows in the table are delivered, and nothing else.
    pub(crate) async fn assert_delivered_what_is_stored(&self) {
        // Rows of dropped writes are leased to this engine, which does not know them.
        self.db
            .execute(&format!("UPDATE outbox_event SET lease_until = {LONG_AGO_SQL} WHERE status = 0"))
            .await;
        wait_until("everything is delivered", async || {
            self.outbox.idle().await.expect("the store works");
            set_of(self.recorder.ids()).is_superset(&set_of(self.db.ids().await))
        })
        .await;
        assert_eq!(set_of(self.recorder.ids()), set_of(self.db.ids().await));
    }
}

// F36
pub(crate) async fn dropped_begin_leaves_no_transaction_behind() {
    let w = Fixture::with_pool(1).await;
    let mut dropped = Dropped::default();
    while let Some(round) = dropped.next_round() {
        let begun = drop_after(fastrand::usize(1..5), w.writer.begin(&w.db.pool)).await;
        drop(dropped.count(begun));
        w.assert_clean(round).await;
    }
    w.close().await;
}

/// Counts what the test above would see without Posthaste's own `begin`: the reason why `pool.begin()` must not be used
/// in a timeout or a `select!`. The number is printed and not asserted, because a later sqlx may have fixed it.
pub(crate) async fn dropped_begin_of_sqlx_itself_is_counted() {
    let w = Fixture::with_pool(1).await;
    let (mut dropped, mut stale) = (Dropped::default(), 0);
    while dropped.next_round().is_some() {
        drop(dropped.count(drop_after(fastrand::usize(1..5), w.db.pool.begin()).await));
        let mut connection = within_timeout("the connection comes back", w.db.pool.acquire()).await.unwrap();
        if !is_outside_a_transaction(&mut connection).await {
            stale += 1;
            connection.execute("ROLLBACK").await.unwrap();
        }
    }
    println!("sqlx: {} begins dropped, {stale} next borrowers in a stale transaction", dropped.calls);
    w.close().await;
}

pub(crate) async fn dropped_write_leaves_no_transaction_behind_and_delivers_nothing() {
    let w = Fixture::with_pool(1).await;
    let mut dropped = Dropped::default();
    while let Some(round) = dropped.next_round() {
        let mut tx = w.begin().await;
        let write = tx.write_all(events(&[&format!("a{round}"), &format!("b{round}")]));
        let _ = dropped.count(drop_after(fastrand::usize(1..3), write).await);
        drop(tx);
        w.assert_clean(round).await;
    }
    assert!(w.db.ids().await.is_empty());
    w.assert_delivered_what_is_stored().await;
    w.close().await;
}

/// A dropped write may have happened: the transaction continues, and its commit tells. If the driver cannot continue,
/// the transaction ends.
pub(crate) async fn transaction_goes_on_or_ends_after_a_dropped_write() {
    let w = Fixture::with_pool(1).await;
    let mut dropped = Dropped::default();
    while let Some(round) = dropped.next_round() {
        let mut tx = w.begin().await;
        let write = tx.write(event(&format!("dropped{round}")));
        let answered = dropped.count(drop_after(fastrand::usize(1..3), write).await).is_some();
        let kept = tx.write(event(&format!("kept{round}"))).await;
        if answered || DROPPED_STATEMENT_IS_HARMLESS {
            kept.unwrap();
            tx.commit().await.unwrap();
        } else {
            assert_no_transaction(kept);
            assert!(tx.savepoint().await.is_err());
            assert!(matches!(tx.commit().await, Err(CommitError::RolledBack(_))));
        }
        w.assert_clean(round).await;
    }
    let stored = w.db.ids().await;
    let ended = if DROPPED_STATEMENT_IS_HARMLESS { 0 } else { dropped.calls };
    assert_eq!(stored.iter().filter(|id| id.starts_with("kept")).count(), dropped.rounds - 1 - ended);
    w.assert_delivered_what_is_stored().await;
    w.close().await;
}

pub(crate) async fn dropped_commit_is_committed_or_rolled_back_and_delivered_accordingly() {
    let w = Fixture::with_pool(1).await;
    let mut dropped = Dropped::default();
    while let Some(round) = dropped.next_round() {
        let mut tx = w.begin().await;
        tx.write(event(&format!("event{round}"))).await.unwrap();
        if round % 2 == 0 {
            // After the connection was used directly, COMMIT is preceded by a proof.
            let _ = &mut *tx;
        }
        let _ = dropped.count(drop_after(fastrand::usize(1..6), tx.commit()).await);
        w.assert_clean(round).await;
    }
    let stored = w.db.ids().await.len();
    assert!(0 < stored && stored < dropped.rounds, "{stored} of {} committed", dropped.rounds);
    w.assert_delivered_what_is_stored().await;
    w.close().await;
}

pub(crate) async fn dropped_rollback_is_a_rollback() {
    let w = Fixture::with_pool(1).await;
    let mut dropped = Dropped::default();
    while let Some(round) = dropped.next_round() {
        let mut tx = w.begin().await;
        tx.write(event(&format!("event{round}"))).await.unwrap();
        let _ = dropped.count(drop_after(1, tx.rollback()).await);
        w.assert_clean(round).await;
    }
    assert!(w.db.ids().await.is_empty());
    w.assert_delivered_what_is_stored().await;
    w.close().await;
}

pub(crate) async fn dropped_transaction_closure_leaves_no_transaction_behind() {
    let w = Fixture::with_pool(1).await;
    let mut dropped = Dropped::default();
    while let Some(round) = dropped.next_round() {
        let work = w.writer.transaction(&w.db.pool, async |tx: &mut Tx| {
            let mut savepoint = tx.savepoint().await.map_err(BoxError::from)?;
            savepoint.write(event(&format!("inner{round}"))).await?;
            savepoint.release().await.map_err(BoxError::from)?;
            let undone = tx.savepoint().await.map_err(BoxError::from)?;
            undone.rollback().await.map_err(BoxError::from)?;
            tx.write(event(&format!("outer{round}"))).await?;
            Ok::<_, BoxError>(())
        });
        let _ = dropped.count(drop_after(fastrand::usize(1..16), work).await);
        w.assert_clean(round).await;
    }
    let stored = w.db.ids().await;
    assert!(!stored.is_empty() && stored.len() < 2 * dropped.rounds, "{} committed", stored.len());
    assert_eq!(stored.len() % 2, 0, "both or none of each");
    w.assert_delivered_what_is_stored().await;
    w.close().await;
}

/// An insert outside a transaction is an error of the caller, which must not affect the next one.
pub(crate) async fn dropped_insert_outside_a_transaction_leaves_none_behind() {
    let w = Fixture::with_pool(1).await;
    let mut dropped = Dropped::default();
    while let Some(round) = dropped.next_round() {
        let mut connection = w.acquire().await;
        let insert = w.writer.insert(&mut connection, event(&format!("event{round}")));
        let _ = dropped.count(drop_after(1, insert).await);
        drop(connection);
        w.assert_clean(round).await;
    }
    assert!(w.db.ids().await.is_empty());
    w.close().await;
}

pub(crate) async fn dropped_insert_in_a_transaction_of_the_caller_delivers_what_was_committed() {
    let w = Fixture::with_pool(1).await;
    let mut dropped = Dropped::default();
    while let Some(round) = dropped.next_round() {
        let mut connection = w.acquire().await;
        let mut tx = connection.begin_with(BEGIN_SQL).await.unwrap();
        let insert = w.writer.insert(&mut tx, event(&format!("event{round}")));
        if let Some(receipt) = dropped.count(drop_after(fastrand::usize(1..3), insert).await) {
            tx.commit().await.unwrap();
            w.outbox.committed(receipt.unwrap());
        } else {
            drop(tx);
        }
        drop(connection);
        w.assert_clean(round).await;
    }
    assert!(!w.db.ids().await.is_empty());
    w.assert_delivered_what_is_stored().await;
    w.close().await;
}
