//! Operators' calls: they show what is in the store, and every change is audited.

#![allow(missing_docs, reason = "the name of a case is the claim that it proves")]

use std::time::Duration;

use super::store_fixture::{
    HOUR, LEASE, MINUTE, StoreFixture, delayed, died, failed, named, outcome, plain, row, sorted,
};
use super::{Defect, Harness};
use crate::admin::{
    AuditEntry, Backlog, BacklogBy, Estimated, Filter, PageRequest, ParkReason, Replay, Tolerance,
};
use crate::event::{Event, EventId};
use crate::row::{EventRow, Status};
use crate::store::{OnDone, Purge, Purgeable, Settled, Settlement, Verdict};

async fn count(k: &StoreFixture<'_>, filter: Filter) -> u64 {
    k.admin.count(&filter).await.expect("count works")
}

/// All pages of a list, `limit` rows each.
async fn pages(k: &StoreFixture<'_>, filter: &Filter, limit: usize) -> Vec<EventRow> {
    let mut rows = Vec::new();
    let mut page = PageRequest::first(limit);
    loop {
        let answer = k.admin.list(filter, &page).await.expect("list works");
        assert!(answer.items.len() <= limit);
        rows.extend(answer.items);
        let Some(next) = answer.next else { return rows };
        page = PageRequest::after(next, limit);
    }
}

async fn audit(k: &StoreFixture<'_>) -> Vec<AuditEntry> {
    k.admin.audit(&PageRequest::first(100)).await.expect("audit works").items
}

fn row_ids(rows: &[EventRow]) -> Vec<EventId> {
    rows.iter().map(|row| row.id.clone()).collect()
}

fn plains(n: usize) -> Vec<Event> {
    (0..n).map(|_| plain()).collect()
}

// S1-01
pub async fn stats_count_every_state(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.insert(&[row(plain()), row(plain()), delayed(HOUR)]).await;
    let leases = k.held(3).await;
    let t = h.now().await;
    k.park(t, &leases[..1], "mail").await;
    k.settle(t, &leases[1], failed(10, &[3600])).await;
    k.done(4, None).await;
    k.dead(plains(5), "no", None).await;
    k.admin.pause("mail", "ann").await.expect("pause works");
    let stats = k.admin.stats().await.expect("stats work");
    assert_eq!((stats.new, stats.retry, stats.done, stats.dead, stats.archived), (5, 1, 4, 5, 0));
    assert_eq!((stats.due, stats.leased, stats.parked, stats.scheduled), (2, 1, 1, 2));
    assert!(stats.oldest_pending.is_some());
    assert!(stats.paused.iter().eq(["mail"]));
    assert_eq!(stats.estimated, Estimated::default(), "so few are counted");
}

pub async fn stats_of_an_empty_store_are_zero(h: &dyn Harness) {
    assert_eq!(StoreFixture::new(h).admin.stats().await.expect("stats work"), crate::admin::Stats::default());
}

// S3-131
pub async fn count_follows_every_filter(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let event =
        Event::builder("OrderPlaced").aggregate("Order", "o-1").tenant_id("acme").json_text("1").build();
    let event = event.expect("a good event");
    k.insert(&[row(event.clone()), row(plain()), row(plain())]).await;
    let leases = k.held(2).await;
    let t = k.now().await;
    k.park(t, &leases[..1], "mail").await;
    k.settle(t, &leases[1], died("100% wrong_")).await;
    assert_eq!(count(&k, Filter::default()).await, 5);
    assert_eq!(count(&k, Filter::status(Status::New)).await, 4);
    assert_eq!(count(&k, Filter::dead()).await, 1);
    assert_eq!(count(&k, Filter::id(event.id())).await, 1);
    assert_eq!(count(&k, Filter::id("unknown")).await, 0);
    assert_eq!(count(&k, Filter::default().with_event_type("OrderPlaced")).await, 1);
    assert_eq!(count(&k, Filter::default().with_aggregate_type("Order")).await, 1);
    assert_eq!(count(&k, Filter::default().with_aggregate_id("o-1")).await, 1);
    assert_eq!(count(&k, Filter::default().with_tenant_id("acme")).await, 1);
    assert_eq!(count(&k, Filter::default().with_parked(ParkReason::Route("mail"))).await, 1);
    // Text, not a pattern.
    assert_eq!(count(&k, Filter::default().with_error_containing("0% wrong_")).await, 1);
    assert_eq!(count(&k, Filter::default().with_error_containing("1%_")).await, 0);
    let both = Filter::dead().with_event_type("OrderPlaced");
    assert_eq!(count(&k, both).await, 0, "every condition counts");
}

