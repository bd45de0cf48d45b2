//! Purges: rows that ended long ago are removed, and no others.

#![allow(missing_docs, reason = "the name of a case is the claim that it proves")]

use std::time::Duration;

use super::Harness;
use super::store_fixture::{HOUR, MICRO, SECOND, StoreFixture, delayed, outcome, plain, row};
use crate::event::Event;
use crate::row::Status;
use crate::store::{OnDone, Purge, Purgeable, Verdict};
use crate::time::Timestamp;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn purge(what: Purgeable, at: Timestamp) -> Purge {
    Purge::new(what, DAY, 100).at(at)
}

async fn run(k: &StoreFixture<'_>, purge: Purge) -> u64 {
    k.store.purge_batch(&purge).await.expect("the purge works")
}

// S3-122, S3-123, T13
pub async fn old_done_rows_are_deleted(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let t = k.now().await;
    let id = k.done(1, Some(t)).await.remove(0);
    assert_eq!(run(&k, purge(Purgeable::Done, t + DAY - MICRO)).await, 0);
    assert_eq!(run(&k, purge(Purgeable::Done, t + DAY)).await, 1);
    assert!(k.find(&id).await.is_none());
}

// S1-24, T13
pub async fn done_and_dead_are_purged_apart(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let t = k.now().await;
    let done = k.done(1, Some(t)).await.remove(0);
    let dead = k.dead(vec![plain()], "no", Some(t)).await.remove(0);
    assert_eq!(run(&k, purge(Purgeable::Dead, t + DAY)).await, 1);
    assert!(k.find(&dead).await.is_none());
    assert_eq!(k.row(&done).await.status, Status::Done);
    assert_eq!(run(&k, purge(Purgeable::Dead, t + DAY)).await, 0);
}

// S3-123, T6, D18: an old event that ended a minute ago stays.
pub async fn age_counts_from_the_end_not_from_the_beginning(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let long_ago = Timestamp::from_micros(1_000_000_000_000_000);
    let old = || Event::builder("Old").occurred_at(long_ago).json_text("1").build().expect("a good event");
    let end = k.now().await + 10 * DAY;
    let dead = k.dead(vec![old()], "no", Some(end)).await.remove(0);
    let lease = k.hold(vec![old()]).await.remove(0);
    k.settle_all(Some(end), &[outcome(&lease, Verdict::Done)], OnDone::Keep).await;
    for what in [Purgeable::Done, Purgeable::Dead] {
        assert_eq!(run(&k, purge(what, end + HOUR)).await, 0, "{what:?}");
    }
    assert!(k.find(&dead).await.is_some());
    for what in [Purgeable::Done, Purgeable::Dead] {
        assert_eq!(run(&k, purge(what, end + DAY)).await, 1, "{what:?}");
    }
}

pub async fn pending_rows_are_never_purged_by_status(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.insert(&[row(plain()), delayed(HOUR)]).await;
    let lease = k.held(2).await.remove(0);
    k.settle(k.now().await, &lease, super::store_fixture::failed(10, &[1])).await;
    let later = k.now().await + 1000 * DAY;
    for what in [Purgeable::Done, Purgeable::Dead] {
        assert_eq!(run(&k, purge(what, later)).await, 0);
    }
    let stats = k.admin.stats().await.expect("stats work");
    assert_eq!((stats.new, stats.retry), (3, 1));
}

// S3-21, S3-99, S3-130
pub async fn any_purges_by_insertion_whatever_the_status(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let first = k.one().await;
    let inserted = k.row(&first).await.inserted_at;
    k.done(1, None).await;
    k.dead(vec![plain()], "no", None).await;
    k.held(1).await;
    assert_eq!(run(&k, purge(Purgeable::Any, inserted + DAY - MICRO)).await, 0);
    let t = k.now().await;
    assert_eq!(run(&k, purge(Purgeable::Any, t + DAY)).await, 4);
    let stats = k.admin.stats().await.expect("stats work");
    assert_eq!((stats.new, stats.done, stats.dead, stats.archived), (0, 0, 0, 0));
}

// S3-124, S3-126
pub async fn limit_is_kept_and_the_oldest_go_first(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let t = k.now().await;
    let younger = k.done(1, Some(t + HOUR)).await.remove(0);
    let older = k.done(2, Some(t)).await;
    let two = |limit| purge(Purgeable::Done, t + 2 * DAY).with_limit(limit);
    assert_eq!(run(&k, two(0)).await, 0);
    assert_eq!(run(&k, two(2)).await, 2);
    if h.capabilities().insertion_order {
        for id in &older {
            assert!(k.find(id).await.is_none());
        }
        assert_eq!(k.row(&younger).await.status, Status::Done);
    }
    assert_eq!(run(&k, two(2)).await, 1);
    assert_eq!(run(&k, two(2)).await, 0);
}

// S0-27
pub async fn purged_rows_can_be_archived(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    if k.lacks(h.capabilities().archive, "archive") {
        return;
    }
    let t = k.now().await;
    let done = k.done(1, Some(t)).await.remove(0);
    let dead = k.dead(vec![plain()], "no use", Some(t)).await.remove(0);
    for what in [Purgeable::Done, Purgeable::Dead] {
        assert_eq!(run(&k, purge(what, t + DAY + SECOND).with_archive(true)).await, 1);
    }
    let (done, dead) = (k.row(&done).await, k.row(&dead).await);
    assert_eq!((done.status, done.done_at), (Status::Archived, Some(t)));
    assert_eq!((dead.status, dead.last_error.as_deref()), (Status::Archived, Some("no use")));
    let stats = k.admin.stats().await.expect("stats work");
    assert_eq!((stats.done, stats.dead, stats.archived), (0, 0, 2));
}

/// Ten days later, so that a store that keeps its archive in days has whole days to drop.
pub async fn old_archived_rows_are_deleted(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    if k.lacks(h.capabilities().archive, "archive") {
        return;
    }
    let t = k.now().await;
    let archived = k.done(2, Some(t)).await;
    let kept = k.done(1, Some(t + HOUR)).await.remove(0);
    let two = purge(Purgeable::Done, t + DAY).with_archive(true).with_limit(2);
    assert_eq!(run(&k, two).await, 2);
    assert_eq!(run(&k, purge(Purgeable::Archived, t + DAY - MICRO)).await, 0);
    assert_eq!(run(&k, purge(Purgeable::Archived, t + 10 * DAY)).await, 2);
    for id in &archived {
        assert!(k.find(id).await.is_none());
    }
    assert_eq!(k.row(&kept).await.status, Status::Done);
}

pub async fn purging_nothing_returns_zero(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let t = k.now().await + 1000 * DAY;
    for what in [Purgeable::Done, Purgeable::Dead, Purgeable::Any, Purgeable::Archived] {
        assert_eq!(run(&k, purge(what, t)).await, 0);
    }
}
