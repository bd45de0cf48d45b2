//! Leases beside due times: whatever happened to a row, a claim takes it at one instant and not before.

#![allow(missing_docs, reason = "the name of each case states what it proves")]

use std::fmt::Debug;

use super::Harness;
use super::store_fixture::{
    HOUR, LEASE, MICRO, MINUTE, SECOND, StoreFixture, deferred, delayed, failed, plain, row, unreachable,
};
use crate::store::{Lease, Settled, Verdict};
use crate::time::Timestamp;

/// How a row begins.
#[derive(Clone, Copy, Debug)]
enum Birth {
    Due,
    Delayed,
    BornLeased,
}

/// What happens to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Its owner claims it, at the first possible instant.
    Claimed,
    /// Time passes until its lease has ended, and no call changes it.
    Lapsed,
    Renewed,
    Released,
    Parked,
    Unparked,
    Failed,
    Deferred,
    /// Its destination was unreachable, and the settlement parks it.
    Unreachable,
}

const BIRTHS: [Birth; 3] = [Birth::Due, Birth::Delayed, Birth::BornLeased];

const CHANGES: [Change; 9] = [
    Change::Claimed,
    Change::Lapsed,
    Change::Renewed,
    Change::Released,
    Change::Parked,
    Change::Unparked,
    Change::Failed,
    Change::Deferred,
    Change::Unreachable,
];

/// The most changes of one row.
const MAX_CHANGES: usize = 3;

/// What a row must show, and the lease under which it is held.
#[derive(Clone, Debug)]
struct Expected {
    now: Timestamp,
    due: Timestamp,
    lease: Option<(Lease, Timestamp)>,
    parked: bool,
}

impl Expected {
    fn claimable_at(&self) -> Timestamp {
        self.lease.as_ref().map_or(self.due, |(_, until)| *until)
    }

    /// Whether this change is possible now.
    fn allows(&self, change: Change) -> bool {
        match change {
            Change::Claimed => true,
            Change::Lapsed => self.lease.as_ref().is_some_and(|(_, until)| *until > self.now),
            Change::Unparked => self.parked,
            _ => self.lease.is_some(),
        }
    }

    /// Ends the lease; the row is due at this time.
    fn end(&mut self, due: Timestamp, parked: bool) {
        (self.due, self.lease, self.parked) = (due, None, parked);
    }
}

/// Every history of up to three changes, from every beginning.
pub async fn row_is_claimable_at_one_instant_whatever_happened_to_it(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    for birth in BIRTHS {
        let mut histories = vec![Vec::new()];
        while let Some(history) = histories.pop() {
            let Some(end) = play(&k, birth, &history).await else { continue };
            verify(&k, &end, &(birth, &history)).await;
            if history.len() < MAX_CHANGES {
                histories.extend(CHANGES.map(|change| [&history[..], &[change]].concat()));
            }
        }
    }
}

/// Plays a history on a new row. `None` if one of its changes is not possible.
async fn play(k: &StoreFixture<'_>, birth: Birth, history: &[Change]) -> Option<(Lease, Expected)> {
    let (id, lease) = match birth {
        Birth::Due | Birth::Delayed => {
            let new = if let Birth::Due = birth { row(plain()) } else { delayed(MINUTE) };
            let seq = k.insert(std::slice::from_ref(&new)).await.remove(0).expect("a new id is inserted");
            // No token is zero.
            (Lease::new(new.event.id().clone(), seq, 0.into()), None)
        }
        Birth::BornLeased => {
            let lease = k.held(1).await.remove(0);
            (lease.clone(), Some(lease))
        }
    };
    let born = k.row(&id.id).await;
    let lease = lease.map(|lease| (lease, born.lease_until.expect("a lease has an end")));
    let mut expected = Expected { now: k.now().await, due: born.available_at, lease, parked: false };
    for change in history {
        if !expected.allows(*change) {
            finish(k, &id, &expected).await;
            return None;
        }
        apply(k, &mut expected, *change).await;
        expected.now = expected.now + SECOND;
    }
    Some((id, expected))
}

async fn apply(k: &StoreFixture<'_>, expected: &mut Expected, change: Change) {
    let lease = expected.lease.as_ref().map(|(lease, _)| lease.clone());
    let leases = lease.as_slice();
    match change {
        Change::Claimed => {
            let at = expected.now.max(expected.claimable_at());
            expected.now = at;
            expected.lease = Some((k.take(at).await, at + LEASE));
            expected.parked = false;
        }
        Change::Lapsed => expected.now = expected.now.max(expected.claimable_at()),
        Change::Renewed => {
            let at = expected.now;
            assert_eq!(k.renew(at, leases).await, leases);
            expected.lease = lease.map(|lease| (lease, at + LEASE));
        }
        Change::Released => {
            assert_eq!(k.release(expected.now, leases).await, 1);
            expected.end(expected.now, false);
        }
        Change::Parked => {
            assert_eq!(k.park(expected.now, leases, "mail").await, 1);
            expected.end(expected.now + HOUR, true);
        }
        Change::Unparked => {
            assert_eq!(k.unpark(expected.now, "mail", 10).await, 1);
            expected.end(expected.now, false);
        }
        Change::Failed => settle(k, expected, failed(10, &[10]), 10 * SECOND, false).await,
        Change::Deferred => settle(k, expected, deferred(MINUTE), MINUTE, false).await,
        Change::Unreachable => settle(k, expected, unreachable(MINUTE, Some("mail")), MINUTE, true).await,
    }
}

async fn settle(
    k: &StoreFixture<'_>,
    expected: &mut Expected,
    verdict: Verdict,
    delay: std::time::Duration,
    parked: bool,
) {
    let (lease, _) = expected.lease.as_ref().expect("the row is held");
    assert_ne!(k.settle(expected.now, lease, verdict).await, Settled::Stale);
    expected.end(expected.now + delay, parked);
}

/// Checks what the row shows and when it is claimed, and ends it.
async fn verify(k: &StoreFixture<'_>, (id, expected): &(Lease, Expected), history: &impl Debug) {
    let row = k.row(&id.id).await;
    let until = expected.lease.as_ref().map(|(_, until)| *until);
    assert_eq!((row.lease_until, row.parked.is_some()), (until, expected.parked), "{history:?}");
    if until.is_none() || k.harness.capabilities().separate_leases {
        assert_eq!(row.available_at, expected.due, "{history:?}");
    }
    let at = expected.claimable_at();
    assert!(k.claim(at - MICRO, 10).await.events.is_empty(), "{history:?}");
    assert_eq!(k.take(at).await.id, id.id, "{history:?}");
    finish(k, id, expected).await;
}

/// Ends a row, so that it is not in the way of the next one. "Delivered" needs no lease.
async fn finish(k: &StoreFixture<'_>, id: &Lease, expected: &Expected) {
    assert_eq!(k.settle(expected.now, id, Verdict::Done).await, Settled::Done);
}