/// Rows that differ only in when they ended: the old ones two hours ago by the store's clock.
async fn old_and_young(k: &StoreFixture<'_>) -> (Vec<EventId>, Vec<EventId>) {
    let now = k.harness.now().await;
    let old = k.dead(vec![named("Order"), named("Mail")], "no", Some(now - 2 * HOUR)).await;
    k.done(1, Some(now - 2 * HOUR)).await;
    let young = k.dead(vec![named("Order")], "no", Some(now - MINUTE)).await;
    k.done(1, None).await;
    k.one().await;
    (old, young)
}

fn older_than(age: Duration, filter: Filter) -> Filter {
    filter.with_older_than(age)
}

// T13: an old event that ended a minute ago has the age of a minute, and one that waits has the age of its row.
pub async fn filter_by_age_counts_from_the_end(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let (old, _) = old_and_young(&k).await;
    assert_eq!(count(&k, older_than(HOUR, Filter::default())).await, 3, "two DEAD and one DONE");
    assert_eq!(count(&k, older_than(HOUR, Filter::dead())).await, 2);
    assert_eq!(count(&k, older_than(HOUR, Filter::status(Status::Done))).await, 1);
    assert_eq!(count(&k, older_than(HOUR, Filter::status(Status::New))).await, 0);
    assert_eq!(count(&k, older_than(3 * HOUR, Filter::default())).await, 0);
    assert_eq!(count(&k, older_than(Duration::ZERO, Filter::default())).await, 6);
    assert_eq!(count(&k, older_than(Duration::MAX, Filter::default())).await, 0);
    let order = older_than(HOUR, Filter::dead()).with_event_type("Order");
    assert_eq!(count(&k, order).await, 1, "every condition counts");
    assert_eq!(count(&k, older_than(HOUR, Filter::id(old[0].clone()))).await, 1);
    let listed = row_ids(&pages(&k, &older_than(HOUR, Filter::dead()), 1).await);
    assert_eq!(k.in_order(listed), k.in_order(old));
}

pub async fn replay_all_respects_the_age(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let (old, young) = old_and_young(&k).await;
    let filter = older_than(HOUR, Filter::default());
    let replayed = k.admin.replay_all(&filter, 10, &Replay::by("ann")).await.expect("replay works");
    assert_eq!(replayed, 2);
    assert_eq!(k.row(&young[0]).await.status, Status::Dead);
    assert_eq!(k.row(&old[0]).await.status, Status::New);
    assert_eq!(audit(&k).await[0].target, "older_than=1h");
}

pub async fn discard_respects_the_age(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let (old, young) = old_and_young(&k).await;
    let filter = older_than(HOUR, Filter::dead());
    assert_eq!(k.admin.discard(&filter, 10, "ann").await.expect("discard works"), 2);
    assert!(k.find(&old[0]).await.is_none() && k.find(&old[1]).await.is_none());
    assert_eq!(k.row(&young[0]).await.status, Status::Dead);
    assert_eq!(audit(&k).await[0].target, "status=DEAD older_than=1h");
}

fn order(event_type: &str, tenant: Option<&str>) -> Event {
    let event = Event::builder(event_type).aggregate("Order", "o-1").json_text("{}");
    let event = match tenant {
        Some(tenant) => event.tenant_id(tenant),
        None => event,
    };
    event.build().expect("a good event")
}

async fn backlog(k: &StoreFixture<'_>, by: BacklogBy, limit: usize) -> Backlog {
    k.admin.backlog(by, limit).await.expect("backlog works")
}

fn sizes(backlog: &Backlog) -> Vec<(Option<&str>, u64)> {
    backlog.groups.iter().map(|group| (group.key.as_deref(), group.count)).collect()
}

