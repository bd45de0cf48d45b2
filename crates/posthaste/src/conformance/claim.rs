//! Claims: a due row goes to one owner at a time.

#![allow(missing_docs, reason = "the name of each case states what it proves")]

use std::time::Duration;

use super::store_fixture::{
    HOUR, LEASE, MICRO, MINUTE, SECOND, StoreFixture, claim_by, deferred, delayed, died, failed, ids,
    outcome, plain, row, sorted,
};
use super::{Defect, Harness};
use crate::admin::Replay;
use crate::event::{Event, EventId};
use crate::row::Status;
use crate::store::{
    ClaimOrder, Lease, MAX_LOST_LEASES, Malformed, OnDone, Owner, SUSPECT_LOST_LEASES, Settled, Settlement,
    Verdict,
};
use crate::time::Timestamp;

// S0-08
pub async fn claim_of_an_empty_store_returns_nothing(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let claimed = k.claim(k.now().await, 10).await;
    assert!(claimed.events.is_empty() && claimed.malformed.is_empty());
    assert!(claimed.paused.is_empty());
}

// S0-08, S3-67, S3-92, S1-14
pub async fn oldest_due_comes_first(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let (late, soon, now) = (delayed(30 * SECOND), delayed(10 * SECOND), row(plain()));
    k.insert(&[late.clone(), soon.clone(), now.clone()]).await;
    let order = [&now, &soon, &late].map(|row| row.event.id().clone());
    assert_eq!(ids(&k.claim(k.now().await + MINUTE, 10).await), order);
}

pub async fn rows_due_together_come_in_order_of_insertion(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    if k.lacks(h.capabilities().insertion_order, "insertion order") {
        return;
    }
    let leases = k.held(20).await;
    let t = k.now().await;
    let defer = |lease: &Lease| outcome(lease, deferred(SECOND));
    let settlements: Vec<Settlement> = leases.iter().rev().map(defer).collect();
    k.settle_all(Some(t), &settlements, OnDone::Keep).await;
    let order: Vec<_> = leases.into_iter().map(|lease| lease.id).collect();
    assert_eq!(ids(&k.claim(t + SECOND, 50).await), order);
}

// S1-11
pub async fn retried_row_moves_behind_rows_that_were_due_earlier(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    if k.lacks(h.capabilities().insertion_order, "insertion order") {
        return;
    }
    let written = k.many(2).await;
    let t = k.now().await;
    let first = k.claim(t, 1).await.events.remove(0).lease;
    assert_eq!(first.id, written[0]);
    k.settle(t, &first, failed(10, &[10])).await;
    assert_eq!(ids(&k.claim(t + MINUTE, 1).await), [written[1].clone()]);
}

// D27
pub async fn strict_claim_follows_insertion_not_due_time(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    if k.lacks(h.capabilities().insertion_order, "insertion order") {
        return;
    }
    let (first, second) = (delayed(30 * SECOND), row(plain()));
    k.insert(&[first.clone(), second.clone()]).await;
    let claim = k.request(k.now().await + MINUTE, 10).with_order(ClaimOrder::Seq);
    let order = [&first, &second].map(|row| row.event.id().clone());
    assert_eq!(ids(&k.claim_with(claim).await), order);
}

pub async fn strict_claim_skips_rows_that_are_not_due(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    if k.lacks(h.capabilities().insertion_order, "insertion order") {
        return;
    }
    let (first, second) = (delayed(HOUR), row(plain()));
    k.insert(&[first, second.clone()]).await;
    let claim = k.request(k.now().await, 10).with_order(ClaimOrder::Seq);
    assert_eq!(ids(&k.claim_with(claim).await), [second.event.id().clone()]);
}

// T3
pub async fn strict_claim_never_skips_a_leased_row(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    if k.lacks(h.capabilities().insertion_order, "insertion order") {
        return;
    }
    let written = k.many(3).await;
    let t = k.now().await;
    let strict = |limit| k.request(t, limit).with_order(ClaimOrder::Seq);
    assert_eq!(ids(&k.claim_with(strict(1)).await), written[..1]);
    assert_eq!(ids(&k.claim_with(strict(10)).await), Vec::<EventId>::new());
    let lapsed = strict(10).at(t + HOUR);
    assert_eq!(ids(&k.claim_with(lapsed).await), written);
}

