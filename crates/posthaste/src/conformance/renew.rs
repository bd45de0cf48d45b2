//! Renewals: a lease lasts as long as its owner renews it, and a renewal returns only rows that exist.

#![allow(missing_docs, reason = "the name of each case states what it proves")]

use super::store_fixture::{HOUR, LEASE, MICRO, SECOND, StoreFixture, deferred, plain, row, sorted};
use super::{Harness, TxEnd};
use crate::event::EventId;
use crate::store::{Lease, LeaseToken, Verdict};
use crate::writer::{NewLease, NewRow};

pub async fn renewing_moves_the_end(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let t = k.now().await;
    let lease = k.take(t).await;
    let later = t + 20 * SECOND;
    assert_eq!(k.renew(later, std::slice::from_ref(&lease)).await, [lease]);
    assert_eq!(k.row(&id).await.lease_until, Some(later + LEASE));
    assert!(k.claim(later + LEASE - MICRO, 10).await.events.is_empty());
    assert_eq!(k.claim(later + LEASE, 10).await.events.len(), 1);
}

// T4
pub async fn only_held_leases_are_returned(h: &dyn Harness) {
    let (k, other) = (StoreFixture::new(h), StoreFixture::new(h));
    let leases = k.held(3).await;
    let before = k.row(&leases[0].id).await;
    let wrong_token = Lease { token: LeaseToken::random(), ..leases[0].clone() };
    let unknown = Lease::new(EventId::from("unknown"), 4711, leases[0].token);
    let t = k.now().await;
    assert!(other.renew(t, &leases).await.is_empty(), "another owner");
    let held = k.renew(t, &[wrong_token, leases[1].clone(), unknown, leases[2].clone()]).await;
    let held: Vec<EventId> = held.into_iter().map(|lease| lease.id).collect();
    assert_eq!(sorted(held), sorted(vec![leases[1].id.clone(), leases[2].id.clone()]));
    assert_eq!(k.row(&leases[0].id).await.lease_until, before.lease_until);
}

pub async fn lapsed_lease_that_was_not_taken_over_is_renewed(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.one().await;
    let t = k.now().await;
    let lease = k.take(t).await;
    let later = t + HOUR;
    assert_eq!(k.renew(later, std::slice::from_ref(&lease)).await, [lease]);
    assert!(k.claim(later, 10).await.events.is_empty());
}

// T4
pub async fn lapsed_lease_that_was_taken_over_is_not_renewed(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.one().await;
    let t = k.now().await;
    let lost = k.take(t).await;
    let current = StoreFixture::new(h).take(t + LEASE).await;
    assert!(k.renew(t + LEASE, &[lost]).await.is_empty());
    assert_eq!(k.row(&current.id).await.lease_until, Some(t + 2 * LEASE));
}

pub async fn settled_and_released_rows_are_not_renewed(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let leases = k.held(4).await;
    let t = k.now().await;
    k.settle(t, &leases[0], Verdict::Done).await;
    k.settle(t, &leases[1], deferred(SECOND)).await;
    k.release(t, &leases[2..3]).await;
    k.park(t, &leases[3..4], "mail").await;
    assert!(k.renew(t, &leases).await.is_empty());
}

/// The engine uses this to find out which rows of an unproven commit exist.
// T9
pub async fn renewal_returns_which_rows_were_committed(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let token = LeaseToken::random();
    let lease = NewLease::new(k.owner.clone(), token, LEASE);
    let rows = [plain(), plain()].map(|event| row(event).with_lease(Some(lease.clone())));
    let kept = h.insert(&rows[..1], TxEnd::Commit).await.expect("the insert works");
    let undone = h.insert(&rows[1..], TxEnd::Rollback).await.expect("the insert works");
    let name = |row: &NewRow, seq: Option<i64>| {
        Lease::new(row.event.id().clone(), seq.expect("a new id is inserted"), token)
    };
    let leases = [name(&rows[0], kept[0]), name(&rows[1], undone[0])];
    assert_eq!(k.renew(k.now().await, &leases).await, leases[..1]);
}

pub async fn renewing_does_not_count_as_a_loss(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let t = k.now().await;
    let lease = k.take(t).await;
    for round in 1..=3 {
        k.renew(t + round * HOUR, std::slice::from_ref(&lease)).await;
    }
    let row = k.row(&id).await;
    assert_eq!((row.lost_leases, row.attempts), (0, 0));
}

pub async fn renewing_nothing_returns_nothing(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    assert!(k.renew(k.now().await, &[]).await.is_empty());
}