/// Three placed orders for acme, two paid ones without a tenant, one plain event for umbra, and rows that have ended.
async fn pending_orders(k: &StoreFixture<'_>) {
    let placed = || row(order("OrderPlaced", Some("acme")));
    let plain = Event::builder("Tested").tenant_id("umbra").json_text("{}").build().expect("a good event");
    k.insert(&[placed(), placed(), row(plain), row(order("OrderPaid", None))]).await;
    let leases = k.hold(vec![order("OrderPlaced", Some("acme")), order("OrderPaid", None)]).await;
    let t = k.now().await;
    k.settle(t, &leases[0], failed(10, &[60])).await;
    k.park(t, &leases[1..], "mail").await;
    k.done(4, None).await;
    k.dead(plains(5), "no", None).await;
}

pub async fn backlog_groups_pending_events_largest_first(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    pending_orders(&k).await;
    let by_type = backlog(&k, BacklogBy::Type, 10).await;
    let types =
        [(Some("Order:OrderPlaced"), 3), (Some("Order:OrderPaid"), 2), (Some("__GLOBAL__:Tested"), 1)];
    assert_eq!(sizes(&by_type), types);
    assert!(by_type.complete);
    let by_tenant = backlog(&k, BacklogBy::Tenant, 10).await;
    assert_eq!(sizes(&by_tenant), [(Some("acme"), 3), (None, 2), (Some("umbra"), 1)]);
    assert!(by_tenant.complete);
}

pub async fn backlog_has_the_age_of_the_oldest_event(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let first = order("OrderPlaced", None);
    k.insert(&[row(first.clone())]).await;
    k.insert(&[row(order("OrderPlaced", None)).with_delay(Some(HOUR))]).await;
    let inserted_at = k.row(first.id()).await.inserted_at;
    let before = h.now().await;
    let group = backlog(&k, BacklogBy::Type, 10).await.groups.remove(0);
    let after = h.now().await;
    let oldest = group.oldest.expect("a row that was inserted has an age");
    assert!((before.since(inserted_at)..=after.since(inserted_at)).contains(&oldest), "{oldest:?}");
}

pub async fn backlog_that_was_cut_is_not_complete(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let empty = backlog(&k, BacklogBy::Type, 0).await;
    assert!(empty.groups.is_empty() && empty.complete, "nothing was left out");
    pending_orders(&k).await;
    let largest = backlog(&k, BacklogBy::Type, 2).await;
    assert_eq!(sizes(&largest), [(Some("Order:OrderPlaced"), 3), (Some("Order:OrderPaid"), 2)]);
    assert!(!largest.complete);
    let none = backlog(&k, BacklogBy::Tenant, 0).await;
    assert!(none.groups.is_empty() && !none.complete);
}

pub async fn backlog_is_cut_to_the_largest_page(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let tenants = PageRequest::MAX_LIMIT + 1;
    let rows: Vec<_> = (0..tenants).map(|n| row(order("OrderPlaced", Some(&format!("t{n}"))))).collect();
    k.insert(&rows).await;
    let by_tenant = backlog(&k, BacklogBy::Tenant, usize::MAX).await;
    assert_eq!((by_tenant.groups.len(), by_tenant.complete), (PageRequest::MAX_LIMIT, false));
    assert_eq!(
        sizes(&backlog(&k, BacklogBy::Type, usize::MAX).await),
        [(Some("Order:OrderPlaced"), tenants as u64)]
    );
}

// S3-131
pub async fn list_pages_have_no_gaps_and_no_repeats(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let written = k.many(25).await;
    let listed = async |filter, limit| k.in_order(row_ids(&pages(&k, &filter, limit).await));
    let written = k.in_order(written);
    assert_eq!(listed(Filter::default(), 7).await, written, "oldest first");
    let dead = k.dead(plains(9), "no", None).await;
    assert_eq!(listed(Filter::dead(), 2).await, k.in_order(dead));
    assert_eq!(listed(Filter::status(Status::New), 4).await, written);
}

pub async fn list_page_is_cut_to_the_largest(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.many(PageRequest::MAX_LIMIT + 1).await;
    let page = k.admin.list(&Filter::default(), &PageRequest::first(usize::MAX)).await.expect("list works");
    assert_eq!(page.items.len(), PageRequest::MAX_LIMIT);
    assert_eq!(page.next, page.items.last().map(|row| row.seq));
}

