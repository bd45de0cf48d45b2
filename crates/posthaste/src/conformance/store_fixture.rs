//! The fixture of the store cases: short names for long requests.

use std::sync::Arc;
use std::time::Duration;

use super::{Harness, TxEnd};
use crate::admin::Admin;
use crate::event::{Event, EventId};
use crate::row::EventRow;
use crate::store::{
    Backoff, Claim, Claimed, Lease, LeaseToken, OnDone, Owner, Park, Release, Renew, Settle, Settled,
    Settlement, Store, Unpark, Verdict,
};
use crate::time::Timestamp;
use crate::writer::{NewLease, NewRow};

pub(super) const MICRO: Duration = Duration::from_micros(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
/// The lease of the fixture's claims.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// A store under test, and one engine that works on it.
pub(super) struct StoreFixture<'h> {
    pub(super) harness: &'h dyn Harness,
    pub(super) store: Arc<dyn Store>,
    pub(super) admin: Arc<dyn Admin>,
    pub(super) owner: Owner,
}

impl<'h> StoreFixture<'h> {
    pub(super) fn new(harness: &'h dyn Harness) -> Self {
        Self { harness, store: harness.store(), admin: harness.admin(), owner: Owner::random("fixture") }
    }

    /// A time at which everything is due that was inserted so far without a delay.
    pub(super) async fn now(&self) -> Timestamp {
        self.harness.now().await + SECOND
    }

    pub(super) async fn insert(&self, rows: &[NewRow]) -> Vec<Option<i64>> {
        self.harness.insert(rows, TxEnd::Commit).await.expect("the insert works")
    }

    /// Inserts one plain row.
    pub(super) async fn one(&self) -> EventId {
        self.many(1).await.remove(0)
    }

    /// Inserts plain rows, in one statement.
    pub(super) async fn many(&self, n: usize) -> Vec<EventId> {
        let rows: Vec<NewRow> = (0..n).map(|_| row(plain())).collect();
        let seqs = self.insert(&rows).await;
        assert!(seqs.iter().all(Option::is_some), "new ids are inserted: {seqs:?}");
        rows.iter().map(|row| row.event.id().clone()).collect()
    }

    /// Inserts plain rows that are born leased to this owner, for an hour.
    pub(super) async fn held(&self, n: usize) -> Vec<Lease> {
        self.hold((0..n).map(|_| plain()).collect()).await
    }

    /// Inserts these events, born leased to this owner, for an hour.
    pub(super) async fn hold(&self, events: Vec<Event>) -> Vec<Lease> {
        let token = LeaseToken::random();
        let lease = NewLease::new(self.owner.clone(), token, HOUR);
        let new_row = |event| NewRow::new(event).with_lease(Some(lease.clone()));
        let rows: Vec<NewRow> = events.into_iter().map(new_row).collect();
        let seqs = self.insert(&rows).await;
        let name = |(row, seq): (&NewRow, Option<i64>)| {
            Lease::new(row.event.id().clone(), seq.expect("a new id is inserted"), token)
        };
        rows.iter().zip(seqs).map(name).collect()
    }

    /// Inserts rows that have been DEAD for this reason since `at`.
    pub(super) async fn dead(&self, events: Vec<Event>, reason: &str, at: Option<Timestamp>) -> Vec<EventId> {
        let leases = self.hold(events).await;
        let verdict = Verdict::Dead { reason: reason.to_owned() };
        let settlements: Vec<Settlement> =
            leases.iter().map(|lease| outcome(lease, verdict.clone())).collect();
        let settled = self.settle_all(at, &settlements, OnDone::Keep).await;
        assert!(settled.iter().all(|settled| *settled == Settled::Dead { attempts: 0 }), "{settled:?}");
        leases.into_iter().map(|lease| lease.id).collect()
    }

    /// Inserts rows that have been DONE since `at`.
    pub(super) async fn done(&self, n: usize, at: Option<Timestamp>) -> Vec<EventId> {
        let leases = self.held(n).await;
        let settlements: Vec<Settlement> = leases.iter().map(|lease| outcome(lease, Verdict::Done)).collect();
        let settled = self.settle_all(at, &settlements, OnDone::Keep).await;
        assert!(settled.iter().all(|settled| *settled == Settled::Done), "{settled:?}");
        leases.into_iter().map(|lease| lease.id).collect()
    }

    pub(super) async fn claim(&self, at: Timestamp, limit: usize) -> Claimed {
        self.claim_with(self.request(at, limit)).await
    }

    pub(super) async fn claim_with(&self, claim: Claim<'_>) -> Claimed {
        self.store.claim(&claim).await.expect("the claim works")
    }

