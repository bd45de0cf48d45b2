//! Settlements: the store decides, by its own count and clock, and only for the owner that holds the row.

#![allow(missing_docs, reason = "the name of a case is the claim that it proves")]

use std::time::Duration;

use super::store_fixture::{
    HOUR, LEASE, MINUTE, SECOND, StoreFixture, deferred, died, failed, ids, outcome, plain, put_off, sorted,
    unreachable,
};
use super::{Defect, Harness};
use crate::LAST_ERROR_MAX_LENGTH;
use crate::admin::Filter;
use crate::event::EventId;
use crate::row::Status;
use crate::store::{
    Backoff, Lease, LeaseToken, OnDone, SUSPECT_LOST_LEASES, Settle, Settled, Settlement, Verdict,
};

pub(super) fn every_verdict() -> [Verdict; 5] {
    [Verdict::Done, failed(10, &[5]), deferred(SECOND), died("no"), unreachable(SECOND, Some("mail"))]
}

fn all_but_done() -> [Verdict; 4] {
    [failed(10, &[5]), deferred(SECOND), died("no"), unreachable(SECOND, Some("mail"))]
}

/// A lost lease, and the second lease under which its row is held now.
async fn lost_and_current(k: &StoreFixture<'_>) -> (Lease, Lease) {
    k.one().await;
    let t = k.now().await;
    let lost = k.take(t).await;
    let current = k.take(t + LEASE).await;
    (lost, current)
}

// S0-11, S3-63, S1-19
pub async fn done_is_final(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let t = k.now().await;
    assert_eq!(k.settle(t, &lease, Verdict::Done).await, Settled::Done);
    let row = k.row(&lease.id).await;
    assert_eq!((row.status, row.done_at, row.attempts), (Status::Done, Some(t), 0));
    assert_eq!((row.locked_by, row.locked_at, row.last_error), (None, None, None));
}

// T4, S0-13
pub async fn done_is_accepted_from_a_lost_lease_while_pending(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let (lost, current) = lost_and_current(&k).await;
    let t = k.now().await + HOUR;
    assert_eq!(k.settle(t, &lost, Verdict::Done).await, Settled::Done);
    let row = k.row(&lost.id).await;
    assert_eq!((row.status, row.done_at, row.locked_by), (Status::Done, Some(t), None));
    assert_eq!(k.settle(t, &current, failed(10, &[1])).await, Settled::Stale);
    assert_eq!(k.row(&lost.id).await.status, Status::Done);
}

// T4
pub async fn done_is_accepted_after_a_release(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let t = k.now().await;
    k.release(t, std::slice::from_ref(&lease)).await;
    assert_eq!(k.settle(t, &lease, Verdict::Done).await, Settled::Done);
    assert!(k.claim(t, 10).await.events.is_empty());
}

// S0-12, S0-14, S1-20
pub async fn done_on_a_terminal_row_is_stale(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let leases = k.held(2).await;
    let t = k.now().await;
    k.settle(t, &leases[0], Verdict::Done).await;
    k.settle(t, &leases[1], died("no")).await;
    for lease in &leases {
        let before = k.row(&lease.id).await;
        assert_eq!(k.settle(t + HOUR, lease, Verdict::Done).await, Settled::Stale);
        let after = k.row(&lease.id).await;
        assert_eq!(
            (after.status, after.done_at, after.last_error),
            (before.status, before.done_at, before.last_error)
        );
    }
}

// S1-20
pub async fn done_on_an_unknown_row_is_stale(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = Lease::new(EventId::from("unknown"), 4711, LeaseToken::random());
    assert_eq!(k.settle(k.now().await, &lease, Verdict::Done).await, Settled::Stale);
}

// T4, S0-19
pub async fn lost_lease_changes_nothing(h: &dyn Harness) {
    for verdict in all_but_done() {
        let k = StoreFixture::new(h);
        let (lost, current) = lost_and_current(&k).await;
        let before = k.row(&lost.id).await;
        assert_eq!(k.settle(k.now().await, &lost, verdict.clone()).await, Settled::Stale, "{verdict:?}");
        let after = k.row(&lost.id).await;
        assert_eq!(format!("{after:?}"), format!("{before:?}"), "{verdict:?}");
        assert_ne!(k.settle(k.now().await, &current, died("ends the round")).await, Settled::Stale);
    }
}