pub async fn list_of_the_last_page_has_no_next(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.many(10).await;
    let list = async |page| k.admin.list(&Filter::default(), &page).await.expect("list works");
    assert_eq!(list(PageRequest::first(10)).await.next, None);
    assert!(list(PageRequest::first(9)).await.next.is_some());
    let beyond = list(PageRequest::after(i64::MAX, 10)).await;
    assert!(beyond.items.is_empty() && beyond.next.is_none());
}

// S3-07
pub async fn list_shows_every_field_of_the_row(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let event =
        Event::builder("OrderPlaced").aggregate("Order", "o-1").tenant_id("acme").json_text("[1,2]").build();
    let lease = k.hold(vec![event.expect("a good event")]).await.remove(0);
    let t = k.now().await;
    let failure = outcome(&lease, failed(10, &[60])).with_delivered(vec!["mail".to_owned()]);
    k.settle_all(Some(t), &[failure], OnDone::Keep).await;
    let listed = pages(&k, &Filter::default(), 10).await.remove(0);
    assert_eq!(format!("{listed:?}"), format!("{:?}", k.row(&lease.id).await), "as `get` shows it");
    assert_eq!((listed.seq, &listed.id), (lease.seq, &lease.id));
    assert_eq!((&*listed.event_type, &*listed.aggregate_type), ("OrderPlaced", "Order"));
    assert_eq!((listed.aggregate_id.as_deref(), listed.tenant_id.as_deref()), (Some("o-1"), Some("acme")));
    assert_eq!((listed.payload_bytes, listed.status, listed.attempts), (5, Status::Retry, 1));
    assert_eq!((listed.available_at, listed.last_error.as_deref()), (t + MINUTE, Some("it failed")));
    assert!(listed.progress.iter().eq(["mail"]));
}

pub async fn archive_is_listed_by_its_status_only(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    if k.lacks(h.capabilities().archive, "archive") {
        return;
    }
    let leases = k.held(3).await;
    let done: Vec<Settlement> = leases.iter().map(|lease| outcome(lease, Verdict::Done)).collect();
    k.settle_all(None, &done, OnDone::Archive).await;
    assert_eq!(count(&k, Filter::default()).await, 0);
    assert_eq!(count(&k, Filter::status(Status::Archived)).await, 3);
    let listed = pages(&k, &Filter::status(Status::Archived), 2).await;
    let order: Vec<EventId> = leases.into_iter().map(|lease| lease.id).collect();
    assert_eq!(k.in_order(row_ids(&listed)), k.in_order(order));
    assert!(listed.iter().all(|row| row.status == Status::Archived));
}

pub async fn get_returns_event_and_row(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let event = Event::builder("Seen").header("a", "b").json_text("[1]").build().expect("a good event");
    k.insert(&[row(plain()), row(event.clone()), row(plain())]).await;
    let detail = k.admin.get(event.id()).await.expect("get works").expect("the row is there");
    super::store_fixture::assert_same(&detail.event, &event);
    assert_eq!(&detail.row.id, event.id());
}

pub async fn get_of_an_unknown_id_is_none(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.one().await;
    assert!(k.admin.get(&EventId::from("unknown")).await.expect("get works").is_none());
}

pub async fn get_shows_why_a_row_is_malformed(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    for defect in [Defect::BadHeaders, Defect::UnknownStatus, Defect::NegativeAttempts, Defect::NoPayload] {
        let Some(id) = h.insert_raw(defect).await else { continue };
        let malformed = k.row(&id).await.malformed.unwrap_or_default();
        assert!(!malformed.is_empty() && !malformed.contains(Defect::SECRET), "{defect:?}: {malformed}");
    }
    pages(&k, &Filter::default(), 10).await;
}

