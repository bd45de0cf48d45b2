//! Dropped calls on a server: savepoints of a Writer, and calls of a store, which leave no transaction open and lose no
//! row.

use std::time::Duration;

use posthaste::admin::{Filter, PageRequest, Replay, Tolerance};
use posthaste::store::{
    Claim, ClaimOrder, Lease, OnDone, Owner, Park, Purge, Purgeable, Release, Renew, Settle, Settlement,
    Store as _, Unpark, Verdict,
};
use posthaste::{Admin, CommitError, EventId, StoreError};

use crate::cases::cancel::Dropped;
use crate::cases::writer::Fixture;
use crate::support::*;

/// The tests of this file.
macro_rules! server_cancel_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::server_cancel:
            nothing_is_written_outside_the_transaction_after_a_dropped_savepoint_call,
            dropped_call_of_the_store_leaves_no_transaction_behind_and_loses_no_row,
        );
    };
}
pub(crate) use server_cancel_tests;

/// After a dropped SAVEPOINT, the driver rolls back the whole transaction. What is written to the `Tx` afterwards must
/// not be committed separately.
pub(crate) async fn nothing_is_written_outside_the_transaction_after_a_dropped_savepoint_call() {
    let w = Fixture::with_pool(1).await;
    let mut dropped = Dropped::default();
    while let Some(round) = dropped.next_round() {
        let mut tx = w.begin().await;
        tx.write(event(&format!("before{round}"))).await.unwrap();
        if fastrand::bool() {
            let mut outer = tx.savepoint().await.unwrap();
            let inner = dropped.count(drop_after(1, outer.savepoint()).await);
            if inner.map(drop).is_none() {
                assert_no_transaction(outer.write(event(&format!("in-vain{round}"))).await);
                let _ = outer.release().await.expect_err("there is nothing to release");
                assert_no_transaction(tx.write(event(&format!("after{round}"))).await);
                assert!(matches!(tx.commit().await, Err(CommitError::RolledBack(_))));
            } else {
                drop(outer);
                drop(tx);
            }
        } else if dropped.count(drop_after(1, tx.savepoint()).await).map(drop).is_none() {
            assert_no_transaction(tx.write(event(&format!("after{round}"))).await);
            assert!(tx.savepoint().await.is_err());
            assert!(matches!(tx.commit().await, Err(CommitError::RolledBack(_))));
        } else {
            drop(tx);
        }
        w.assert_clean(round).await;
    }
    assert!(w.db.ids().await.is_empty());
    w.assert_delivered_what_is_stored().await;
    w.close().await;
}

const STORE_CALLS: usize = 22;
const MILLISECOND: Duration = Duration::from_millis(1);

/// One of the calls of a store. It may have had its effect when it is dropped.
async fn call(store: &Store, n: usize, leases: &mut Vec<Lease>, owner: &Owner) -> Result<(), StoreError> {
    let held = leases.clone();
    let settlement = |lease: &Lease| Settlement::new(lease.clone(), Verdict::Done);
    let claim = |order| Claim::new(owner, MILLISECOND, 5).with_order(order);
    let settle = async |on_done, nth: usize| {
        let settlements: Vec<_> = held.iter().skip(nth).take(1).map(settlement).collect();
        store.settle(&Settle::new(owner, &settlements).with_on_done(on_done)).await
    };
    let purge = |archive, what| Purge::new(what, HOUR, 5).with_archive(archive);
    let page = PageRequest::first(5);
    match n {
        0 | 1 => {
            let claimed = store.claim(&claim([ClaimOrder::Due, ClaimOrder::Seq][n])).await?;
            *leases = claimed.events.into_iter().map(|leased| leased.lease).collect();
        }
        2 => drop(settle(OnDone::Keep, 0).await?),
        3 => drop(settle(OnDone::Archive, 1).await?),
        4 => drop(settle(OnDone::Delete, 2).await?),
        5 => drop(store.renew(&Renew::new(owner, &held, MILLISECOND)).await?),
        6 => drop(store.release(&Release::new(owner, &held)).await?),
        7 => drop(store.park(&Park::new(owner, &held, "r", MILLISECOND)).await?),
        8 => drop(store.unpark(&Unpark::new("r", 5)).await?),
        9 => drop(store.purge_batch(&purge(true, Purgeable::Done)).await?),
        10 => drop(store.oldest_pending(None).await?),
        11 => drop(store.stats().await?),
        12 => drop(store.count(&Filter::default()).await?),
        13 => drop(store.list(&Filter::default(), &page).await?),
        14 => drop(store.get(&EventId::from("event1")).await?),
        15 => drop(store.dead_groups(5).await?),
        16 => drop(store.replay_all(&Filter::default(), 5, &Replay::by("me")).await?),
        17 => drop(store.discard(&Filter::id("missing"), 5, "me").await?),
        18 => drop(store.purge(&purge(true, Purgeable::Dead), "me").await?),
        19 => drop(store.pause("x", "me").await?),
        20 => drop(store.resume("x", "me").await?),
        _ => drop((store.diagnose(&Tolerance::default()).await?, store.audit(&page).await?)),
    }
    Ok(())
}

pub(crate) async fn dropped_call_of_the_store_leaves_no_transaction_behind_and_loses_no_row() {
    let db = Db::with_pool(2).await;
    let written = (1..=200).map(|n| event(&format!("event{n}"))).collect();
    write(&db.plain_writer(), &db.pool, written).await;
    let (owner, mut leases) = (Owner::random("me"), Vec::new());
    let mut dropped = Dropped::default();
    while let Some(round) = dropped.next_round() {
        let n = round % STORE_CALLS;
        let work = call(&db.store, n, &mut leases, &owner);
        // A dropped call closes its connection, so the next call has to connect first.
        if let Some(answer) = dropped.count(drop_after(fastrand::usize(1..30), work).await) {
            answer.unwrap_or_else(|error| panic!("call {n} in round {round}: {error:?}"));
        }
        wait_until("no transaction stays open", async || db.open_transactions().await == 0).await;
    }
    let stats = db.store.stats().await.unwrap();
    let gone = 200 - (stats.new + stats.retry + stats.done + stats.archived);
    assert!(
        gone <= dropped.rounds.div_ceil(STORE_CALLS) as u64,
        "one at most for every call that deletes: {stats:?}"
    );
    let both = "SELECT count(*) FROM outbox_event JOIN outbox_event_archive USING (event_id)";
    assert_eq!(db.int(both).await, 0, "nothing is in two places");
    assert!(stats.archived > 0 && stats.done > 0 && gone > 0, "{stats:?}");
    db.close().await;
}