// S0-08, S0-09, S2-24, S1-12
pub async fn limit_is_kept(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let written = k.many(5).await;
    let t = k.now().await;
    let first = ids(&k.claim(t, 2).await);
    assert_eq!(first.len(), 2);
    let rest = ids(&k.claim(t, 10).await);
    assert_eq!(sorted([first, rest].concat()), sorted(written));
}

pub async fn limit_of_zero_claims_nothing(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    assert!(k.claim(k.now().await, 0).await.events.is_empty());
    assert_eq!(k.row(&id).await.locked_by, None);
}

// S2-31, S3-92, S1-12
pub async fn row_is_due_exactly_at_its_time(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let t = k.now().await;
    k.settle(t, &lease, deferred(10 * SECOND)).await;
    assert!(k.claim(t + 10 * SECOND - MICRO, 10).await.events.is_empty());
    assert_eq!(k.claim(t + 10 * SECOND, 10).await.events.len(), 1);
}

// S3-28, S3-94
pub async fn claim_sets_the_lock(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let t = k.now().await;
    let claim = k.request(t, 10);
    let token = claim.token;
    let leased = k.claim_with(claim).await.events.remove(0);
    assert_eq!(leased.lease.token, token);
    let row = k.row(&id).await;
    assert_eq!(leased.lease.seq, row.seq);
    assert_eq!(row.locked_by.as_deref(), Some(k.owner.as_str()));
    assert_eq!(row.locked_at, Some(t));
    assert_eq!(row.lease_until, Some(t + LEASE));
    assert_eq!((row.status, row.lost_leases), (Status::New, 0));
}

// T4
pub async fn leased_row_is_not_claimed_again(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.one().await;
    let t = k.now().await;
    k.take(t).await;
    assert!(k.claim(t + LEASE - MICRO, 10).await.events.is_empty());
}

// S3-95, S1-01
pub async fn lapsed_lease_is_claimed_again(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let t = k.now().await;
    let first = k.take(t).await;
    let second = StoreFixture::new(h);
    let again = second.take(t + LEASE).await;
    assert_eq!((&again.id, again.seq), (&first.id, first.seq));
    assert_ne!(again.token, first.token);
    assert_eq!(k.row(&id).await.locked_by.as_deref(), Some(second.owner.as_str()));
}

// S2-31, S3-67, S3-92, D9
pub async fn recent_rows_are_skipped(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let inserted = k.row(&id).await.inserted_at;
    let claim = |at: Timestamp| k.request(at, 10).with_skip_recent(MINUTE);
    assert!(k.claim_with(claim(inserted + MINUTE - MICRO)).await.events.is_empty());
    assert_eq!(k.claim_with(claim(inserted + MINUTE)).await.events.len(), 1);
}

// S3-97, S1-05, S1-29
pub async fn concurrent_claims_never_share_a_row(h: &dyn Harness) {
    const TASKS: usize = 8;
    let k = StoreFixture::new(h);
    let written = k.many(1000).await;
    let t = k.now().await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let store = h.store();
            tokio::spawn(async move {
                let owner = Owner::random("racer");
                let mut seen = Vec::new();
                loop {
                    let claimed = store.claim(&claim_by(&owner, t, 7)).await.expect("the claim works");
                    if claimed.events.is_empty() {
                        return seen;
                    }
                    seen.extend(ids(&claimed));
                }
            })
        })
        .collect();
    let mut seen = Vec::new();
    for task in tasks {
        seen.extend(task.await.expect("no claim panics"));
    }
    // A store may return nothing while another claim holds its locks, so some rows may be left.
    loop {
        let rest = ids(&k.claim(t, 100).await);
        if rest.is_empty() {
            break;
        }
        seen.extend(rest);
    }
    assert_eq!(seen.len(), 1000, "no row is claimed twice");
    assert_eq!(sorted(seen), sorted(written));
}

// S0-12, S2-31, S3-92, S1-19
pub async fn terminal_rows_are_not_claimed(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.done(2, None).await;
    k.dead(vec![plain(), plain()], "no", None).await;
    assert!(k.claim(k.now().await + 24 * HOUR, 10).await.events.is_empty());
}

pub async fn lapsed_lease_of_another_owner_is_counted(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let t = k.now().await;
    k.take_as_a_stranger(t).await;
    k.take(t + LEASE).await;
    let row = k.row(&id).await;
    assert_eq!((row.lost_leases, row.attempts, row.status), (1, 0, Status::New));
}