// T4
pub async fn foreign_owner_changes_nothing(h: &dyn Harness) {
    let (k, other) = (StoreFixture::new(h), StoreFixture::new(h));
    let lease = k.held(1).await.remove(0);
    let before = k.row(&lease.id).await;
    for verdict in all_but_done() {
        assert_eq!(other.settle(k.now().await, &lease, verdict).await, Settled::Stale);
    }
    assert_eq!(format!("{:?}", k.row(&lease.id).await), format!("{before:?}"));
}

// S0-22, T4: a repeated call after a lost reply must not count twice.
pub async fn verdict_consumes_the_lease(h: &dyn Harness) {
    for verdict in every_verdict() {
        let k = StoreFixture::new(h);
        let lease = k.held(1).await.remove(0);
        let t = k.now().await;
        assert_ne!(k.settle(t, &lease, verdict.clone()).await, Settled::Stale, "{verdict:?}");
        let before = k.row(&lease.id).await;
        for repeat in all_but_done() {
            assert_eq!(k.settle(t, &lease, repeat).await, Settled::Stale, "after {verdict:?}");
        }
        assert_eq!(format!("{:?}", k.row(&lease.id).await), format!("{before:?}"), "after {verdict:?}");
    }
}

// S0-12, S0-19, S3-63..S3-66, S1-22, S1-28
pub async fn nothing_settles_a_terminal_row(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    for terminal in [Verdict::Done, died("no")] {
        let lease = k.held(1).await.remove(0);
        let t = k.now().await;
        k.settle(t, &lease, terminal).await;
        let before = k.row(&lease.id).await;
        for verdict in every_verdict() {
            assert_eq!(k.settle(t + HOUR, &lease, verdict).await, Settled::Stale);
        }
        assert_eq!(format!("{:?}", k.row(&lease.id).await), format!("{before:?}"));
    }
}

// S0-17, S0-18, S3-64, S1-22, S1-23, S1-26
pub async fn failure_takes_the_delay_of_the_stores_count(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let mut t = k.now().await;
    for (attempts, secs) in [(1, 5), (2, 7), (3, 11)] {
        let lease = k.take(t).await;
        let delay = Duration::from_secs(secs);
        assert_eq!(
            k.settle(t, &lease, failed(10, &[5, 7, 11, 13])).await,
            Settled::Retry { attempts, delay }
        );
        let row = k.row(&id).await;
        assert_eq!((row.status, row.attempts), (Status::Retry, attempts));
        assert_eq!((row.available_at, row.done_at), (t + delay, None));
        t = t + delay;
    }
}

/// Fails the only row `times` times with these delays. Returns the last result.
async fn fail(k: &StoreFixture<'_>, times: u32, max_attempts: u32, delays: &[u64]) -> Settled {
    let mut t = k.now().await;
    let mut settled = Settled::Stale;
    for _ in 0..times {
        let lease = k.take(t).await;
        settled = k.settle(t, &lease, failed(max_attempts, delays)).await;
        t = t + HOUR;
    }
    settled
}

// S1-23
pub async fn last_delay_serves_all_further_attempts(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.one().await;
    let settled = fail(&k, 5, 10, &[1, 2]).await;
    assert_eq!(settled, Settled::Retry { attempts: 5, delay: 2 * SECOND });
}

pub async fn no_delays_means_immediately(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.one().await;
    assert_eq!(fail(&k, 2, 10, &[]).await, Settled::Retry { attempts: 2, delay: Duration::ZERO });
}

// S0-17, S4-14, T6, , S1-24D18
pub async fn row_is_dead_exactly_at_max_attempts(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    assert_eq!(fail(&k, 2, 3, &[1]).await, Settled::Retry { attempts: 2, delay: SECOND });
    let t = k.now().await + 24 * HOUR;
    let lease = k.take(t).await;
    assert_eq!(k.settle(t, &lease, failed(3, &[1])).await, Settled::Dead { attempts: 3 });
    let row = k.row(&id).await;
    assert_eq!((row.status, row.attempts, row.done_at), (Status::Dead, 3, Some(t)));
    assert_eq!((row.last_error.as_deref(), row.locked_by), (Some("it failed"), None));
}

pub async fn one_attempt_is_dead_after_its_first_failure(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.one().await;
    assert_eq!(fail(&k, 1, 1, &[1]).await, Settled::Dead { attempts: 1 });
}

// S0-18
pub async fn lowered_max_attempts_apply_at_the_next_failure(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.one().await;
    fail(&k, 3, 10, &[1]).await;
    let t = k.now().await + 24 * HOUR;
    let lease = k.take(t).await;
    assert_eq!(k.settle(t, &lease, failed(2, &[1])).await, Settled::Dead { attempts: 4 });
}

