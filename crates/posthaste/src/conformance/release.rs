//! Releases: a released row is due immediately, as if it had not been claimed.

#![allow(missing_docs, reason = "the name of each case states what it proves")]

use super::store_fixture::{LEASE, MINUTE, SECOND, StoreFixture, failed, ids, plain, row, sorted};
use super::{Harness, TxEnd};
use crate::row::Status;
use crate::store::{Lease, LeaseToken, Settled, Verdict};
use crate::writer::NewLease;

// T5
pub async fn released_row_is_due_immediately(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let written = k.many(3).await;
    let t = k.now().await;
    let leases: Vec<Lease> = k.claim(t, 10).await.events.into_iter().map(|leased| leased.lease).collect();
    let later = t + SECOND;
    assert_eq!(k.release(later, &leases).await, 3);
    let row = k.row(&written[0]).await;
    assert_eq!((row.available_at, row.lease_until), (later, None));
    assert_eq!((row.locked_by, row.locked_at), (None, None));
    assert_eq!(sorted(ids(&StoreFixture::new(h).claim(later, 10).await)), sorted(written));
}

// T4
pub async fn only_held_rows_are_released(h: &dyn Harness) {
    let (k, other) = (StoreFixture::new(h), StoreFixture::new(h));
    let leases = k.held(3).await;
    let t = k.now().await;
    let before = k.row(&leases[0].id).await;
    let wrong_token = Lease { token: LeaseToken::random(), ..leases[0].clone() };
    assert_eq!(other.release(t, &leases).await, 0, "another owner");
    assert_eq!(k.release(t, &[wrong_token]).await, 0, "another token");
    assert_eq!(format!("{:?}", k.row(&leases[0].id).await), format!("{before:?}"));
    k.settle(t, &leases[1], Verdict::Done).await;
    assert_eq!(k.release(t, &leases[1..]).await, 1, "a settled row is left out");
    assert_eq!(k.row(&leases[1].id).await.status, Status::Done);
}

pub async fn released_row_does_not_count_as_lost(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let t = k.now().await;
    for _ in 0..3 {
        let lease = k.take(t).await;
        k.release(t, &[lease]).await;
    }
    k.take(t).await;
    assert_eq!(k.row(&id).await.lost_leases, 0);
}

pub async fn releasing_twice_changes_nothing(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let t = k.now().await;
    assert_eq!(k.release(t, std::slice::from_ref(&lease)).await, 1);
    let current = StoreFixture::new(h).take(t).await;
    assert_eq!(k.release(t, &[lease]).await, 0);
    assert_eq!(k.row(&current.id).await.lease_until, Some(t + LEASE));
}

/// The engine releases the rows of a receipt without knowing whether their transaction was rolled back.
pub async fn release_of_a_rolled_back_row_changes_nothing(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let token = LeaseToken::random();
    let lease = NewLease::new(k.owner.clone(), token, LEASE);
    let new = row(plain()).with_lease(Some(lease));
    let id = new.event.id().clone();
    let seqs = h.insert(std::slice::from_ref(&new), TxEnd::Rollback).await.expect("the insert works");
    let lease = Lease::new(id, seqs[0].expect("a new id is inserted"), token);
    assert_eq!(k.release(k.now().await, &[lease]).await, 0);
}

pub async fn release_keeps_the_rest_of_the_row(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let t = k.now().await;
    let lease = k.take(t).await;
    assert_ne!(k.settle(t, &lease, failed(10, &[1])).await, Settled::Stale);
    let lease = k.take(t + MINUTE).await;
    k.release(t + MINUTE, &[lease]).await;
    let row = k.row(&id).await;
    assert_eq!((row.status, row.attempts, row.deferrals), (Status::Retry, 1, 0));
    assert_eq!(row.last_error.as_deref(), Some("it failed"));
}