    /// A claim in the order of due times, with its own token.
    pub(super) fn request(&self, at: Timestamp, limit: usize) -> Claim<'_> {
        claim_by(&self.owner, at, limit)
    }

    /// Claims and expects exactly one row.
    pub(super) async fn take(&self, at: Timestamp) -> Lease {
        let mut claimed = self.claim(at, 10).await;
        assert_eq!(claimed.events.len(), 1, "exactly one row is due: {claimed:?}");
        claimed.events.remove(0).lease
    }

    /// The same, by a new owner.
    pub(super) async fn take_as_a_stranger(&self, at: Timestamp) -> Lease {
        let stranger = Owner::random("stranger");
        let mut claimed = self.claim_with(claim_by(&stranger, at, 10)).await;
        assert_eq!(claimed.events.len(), 1, "exactly one row is due: {claimed:?}");
        claimed.events.remove(0).lease
    }

    pub(super) async fn settle(&self, at: Timestamp, lease: &Lease, verdict: Verdict) -> Settled {
        self.settle_all(Some(at), &[outcome(lease, verdict)], OnDone::Keep).await.remove(0)
    }

    pub(super) async fn settle_all(
        &self,
        now: Option<Timestamp>,
        settlements: &[Settlement],
        on_done: OnDone,
    ) -> Vec<Settled> {
        let settle = Settle::new(&self.owner, settlements).with_on_done(on_done).at(now);
        let settled = self.store.settle(&settle).await.expect("the settlement works");
        assert_eq!(settled.len(), settlements.len(), "one result per settlement");
        settled
    }

    pub(super) async fn renew(&self, at: Timestamp, leases: &[Lease]) -> Vec<Lease> {
        let renew = Renew::new(&self.owner, leases, LEASE).at(at);
        self.store.renew(&renew).await.expect("the renewal works")
    }

    /// Reports that the delivery of a suspect is about to begin.
    pub(super) async fn start(&self, at: Timestamp, lease: &Lease) -> Vec<Lease> {
        let leases = std::slice::from_ref(lease);
        let renew = Renew::new(&self.owner, leases, LEASE).starting().at(at);
        self.store.renew(&renew).await.expect("the renewal works")
    }

    pub(super) async fn release(&self, at: Timestamp, leases: &[Lease]) -> u64 {
        let release = Release::new(&self.owner, leases).at(at);
        self.store.release(&release).await.expect("the release works")
    }

    /// Parks for an hour.
    pub(super) async fn park(&self, at: Timestamp, leases: &[Lease], route: &str) -> u64 {
        let park = Park::new(&self.owner, leases, route, HOUR).at(at);
        self.store.park(&park).await.expect("parking works")
    }

    pub(super) async fn unpark(&self, at: Timestamp, route: &str, limit: usize) -> u64 {
        let unpark = Unpark::new(route, limit).at(at);
        self.store.unpark(&unpark).await.expect("unparking works")
    }

    pub(super) async fn find(&self, id: &EventId) -> Option<EventRow> {
        self.admin.get(id).await.expect("get works").map(|detail| detail.row)
    }

    pub(super) async fn row(&self, id: &EventId) -> EventRow {
        self.find(id).await.unwrap_or_else(|| panic!("row {id} is there"))
    }

    /// These ids in a comparable order: unchanged, or sorted if the store has no order of insertion.
    pub(super) fn in_order(&self, ids: Vec<EventId>) -> Vec<EventId> {
        if self.harness.capabilities().insertion_order { ids } else { sorted(ids) }
    }

    /// Whether to skip the case because the store cannot do this.
    pub(super) fn lacks(&self, able: bool, what: &str) -> bool {
        if !able {
            println!("skipped: this store has no {what}");
        }
        !able
    }
}

pub(super) fn claim_by(owner: &Owner, at: Timestamp, limit: usize) -> Claim<'_> {
    Claim::new(owner, LEASE, limit).at(at)
}

/// An event with a new id and nothing special.
pub(super) fn plain() -> Event {
    named("Tested")
}

pub(super) fn named(event_type: &str) -> Event {
    Event::builder(event_type).json_text("{}").build().expect("a good event")
}

pub(super) fn row(event: Event) -> NewRow {
    NewRow::new(event)
}

pub(super) fn delayed(by: Duration) -> NewRow {
    row(plain()).with_delay(Some(by))
}

pub(super) fn outcome(lease: &Lease, verdict: Verdict) -> Settlement {
    Settlement::new(lease.clone(), verdict)
}

/// A failed attempt with these delays, in seconds.
pub(super) fn failed(max_attempts: u32, delays: &[u64]) -> Verdict {
    let delays: Vec<_> = delays.iter().map(|&secs| Duration::from_secs(secs)).collect();
    Verdict::Failed { error: "it failed".to_owned(), backoff: Backoff::new(max_attempts, delays) }
}

pub(super) fn deferred(delay: Duration) -> Verdict {
    Verdict::Deferred { delay }
}

pub(super) fn died(reason: &str) -> Verdict {
    Verdict::Dead { reason: reason.to_owned() }
}

pub(super) fn unreachable(delay: Duration, park: Option<&str>) -> Verdict {
    let park = park.map(str::to_owned);
    Verdict::Unreachable { error: "connection refused".to_owned(), delay, park, give_up_after: None }
}

/// Not delivered: put off for a second, and for at most `limit` in total.
pub(super) fn put_off(limit: Duration) -> Verdict {
    let error = "too busy".to_owned();
    Verdict::Unreachable { error, delay: SECOND, park: None, give_up_after: Some(limit) }
}

pub(super) fn ids(claimed: &Claimed) -> Vec<EventId> {
    claimed.events.iter().map(|leased| leased.lease.id.clone()).collect()
}

pub(super) fn sorted(mut ids: Vec<EventId>) -> Vec<EventId> {
    ids.sort();
    ids
}

/// Compares every field of an event that a row keeps.
#[track_caller]
pub(super) fn assert_same(read: &Event, written: &Event) {
    assert_eq!(read.id(), written.id());
    assert_eq!(read.event_type(), written.event_type());
    assert_eq!(read.aggregate_type(), written.aggregate_type());
    assert_eq!(read.aggregate_id(), written.aggregate_id());
    assert_eq!(read.tenant_id(), written.tenant_id());
    assert_eq!(read.topic(), written.topic());
    assert_eq!(read.content_type(), written.content_type());
    assert_eq!(read.schema_version(), written.schema_version());
    assert_eq!(read.headers(), written.headers());
    assert_eq!(read.occurred_at(), written.occurred_at());
    assert!(read.payload() == written.payload(), "the payload comes back byte for byte");
}