pub async fn full_attempts_do_not_overflow(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let Some(id) = h.insert_raw(Defect::FullAttempts).await else {
        println!("skipped: this store refuses a row with full attempts");
        return;
    };
    let before = k.row(&id).await.attempts;
    let t = k.now().await;
    let lease = k.take(t).await;
    let settled = k.settle(t, &lease, failed(u32::MAX, &[1])).await;
    assert!(matches!(settled, Settled::Retry { .. } | Settled::Dead { .. }), "{settled:?}");
    assert!(k.row(&id).await.attempts >= before);
}

pub async fn long_delay_does_not_overflow(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let leases = k.held(3).await;
    let t = k.now().await;
    let backoff = Backoff::new(10, [Duration::MAX]);
    k.settle(t, &leases[0], deferred(Duration::MAX)).await;
    k.settle(t, &leases[1], unreachable(Duration::MAX, None)).await;
    k.settle(t, &leases[2], Verdict::Failed { error: "no".to_owned(), backoff }).await;
    assert!(k.claim(t + 50 * 365 * 24 * HOUR, 10).await.events.is_empty());
}

// S3-66, S3-77, T8
pub async fn deferral_spends_no_attempt(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let t = k.now().await;
    assert_eq!(k.settle(t, &lease, deferred(MINUTE)).await, Settled::Waiting { delay: MINUTE });
    let row = k.row(&lease.id).await;
    assert_eq!((row.status, row.attempts, row.deferrals), (Status::New, 0, 1));
    assert_eq!((row.available_at, row.done_at), (t + MINUTE, None));
    let again = k.claim(t + MINUTE, 10).await.events.remove(0);
    assert_eq!((again.attempts, again.deferrals), (0, 1), "the claim says how often it was deferred");
    k.settle(t + MINUTE, &again.lease, deferred(MINUTE)).await;
    assert_eq!(k.row(&lease.id).await.deferrals, 2);
}

// S3-66, T8
pub async fn deferral_of_a_retried_row_keeps_its_attempts(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    fail(&k, 2, 10, &[1]).await;
    let t = k.now().await + 24 * HOUR;
    let lease = k.take(t).await;
    k.settle(t, &lease, deferred(MINUTE)).await;
    let row = k.row(&id).await;
    assert_eq!((row.status, row.attempts, row.deferrals), (Status::New, 2, 1));
}

// S3-65
pub async fn dead_verdict_keeps_the_attempts(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    fail(&k, 2, 10, &[1]).await;
    let t = k.now().await + 24 * HOUR;
    let lease = k.take(t).await;
    assert_eq!(k.settle(t, &lease, died("refused for good")).await, Settled::Dead { attempts: 2 });
    let row = k.row(&id).await;
    assert_eq!((row.status, row.attempts, row.done_at), (Status::Dead, 2, Some(t)));
    assert_eq!(row.last_error.as_deref(), Some("refused for good"));
}

// T10
pub async fn unreachable_spends_no_attempt_and_keeps_the_status(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let t = k.now().await;
    let lease = k.take(t).await;
    assert_eq!(k.settle(t, &lease, unreachable(MINUTE, None)).await, Settled::Waiting { delay: MINUTE });
    let row = k.row(&id).await;
    assert_eq!((row.status, row.attempts, row.deferrals), (Status::New, 0, 0));
    assert_eq!((row.available_at, row.parked, row.done_at), (t + MINUTE, None, None));
    assert_eq!(row.last_error.as_deref(), Some("connection refused"));

    let t = t + MINUTE;
    let lease = k.take(t).await;
    k.settle(t, &lease, failed(10, &[1])).await;
    let lease = k.take(t + MINUTE).await;
    k.settle(t + MINUTE, &lease, unreachable(MINUTE, None)).await;
    let row = k.row(&id).await;
    assert_eq!((row.status, row.attempts), (Status::Retry, 1));
}

// T10
pub async fn unreachable_parks_on_request(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let t = k.now().await;
    k.settle(t, &lease, unreachable(MINUTE, Some("mail"))).await;
    let row = k.row(&lease.id).await;
    assert_eq!((row.parked.as_deref(), row.available_at), (Some("mail"), t + MINUTE));
}

// S3-64, S3-65, S3-96
pub async fn every_verdict_clears_the_lock(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    for verdict in every_verdict() {
        let lease = k.held(1).await.remove(0);
        k.settle(k.now().await, &lease, verdict.clone()).await;
        let row = k.row(&lease.id).await;
        assert_eq!((row.locked_by, row.locked_at), (None, None), "{verdict:?}");
    }
}