pub async fn own_lapsed_lease_is_not_counted(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let t = k.now().await;
    k.take(t).await;
    k.take(t + LEASE).await;
    assert_eq!(k.row(&id).await.lost_leases, 0, "only a reply was lost");
}

/// Claims the only row repeatedly, each time by another owner after the previous lease has lapsed.
async fn lose(k: &StoreFixture<'_>, mut t: Timestamp, times: u32) -> Timestamp {
    k.take_as_a_stranger(t).await;
    for _ in 0..times {
        t = t + LEASE;
        k.take_as_a_stranger(t).await;
    }
    t
}

/// Claims alone never make a row DEAD, however often its owners die, because its delivery may never have begun.
pub async fn lapsed_leases_count_no_further_than_suspicion(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let t = lose(&k, k.now().await, MAX_LOST_LEASES + 2).await + LEASE;
    let claimed = k.claim(t, 10).await;
    assert_eq!(claimed.events[0].lost_leases, SUSPECT_LOST_LEASES);
    let row = k.row(&id).await;
    assert_eq!((row.status, row.lost_leases, row.attempts), (Status::New, SUSPECT_LOST_LEASES, 0));
}

pub async fn started_suspects_count_beyond_suspicion(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let t = lose(&k, k.now().await, SUSPECT_LOST_LEASES).await + LEASE;
    let lease = k.take(t).await;
    assert_eq!(k.start(t, &lease).await, std::slice::from_ref(&lease));
    assert_eq!(k.row(&id).await.lost_leases, SUSPECT_LOST_LEASES + 1);
    let stranger = Owner::random("stranger");
    let claimed = k.claim_with(claim_by(&stranger, t + LEASE, 10)).await;
    assert_eq!(
        claimed.events[0].lost_leases,
        SUSPECT_LOST_LEASES + 1,
        "the start was counted, the claim is not"
    );
    assert!(k.start(t, &lease).await.is_empty(), "a lost lease starts nothing");
    assert_eq!(k.row(&id).await.lost_leases, SUSPECT_LOST_LEASES + 1);
}

pub async fn suspects_do_not_hide_other_rows(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let unlucky = k.one().await;
    let t = lose(&k, k.now().await, MAX_LOST_LEASES).await + LEASE;
    let other = k.one().await;
    assert_eq!(sorted(ids(&k.claim(t, 10).await)), sorted(vec![unlucky, other]));
}

/// Rows with payloads of these sizes, each due before the next.
async fn of_sizes(k: &StoreFixture<'_>, sizes: &[usize]) -> Vec<EventId> {
    let mut written = Vec::new();
    for size in sizes {
        // One aggregate, so one shard in a store with several: each shard may return its first row whatever its size.
        let event = Event::builder("Tested").aggregate("Load", "one");
        let event = event.json_text(format!("\"{}\"", "x".repeat(size - 2))).build().expect("a good event");
        written.push(event.id().clone());
        k.insert(&[row(event)]).await;
    }
    written
}

/// The ids that a claim of this many bytes returns, and whether it reports more rows.
async fn claim_bytes(k: &StoreFixture<'_>, at: Timestamp, max_bytes: usize) -> (Vec<EventId>, bool) {
    let claimed = k.claim_with(k.request(at, 10).with_max_bytes(max_bytes)).await;
    (ids(&claimed), claimed.cut)
}

pub async fn claim_ends_before_the_row_that_does_not_fit(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let written = of_sizes(&k, &[100_000, 100_000, 100_000, 100_000]).await;
    let t = k.now().await;
    assert_eq!(claim_bytes(&k, t, 320_000).await, (written[..3].to_vec(), true));
    assert_eq!(
        claim_bytes(&k, t, 320_000).await,
        (written[3..].to_vec(), false),
        "the rest is due as before"
    );
}

pub async fn first_row_is_claimed_whatever_its_size(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let written = of_sizes(&k, &[300_000, 1_000]).await;
    let t = k.now().await;
    assert_eq!(claim_bytes(&k, t, 0).await, (written[..1].to_vec(), true));
    assert_eq!(claim_bytes(&k, t, 50_000).await, (written[1..].to_vec(), false));
}

pub async fn large_row_is_not_overtaken_by_small_ones(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let written = of_sizes(&k, &[1_000, 300_000, 1_000]).await;
    let t = k.now().await;
    assert_eq!(claim_bytes(&k, t, 50_000).await, (written[..1].to_vec(), true));
    assert_eq!(claim_bytes(&k, t, 50_000).await, (written[1..2].to_vec(), true));
    assert_eq!(claim_bytes(&k, t, 50_000).await, (written[2..].to_vec(), false));
}

