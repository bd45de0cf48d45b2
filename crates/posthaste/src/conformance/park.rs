//! Parking: claims skip the rows of a closed route, and the rows come back in order.

#![allow(missing_docs, reason = "the name of each case states what it proves")]

use super::Harness;
use super::store_fixture::{
    HOUR, LEASE, MICRO, MINUTE, SECOND, StoreFixture, failed, ids, sorted, unreachable,
};
use crate::event::EventId;
use crate::row::Status;
use crate::store::{Lease, LeaseToken, Settled, Verdict};

async fn parked(k: &StoreFixture<'_>, n: usize, route: &str) -> Vec<EventId> {
    let leases = k.held(n).await;
    assert_eq!(k.park(k.now().await, &leases, route).await, n as u64);
    leases.into_iter().map(|lease| lease.id).collect()
}

pub async fn parked_row_is_not_claimed(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let t = k.now().await;
    assert_eq!(k.park(t, std::slice::from_ref(&lease), "mail").await, 1);
    let row = k.row(&lease.id).await;
    assert_eq!((row.parked.as_deref(), row.available_at), (Some("mail"), t + HOUR));
    assert_eq!((row.locked_by, row.locked_at, row.lease_until), (None, None, None));
    assert_eq!(row.status, Status::New);
    assert!(k.claim(t + HOUR - MICRO, 10).await.events.is_empty());
}

// T4
pub async fn only_held_rows_are_parked(h: &dyn Harness) {
    let (k, other) = (StoreFixture::new(h), StoreFixture::new(h));
    let leases = k.held(2).await;
    let t = k.now().await;
    let wrong_token = Lease { token: LeaseToken::random(), ..leases[0].clone() };
    assert_eq!(other.park(t, &leases, "mail").await, 0, "another owner");
    assert_eq!(k.park(t, &[wrong_token], "mail").await, 0, "another token");
    k.settle(t, &leases[1], Verdict::Done).await;
    assert_eq!(k.park(t, &leases[1..], "mail").await, 0, "a settled row");
    assert_eq!(k.row(&leases[0].id).await.parked, None);
    assert_eq!(k.row(&leases[1].id).await.parked, None);
}

pub async fn unattended_row_becomes_due_by_itself(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let t = k.now().await;
    k.park(t, &[lease], "mail").await;
    k.take(t + HOUR).await;
}

// T10
pub async fn attempts_are_not_touched(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let t = k.now().await;
    let lease = k.take(t).await;
    assert_ne!(k.settle(t, &lease, failed(10, &[1])).await, Settled::Stale);
    let lease = k.take(t + MINUTE).await;
    k.park(t + MINUTE, &[lease], "mail").await;
    let row = k.row(&id).await;
    assert_eq!((row.status, row.attempts, row.deferrals), (Status::Retry, 1, 0));
    assert_eq!(k.unpark(t + MINUTE, "mail", 10).await, 1);
    let row = k.row(&id).await;
    assert_eq!((row.status, row.attempts, row.deferrals), (Status::Retry, 1, 0));
}

pub async fn unparked_rows_are_due_immediately(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let written = parked(&k, 3, "mail").await;
    let t = k.now().await;
    assert_eq!(k.unpark(t, "mail", 10).await, 3);
    let row = k.row(&written[0]).await;
    assert_eq!((row.parked, row.available_at), (None, t));
    assert_eq!(sorted(ids(&k.claim(t, 10).await)), sorted(written));
}

pub async fn unpark_follows_insertion_and_its_limit(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    if k.lacks(h.capabilities().insertion_order, "insertion order") {
        return;
    }
    let leases = k.held(5).await;
    let t = k.now().await;
    // Parked in reverse and at different times: only the order of insertion counts.
    for (n, lease) in leases.iter().rev().enumerate() {
        k.park(t + SECOND * n as u32, std::slice::from_ref(lease), "mail").await;
    }
    let order: Vec<EventId> = leases.into_iter().map(|lease| lease.id).collect();
    assert_eq!(k.unpark(t + MINUTE, "mail", 2).await, 2);
    assert_eq!(ids(&k.claim(t + MINUTE, 10).await), order[..2]);
    assert_eq!(k.unpark(t + MINUTE, "mail", 0).await, 0);
    assert_eq!(k.unpark(t + MINUTE, "mail", 10).await, 3);
    assert_eq!(ids(&k.claim(t + MINUTE, 10).await), order[2..]);
}

pub async fn unpark_leaves_other_routes_alone(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let mail = parked(&k, 2, "mail").await;
    let audit = parked(&k, 2, "audit").await;
    let t = k.now().await;
    assert_eq!(k.unpark(t, "unknown", 10).await, 0);
    assert_eq!(k.unpark(t, "mail", 10).await, 2);
    assert_eq!(sorted(ids(&k.claim(t, 10).await)), sorted(mail));
    assert_eq!(k.row(&audit[0]).await.parked.as_deref(), Some("audit"));
}

pub async fn unpark_leaves_claimed_rows_alone(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = parked(&k, 1, "mail").await.remove(0);
    let t = k.now().await + 2 * HOUR;
    k.take(t).await;
    assert_eq!(k.unpark(t, "mail", 10).await, 0);
    assert_eq!(k.row(&id).await.lease_until, Some(t + LEASE));
}

pub async fn unpark_counts_each_row_once(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    parked(&k, 3, "mail").await;
    let t = k.now().await;
    assert_eq!(k.unpark(t, "mail", 10).await, 3);
    assert_eq!(k.unpark(t, "mail", 10).await, 0);
}

pub async fn parking_does_not_count_as_a_loss(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = parked(&k, 1, "mail").await.remove(0);
    k.take(k.now().await + 2 * HOUR).await;
    assert_eq!(k.row(&id).await.lost_leases, 0);
}

// T10
pub async fn unreachable_rows_are_unparked_too(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let t = k.now().await;
    k.settle(t, &lease, unreachable(HOUR, Some("mail"))).await;
    assert_eq!(k.unpark(t, "mail", 10).await, 1);
    let row = k.row(&lease.id).await;
    assert_eq!((row.parked, row.last_error.as_deref()), (None, Some("connection refused")));
    k.take(t).await;
}