// S0-11, S0-17, S1-19, S1-22
pub async fn error_is_cleared_by_done_and_kept_by_retry(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    fail(&k, 1, 10, &[1]).await;
    assert_eq!(k.row(&id).await.last_error.as_deref(), Some("it failed"));
    let t = k.now().await + 24 * HOUR;
    let lease = k.take(t).await;
    assert_eq!(k.row(&id).await.last_error.as_deref(), Some("it failed"), "a claim keeps it");
    k.settle(t, &lease, Verdict::Done).await;
    let row = k.row(&id).await;
    assert_eq!((row.last_error, row.attempts), (None, 1));
}

// S0-20, S3-68
pub async fn longest_error_comes_back(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let error = "🎟".repeat(LAST_ERROR_MAX_LENGTH);
    let leases = k.held(2).await;
    let backoff = Backoff::new(10, [SECOND]);
    let t = k.now().await;
    k.settle(t, &leases[0], Verdict::Failed { error: error.clone(), backoff }).await;
    k.settle(t, &leases[1], died(&error)).await;
    for lease in &leases {
        assert_eq!(k.row(&lease.id).await.last_error.as_ref(), Some(&error));
    }
}

fn delivered_to(lease: &Lease, verdict: Verdict, names: &[&str]) -> Settlement {
    outcome(lease, verdict).with_delivered(names.iter().map(ToString::to_string).collect())
}

pub async fn progress_grows_and_stays(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let mut t = k.now().await;
    for names in [&["mail", "audit"][..], &["mail"], &[], &["crm, \"quoted\""]] {
        let lease = k.take(t).await;
        k.settle_all(Some(t), &[delivered_to(&lease, failed(10, &[1]), names)], OnDone::Keep).await;
        t = t + MINUTE;
    }
    let progress = k.row(&id).await.progress;
    assert!(progress.iter().eq(["audit", "crm, \"quoted\"", "mail"]), "{progress:?}");
}

pub async fn progress_grows_with_every_verdict(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    for verdict in every_verdict() {
        let lease = k.held(1).await.remove(0);
        k.settle_all(None, &[delivered_to(&lease, verdict.clone(), &["mail"])], OnDone::Keep).await;
        assert!(k.row(&lease.id).await.progress.iter().eq(["mail"]), "{verdict:?}");
    }
}

pub async fn progress_of_a_lost_lease_is_not_kept(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let (lost, _) = lost_and_current(&k).await;
    let settled = k.settle_all(None, &[delivered_to(&lost, failed(10, &[1]), &["mail"])], OnDone::Keep).await;
    assert_eq!(settled, [Settled::Stale]);
    assert!(k.row(&lost.id).await.progress.is_empty());
}

pub async fn done_row_can_be_deleted(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let done = [outcome(&lease, Verdict::Done)];
    assert_eq!(k.settle_all(None, &done, OnDone::Delete).await, [Settled::Done]);
    assert!(k.find(&lease.id).await.is_none());
    assert_eq!(k.settle_all(None, &done, OnDone::Delete).await, [Settled::Stale]);
}

// S0-12, S0-27
pub async fn done_row_can_be_archived(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    if k.lacks(h.capabilities().archive, "archive") {
        return;
    }
    let lease = k.held(1).await.remove(0);
    let t = k.now().await;
    let done = [outcome(&lease, Verdict::Done)];
    assert_eq!(k.settle_all(Some(t), &done, OnDone::Archive).await, [Settled::Done]);
    let row = k.row(&lease.id).await;
    assert_eq!((row.status, row.done_at, row.locked_by), (Status::Archived, Some(t), None));
    assert_eq!(k.admin.stats().await.expect("stats work").archived, 1);
    assert_eq!(k.settle_all(None, &done, OnDone::Archive).await, [Settled::Stale]);
}

// S0-12, S1-24: an archived or deleted row is what DONE may become; DEAD waits for an operator.
pub async fn dead_row_is_neither_deleted_nor_archived(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let leases = k.held(4).await;
    let settlements: Vec<Settlement> = [died("no"), failed(1, &[]), failed(9, &[1]), deferred(SECOND)]
        .into_iter()
        .zip(&leases)
        .map(|(verdict, lease)| outcome(lease, verdict))
        .collect();
    k.settle_all(None, &settlements, OnDone::Delete).await;
    let mut statuses = Vec::new();
    for lease in &leases {
        statuses.push(k.row(&lease.id).await.status);
    }
    assert_eq!(statuses, [Status::Dead, Status::Dead, Status::Retry, Status::New]);
}