pub async fn dead_groups_are_counted_largest_first(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let t = k.now().await;
    let long = "x".repeat(300);
    k.dead(vec![named("A")], "refused", Some(t)).await;
    k.dead(vec![named("A"), named("A")], "timeout", Some(t)).await;
    k.dead(vec![named("A")], "timeout", Some(t + HOUR)).await;
    k.dead(vec![named("B"), named("B")], &format!("{long}1"), Some(t)).await;
    k.dead(vec![named("B"), named("B")], &format!("{long}2"), Some(t)).await;
    k.one().await;
    let groups = k.admin.dead_groups(10).await.expect("dead_groups works");
    let summary: Vec<_> =
        groups.iter().map(|group| (&*group.event_type, &*group.reason, group.count)).collect();
    assert_eq!(summary, [("B", &long[..200], 4), ("A", "timeout", 3), ("A", "refused", 1)]);
    assert_eq!((groups[1].first, groups[1].last), (Some(t), Some(t + HOUR)));
    assert_eq!(k.admin.dead_groups(1).await.expect("dead_groups works"), groups[..1]);
    assert!(k.admin.dead_groups(0).await.expect("dead_groups works").is_empty());
}

/// A DEAD row with everything in it that a replay has to reset.
async fn battered(k: &StoreFixture<'_>) -> EventId {
    let id = k.one().await;
    let mut t = k.now().await;
    for verdict in [failed(10, &[1]), super::store_fixture::deferred(MINUTE), died("broken")] {
        k.take_as_a_stranger(t).await;
        t = t + LEASE;
        let lease = k.take(t).await;
        let settlement = outcome(&lease, verdict).with_delivered(vec!["mail".to_owned()]);
        assert_ne!(k.settle_all(Some(t), &[settlement], OnDone::Keep).await, [Settled::Stale]);
        t = t + MINUTE;
    }
    let row = k.row(&id).await;
    assert_eq!((row.status, row.attempts, row.deferrals, row.lost_leases), (Status::Dead, 1, 1, 1));
    id
}

// S3-131, S4-11, T7, S1-25
pub async fn replay_resets_everything(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = battered(&k).await;
    let inserted_at = k.row(&id).await.inserted_at;
    let before = h.now().await;
    assert!(k.admin.replay(&id, &Replay::by("ann")).await.expect("replay works"));
    let after = h.now().await;
    let row = k.row(&id).await;
    assert_eq!((row.status, row.replays), (Status::New, 1));
    assert_eq!((row.attempts, row.deferrals, row.lost_leases), (0, 0, 0));
    assert_eq!((row.last_error, row.done_at, row.parked), (None, None, None));
    assert_eq!((row.locked_by, row.locked_at), (None, None));
    assert!((before..=after).contains(&row.available_at), "due now: {}", row.available_at);
    assert_eq!(row.inserted_at, inserted_at, "its age stays");
}

// T7
pub async fn replay_keeps_progress_unless_it_is_reset(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let (kept, forgotten) = (battered(&k).await, battered(&k).await);
    k.admin.replay(&kept, &Replay::by("ann")).await.expect("replay works");
    let forget = Replay::by("ann").with_forget_progress(true);
    k.admin.replay(&forgotten, &forget).await.expect("replay works");
    assert!(k.row(&kept).await.progress.iter().eq(["mail"]));
    assert!(k.row(&forgotten).await.progress.is_empty());
}

// S3-132, T7
pub async fn replay_takes_dead_rows_only(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let mut others = k.done(1, None).await;
    others.push(k.one().await);
    others.push(k.held(1).await.remove(0).id);
    others.push(EventId::from("unknown"));
    for id in &others {
        assert!(!k.admin.replay(id, &Replay::by("ann")).await.expect("replay works"));
    }
    assert_eq!(k.row(&others[0]).await.status, Status::Done);
    assert_eq!(k.row(&others[2]).await.locked_by.as_deref(), Some(k.owner.as_str()));
}

// T7: with the old count left in place, the first error would make it DEAD again.
pub async fn replayed_row_has_all_its_attempts_again(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = battered(&k).await;
    k.admin.replay(&id, &Replay::by("ann")).await.expect("replay works");
    let t = k.now().await;
    let lease = k.take(t).await;
    let settled = k.settle(t, &lease, failed(2, &[1])).await;
    assert!(matches!(settled, Settled::Retry { attempts: 1, .. }), "{settled:?}");
    let lease = k.take(t + MINUTE).await;
    assert_eq!(k.settle(t + MINUTE, &lease, failed(2, &[1])).await, Settled::Dead { attempts: 2 });
    assert!(k.admin.replay(&id, &Replay::by("ann")).await.expect("replay works"));
    assert_eq!(k.row(&id).await.replays, 2);
}