pub async fn bytes_bound_strict_claims_too(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    if k.lacks(h.capabilities().insertion_order, "insertion order") {
        return;
    }
    let written = of_sizes(&k, &[1_000, 300_000, 1_000]).await;
    let t = k.now().await;
    let strict = k.request(t, 10).with_order(ClaimOrder::Seq).with_max_bytes(50_000);
    let claimed = k.claim_with(strict).await;
    assert_eq!((ids(&claimed), claimed.cut), (written[..1].to_vec(), true));
    let leases: Vec<Lease> = claimed.events.into_iter().map(|leased| leased.lease).collect();
    assert_eq!(k.release(t, &leases).await, 1);
    let strict = k.request(t, 10).with_order(ClaimOrder::Seq).with_max_bytes(400_000);
    assert_eq!(ids(&k.claim_with(strict).await), written);
}

/// A delayed event has no `available_at` when it is delivered, on every store.
pub async fn claimed_event_has_no_delay(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let event = Event::builder("Tested").json_text("{}").deliver_after(MINUTE).build().expect("a good event");
    k.insert(&[row(event)]).await;
    let leased = k.claim(k.now().await + HOUR, 10).await.events.remove(0);
    assert_eq!((leased.event.available_at(), leased.event.is_delayed()), (None, false));
}

pub async fn reasons_of_parked_rows_are_returned(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let leases = k.held(3).await;
    let t = k.now().await;
    assert_eq!(k.park(t, &leases[..2], "mail").await, 2);
    assert_eq!(k.park(t, &leases[2..], "search").await, 1);
    let paused = k.admin.pause("unrelated", "ann").await;
    paused.expect("an operator's call drops the cached list");
    assert!(k.claim(t, 0).await.parked.iter().eq(["mail", "search"]));
    assert_eq!(k.unpark(t, "mail", 10).await, 2);
}

pub async fn attempts_replays_and_progress_come_with_the_row(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let t = k.now().await;
    k.settle(t, &lease, died("no")).await;
    assert!(k.admin.replay(&lease.id, &Replay::by("ann")).await.expect("replay works"));
    let t = k.now().await;
    let lease = k.take(t).await;
    let failure = outcome(&lease, failed(10, &[1])).with_delivered(vec!["mail".to_owned()]);
    k.settle_all(Some(t), &[failure], OnDone::Keep).await;
    let leased = k.claim(t + SECOND, 10).await.events.remove(0);
    assert_eq!((leased.attempts, leased.replays), (1, 1));
    assert!(leased.progress.iter().eq(["mail"]));
}

pub async fn claim_clears_parked(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let t = k.now().await;
    assert_eq!(k.park(t, std::slice::from_ref(&lease), "mail").await, 1);
    k.take(t + HOUR).await;
    assert_eq!(k.row(&lease.id).await.parked, None);
}

/// Claims a row with this defect. `None` if the store refuses such rows.
async fn malformed(k: &StoreFixture<'_>, defect: Defect) -> Option<Malformed> {
    let Some(id) = k.harness.insert_raw(defect).await else {
        println!("skipped: this store refuses a row with {defect:?}");
        return None;
    };
    let t = k.now().await;
    let mut claimed = k.claim(t, 10).await;
    assert!(claimed.events.is_empty(), "{claimed:?}");
    assert_eq!(claimed.malformed.len(), 1, "the row is returned as malformed");
    let malformed = claimed.malformed.remove(0);
    assert_eq!(malformed.lease.id, id);
    assert!(!malformed.reason.trim().is_empty());
    let row = k.row(&id).await;
    assert_eq!(row.locked_by.as_deref(), Some(k.owner.as_str()), "it is leased as well");
    assert!(row.malformed.is_some(), "an operator sees it");
    assert!(k.claim(t, 10).await.malformed.is_empty(), "no other claim returns it");
    Some(malformed)
}

// S3-93
pub async fn bad_headers_are_malformed(h: &dyn Harness) {
    if let Some(malformed) = malformed(&StoreFixture::new(h), Defect::BadHeaders).await {
        assert!(!malformed.reason.contains(Defect::SECRET), "{}", malformed.reason);
    }
}

// S3-93
pub async fn unknown_status_is_malformed(h: &dyn Harness) {
    malformed(&StoreFixture::new(h), Defect::UnknownStatus).await;
}