// S0-14, S0-22, S2-24, S1-28
pub async fn results_are_in_the_order_of_the_request(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let leases = k.held(7).await;
    let foreign = Lease { token: LeaseToken::random(), ..leases[3].clone() };
    let settlements = [
        outcome(&leases[6], unreachable(SECOND, None)),
        outcome(&leases[0], Verdict::Done),
        outcome(&foreign, died("not mine")),
        outcome(&leases[1], failed(10, &[5])),
        outcome(&leases[5], died("no")),
        outcome(&leases[2], deferred(MINUTE)),
        outcome(&leases[4], failed(1, &[5])),
    ];
    let expected = [
        Settled::Waiting { delay: SECOND },
        Settled::Done,
        Settled::Stale,
        Settled::Retry { attempts: 1, delay: 5 * SECOND },
        Settled::Dead { attempts: 0 },
        Settled::Waiting { delay: MINUTE },
        Settled::Dead { attempts: 1 },
    ];
    assert_eq!(k.settle_all(Some(k.now().await), &settlements, OnDone::Keep).await, expected);
    assert_eq!(k.row(&leases[3].id).await.status, Status::New);
}

// S1-01
pub async fn thousand_outcomes_in_one_call(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let written = k.many(1000).await;
    let t = k.now().await;
    let claimed = k.claim(t, 1000).await;
    assert_eq!(sorted(ids(&claimed)), sorted(written));
    let verdict = |n: usize| if n.is_multiple_of(2) { Verdict::Done } else { failed(10, &[60]) };
    let settlement = |(n, leased): (usize, &crate::store::Leased)| outcome(&leased.lease, verdict(n));
    let settlements: Vec<Settlement> = claimed.events.iter().enumerate().map(settlement).collect();
    let settled = k.settle_all(Some(t), &settlements, OnDone::Keep).await;
    for (n, settled) in settled.iter().enumerate() {
        assert_eq!(*settled == Settled::Done, n.is_multiple_of(2), "result {n}: {settled:?}");
    }
    for status in [Status::Done, Status::Retry] {
        assert_eq!(k.admin.count(&Filter::status(status)).await.expect("count works"), 500, "{status}");
    }
}

pub async fn settling_nothing_returns_nothing(h: &dyn Harness) {
    assert!(StoreFixture::new(h).settle_all(None, &[], OnDone::Keep).await.is_empty());
}

// S0-18, S1-05, S1-26
pub async fn concurrent_settlements_count_once(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.hold(vec![plain()]).await.remove(0);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (store, owner) = (h.store(), k.owner.clone());
            let settlements = [outcome(&lease, failed(10, &[5]))];
            tokio::spawn(async move {
                let settle = Settle::new(&owner, &settlements);
                store.settle(&settle).await.expect("the settlement works").remove(0)
            })
        })
        .collect();
    let mut counted = 0;
    for task in tasks {
        counted += usize::from(task.await.expect("no settlement panics") != Settled::Stale);
    }
    assert_eq!((counted, k.row(&lease.id).await.attempts), (1, 1));
}

/// Its owner survived, so this event did not kill the earlier ones.
pub async fn settled_row_that_stays_pending_has_lost_no_lease(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let mut t = k.now().await;
    for verdict in [failed(10, &[1]), deferred(SECOND)] {
        k.take_as_a_stranger(t).await;
        t = t + LEASE;
        let lease = k.take(t).await;
        assert_eq!(k.row(&id).await.lost_leases, 1);
        k.settle(t, &lease, verdict.clone()).await;
        assert_eq!(k.row(&id).await.lost_leases, 0, "{verdict:?}");
        t = t + MINUTE;
    }
}

/// An event that was not delivered proves nothing: only its own counted start is taken back.
pub async fn row_that_was_not_delivered_keeps_its_lost_leases(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let mut t = k.now().await;
    k.take_as_a_stranger(t).await;
    for verdict in [unreachable(SECOND, None), put_off(HOUR)] {
        t = t + MINUTE;
        let lease = k.take(t).await;
        k.settle(t, &lease, verdict.clone()).await;
        assert_eq!(k.row(&id).await.lost_leases, 1, "{verdict:?}");
    }
    for _ in 0..SUSPECT_LOST_LEASES {
        t = t + MINUTE;
        k.take_as_a_stranger(t).await;
    }
    t = t + MINUTE;
    let lease = k.take(t).await;
    k.start(t, &lease).await;
    assert_eq!(k.row(&id).await.lost_leases, SUSPECT_LOST_LEASES + 1);
    k.settle(t, &lease, unreachable(SECOND, None)).await;
    assert_eq!(k.row(&id).await.lost_leases, SUSPECT_LOST_LEASES);
}