// S3-132
pub async fn replay_all_respects_limit_and_filter(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let orders = k.dead((0..5).map(|_| named("Order")).collect(), "timeout", None).await;
    k.dead(vec![named("Mail")], "timeout", None).await;
    let filter = Filter::default().with_event_type("Order");
    let replay = Replay::by("ann");
    let again = async |limit| k.admin.replay_all(&filter, limit, &replay).await.expect("replay works");
    assert_eq!(again(0).await, 0);
    assert_eq!(again(3).await, 3);
    let new = row_ids(&pages(&k, &Filter::status(Status::New), 10).await);
    assert_eq!(new.len(), 3);
    assert!(new == orders[..3] || !h.capabilities().insertion_order, "oldest first: {new:?}");
    assert_eq!(again(3).await, 2);
    assert_eq!(again(3).await, 0);
    assert_eq!(count(&k, Filter::dead()).await, 1);
}

pub async fn replay_all_takes_only_dead_rows_whatever_the_filter(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.done(2, None).await;
    k.many(2).await;
    let replay = Replay::by("ann");
    for filter in [Filter::default(), Filter::status(Status::Done), Filter::status(Status::New)] {
        assert_eq!(k.admin.replay_all(&filter, 10, &replay).await.expect("replay works"), 0);
    }
    k.dead(plains(1), "no", None).await;
    let wrong = Filter::status(Status::Done);
    assert_eq!(k.admin.replay_all(&wrong, 10, &replay).await.expect("replay works"), 0);
    assert_eq!(k.admin.replay_all(&Filter::default(), 10, &replay).await.expect("replay works"), 1);
}

pub async fn concurrent_replays_change_each_row_once(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let dead = k.dead(plains(200), "no", None).await;
    let tasks: Vec<_> = ["ann", "bob"]
        .map(|actor| {
            let admin = h.admin();
            tokio::spawn(async move {
                let mut replayed = 0;
                for _ in 0..20 {
                    let replay = Replay::by(actor);
                    replayed += admin.replay_all(&Filter::dead(), 20, &replay).await.expect("replay works");
                }
                replayed
            })
        })
        .into();
    let mut replayed = 0;
    for task in tasks {
        replayed += task.await.expect("no replay panics");
    }
    assert_eq!(replayed, 200);
    let rows = pages(&k, &Filter::default(), 100).await;
    assert!(rows.iter().all(|row| row.replays == 1 && row.status == Status::New));
    assert_eq!(sorted(row_ids(&rows)), sorted(dead));
    let noted: u64 = audit(&k).await.iter().map(|entry| entry.rows).sum();
    assert_eq!(noted, 200, "the record agrees");
}

pub async fn discard_takes_dead_rows_only(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.done(1, None).await;
    k.many(1).await;
    k.held(1).await;
    let dead = k.dead(plains(1), "no", None).await.remove(0);
    let discard = async |filter: &Filter| k.admin.discard(filter, 10, "ann").await.expect("discard works");
    assert_eq!(discard(&Filter::status(Status::Done)).await, 0);
    assert_eq!(discard(&Filter::default()).await, 1);
    assert!(k.find(&dead).await.is_none());
    assert_eq!(count(&k, Filter::default()).await, 3);
}

pub async fn discard_respects_limit_and_filter(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let orders = k.dead((0..3).map(|_| named("Order")).collect(), "no", None).await;
    let mail = k.dead(vec![named("Mail")], "no", None).await.remove(0);
    let filter = Filter::dead().with_event_type("Order");
    assert_eq!(k.admin.discard(&filter, 2, "ann").await.expect("discard works"), 2);
    let left = row_ids(&pages(&k, &Filter::dead(), 10).await);
    assert_eq!((left.len(), left.contains(&mail)), (2, true));
    assert!(left.contains(&orders[2]) || !h.capabilities().insertion_order, "oldest first: {left:?}");
}

pub async fn pause_and_resume_return_whether_they_changed_anything(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let paused = async || k.admin.stats().await.expect("stats work").paused;
    assert!(k.admin.pause("mail", "ann").await.expect("pause works"));
    assert!(!k.admin.pause("mail", "bob").await.expect("pause works"));
    assert!(k.admin.pause("Überweisung / 1", "ann").await.expect("pause works"));
    assert!(paused().await.iter().eq(["mail", "Überweisung / 1"]));
    assert!(k.admin.resume("mail", "ann").await.expect("resume works"));
    assert!(!k.admin.resume("mail", "ann").await.expect("resume works"));
    assert!(paused().await.iter().eq(["Überweisung / 1"]));
}