// S3-93
pub async fn negative_attempts_are_malformed(h: &dyn Harness) {
    malformed(&StoreFixture::new(h), Defect::NegativeAttempts).await;
}

// S3-93
pub async fn missing_payload_is_malformed(h: &dyn Harness) {
    malformed(&StoreFixture::new(h), Defect::NoPayload).await;
}

// S3-93
pub async fn malformed_row_never_hides_other_rows(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let before = k.one().await;
    let defect = h.insert_raw(Defect::BadHeaders).await;
    let after = k.one().await;
    let claimed = k.claim(k.now().await, 10).await;
    assert_eq!(sorted(ids(&claimed)), sorted(vec![before, after]));
    assert_eq!(claimed.malformed.len(), defect.iter().count());
}

// S3-93
pub async fn malformed_row_can_be_settled_as_dead(h: &dyn Harness) {
    for defect in [Defect::BadHeaders, Defect::UnknownStatus, Defect::NegativeAttempts, Defect::NoPayload] {
        let k = StoreFixture::new(h);
        let Some(malformed) = malformed(&k, defect).await else { continue };
        let settled = k.settle(k.now().await, &malformed.lease, died(&malformed.reason)).await;
        assert!(matches!(settled, Settled::Dead { .. }), "{defect:?}: {settled:?}");
        let row = k.row(&malformed.lease.id).await;
        assert_eq!((row.status, row.last_error), (Status::Dead, Some(malformed.reason)));
    }
}

pub async fn paused_routes_are_returned(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.admin.pause("mail", "ann").await.expect("pause works");
    assert!(becomes(&k, &["mail"]).await, "the pause is seen");
    k.admin.resume("mail", "ann").await.expect("resume works");
    assert!(becomes(&k, &[]).await, "its end is seen");
}

/// Whether claims return these paused routes. A store may return a list that is a second old, so this function waits
/// for it.
async fn becomes(k: &StoreFixture<'_>, paused: &[&str]) -> bool {
    for _ in 0..60 {
        if k.claim(k.now().await, 0).await.paused.iter().eq(paused.iter().copied()) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

async fn oldest(k: &StoreFixture<'_>, at: Timestamp) -> Option<Duration> {
    k.store.oldest_pending(Some(at)).await.expect("oldest_pending works")
}

pub async fn oldest_pending_of_nothing_is_none(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    assert_eq!(oldest(&k, k.now().await).await, None);
    assert_eq!(k.store.oldest_pending(None).await.expect("oldest_pending works"), None);
}

// T11
pub async fn oldest_pending_is_the_age_by_insertion(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let first = k.one().await;
    k.many(3).await;
    let inserted = k.row(&first).await.inserted_at;
    assert_eq!(oldest(&k, inserted + 90 * SECOND).await, Some(90 * SECOND));
}

pub async fn oldest_pending_counts_leased_and_retried_rows(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let inserted = k.row(&lease.id).await.inserted_at;
    let t = inserted + MINUTE;
    assert_eq!(oldest(&k, t).await, Some(MINUTE), "born leased");
    for verdict in
        [failed(10, &[3600]), deferred(HOUR), super::store_fixture::unreachable(HOUR, Some("mail"))]
    {
        let lease = k.held(1).await.remove(0);
        let settled = k.settle(t, &lease, verdict).await;
        assert_ne!(settled, Settled::Stale);
    }
    k.settle(t, &lease, Verdict::Done).await;
    assert!(oldest(&k, t).await.is_some_and(|age| age <= MINUTE), "rows that wait again");
}

pub async fn oldest_pending_ignores_the_first_delay(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let delayed = delayed(HOUR);
    k.insert(std::slice::from_ref(&delayed)).await;
    let inserted = k.row(delayed.event.id()).await.inserted_at;
    assert_eq!(oldest(&k, inserted + HOUR - MICRO).await, None);
    assert_eq!(oldest(&k, inserted + 2 * HOUR).await, Some(2 * HOUR));
    k.take(inserted + 2 * HOUR).await;
    assert_eq!(oldest(&k, inserted + 2 * HOUR).await, Some(2 * HOUR), "on lease");
}

pub async fn oldest_pending_ignores_terminal_rows(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.done(1, None).await;
    k.dead(vec![plain()], "no", None).await;
    assert_eq!(oldest(&k, k.now().await).await, None);
}