pub async fn audit_names_every_change(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let before = h.now().await;
    let dead = k.dead(plains(4), "no", None).await;
    k.admin.pause("mail", "ann").await.expect("pause works");
    k.admin.resume("mail", "bob").await.expect("resume works");
    k.admin.replay(&dead[0], &Replay::by("cy")).await.expect("replay works");
    k.admin.replay_all(&Filter::default(), 2, &Replay::by("di")).await.expect("replay works");
    k.admin.discard(&Filter::dead(), 10, "ed").await.expect("discard works");
    let after = h.now().await;
    let entries = audit(&k).await;
    let mut said: Vec<_> = entries.iter().map(|e| (&*e.actor, &*e.action, &*e.target, e.rows)).collect();
    said.reverse();
    assert_eq!(
        said,
        [
            ("ann", "pause", "mail", 1),
            ("bob", "resume", "mail", 1),
            ("cy", "replay", dead[0].as_str(), 1),
            ("di", "replay", &*Filter::default().to_string(), 2),
            ("ed", "discard", &*Filter::dead().to_string(), 1),
        ]
    );
    assert!(entries.iter().all(|entry| (before..=after).contains(&entry.at)), "{before} {entries:?} {after}");
}

pub async fn call_that_changes_nothing_is_not_audited(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let purge = Purge::new(Purgeable::Done, HOUR, 10);
    k.admin.resume("mail", "ann").await.expect("resume works");
    k.admin.replay(&id, &Replay::by("ann")).await.expect("replay works");
    k.admin.replay_all(&Filter::default(), 10, &Replay::by("ann")).await.expect("replay works");
    k.admin.discard(&Filter::default(), 10, "ann").await.expect("discard works");
    k.admin.purge(&purge, "ann").await.expect("purge works");
    assert_eq!(audit(&k).await, []);
    k.admin.pause("mail", "ann").await.expect("pause works");
    k.admin.pause("mail", "bob").await.expect("pause works");
    assert_eq!(audit(&k).await.len(), 1);
}

pub async fn audit_pages_newest_first(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    for n in 0..7 {
        k.admin.pause(&format!("route-{n}"), "ann").await.expect("pause works");
    }
    let mut targets = Vec::new();
    let mut page = PageRequest::first(3);
    loop {
        let answer = k.admin.audit(&page).await.expect("audit works");
        targets.extend(answer.items.into_iter().map(|entry| entry.target));
        let Some(next) = answer.next else { break };
        page = PageRequest::after(next, 3);
    }
    let order: Vec<String> = (0..7).rev().map(|n| format!("route-{n}")).collect();
    assert_eq!(targets, order);
}

pub async fn purge_of_an_operator_is_audited(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let t = k.now().await;
    k.done(2, Some(t)).await;
    k.dead(plains(1), "no", Some(t)).await;
    let purge = Purge::new(Purgeable::Done, HOUR, 10).at(t + HOUR);
    assert_eq!(k.admin.purge(&purge, "ann").await.expect("purge works"), 2);
    let entry = audit(&k).await.remove(0);
    assert_eq!((&*entry.actor, &*entry.action, entry.rows), ("ann", "purge", 2));
    assert_eq!(entry.target, purge.to_string());
    assert_eq!(count(&k, Filter::dead()).await, 1);
}

pub async fn diagnosis_never_fails(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.admin.diagnose(&Tolerance::default()).await.expect("diagnose works");
    k.dead(plains(2), "no", None).await;
    for defect in [Defect::BadHeaders, Defect::UnknownStatus, Defect::NegativeAttempts, Defect::NoPayload] {
        h.insert_raw(defect).await;
    }
    let leases = k.held(1).await;
    k.park(h.now().await, &leases, "mail").await;
    for finding in k.admin.diagnose(&Tolerance::default()).await.expect("diagnose works") {
        assert!(!finding.what.is_empty() && !finding.advice.is_empty(), "{finding:?}");
        assert!(!finding.what.contains(Defect::SECRET));
    }
}
