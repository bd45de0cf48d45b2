//! Tickets that expire or are revoked.

mod counters;
mod decide;
mod find;
mod race;
mod transaction;
mod worker;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use posthaste::admin::{Filter, PageRequest};
use posthaste::{Admin as _, BoxError, Event, EventRow, Outbox, Routes, Timestamp};
use posthaste_redis::RedisStore;
use posthaste_redis::tickets::{DueExpiry, ExpiryDecision, ExpiryReport, RedisExpiry, Revocation};
use posthaste_testkit::HOUR;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;

use crate::support::{self, NO_ARGS, TestOutbox};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// An outbox without an engine, with its tickets.
struct Fixture<C = MultiplexedConnection> {
    outbox: TestOutbox<C>,
    expiry: RedisExpiry,
    /// The server's clock when the test began.
    start: Timestamp,
}

impl<C> Deref for Fixture<C> {
    type Target = TestOutbox<C>;

    fn deref(&self) -> &TestOutbox<C> {
        &self.outbox
    }
}

async fn on_one_server(shards: u16) -> Fixture {
    Fixture::new(support::on_one_server(shards).await).await
}

async fn on_a_cluster(shards: u16) -> Fixture<ClusterConnection> {
    Fixture::new(support::on_a_cluster(shards).await).await
}

impl<C: ConnectionLike + Clone> Fixture<C> {
    async fn new(outbox: TestOutbox<C>) -> Self {
        let (expiry, start) = (expiry_of(&outbox.store), outbox.now().await);
        Self { outbox, expiry, start }
    }

    /// Records a ticket that has been due for this time.
    async fn due_since(&self, ticket: &str, ago: Duration) -> DueExpiry {
        self.record(ticket, self.start - ago).await
    }

    async fn record(&self, ticket: &str, expires_at: Timestamp) -> DueExpiry {
        self.expiry.record_expiry_due(ticket, expires_at).await.expect("it is recorded");
        DueExpiry::new(ticket, expires_at)
    }

    async fn found(&self) -> Vec<DueExpiry> {
        self.expiry.find_due_expiries(1000).await.expect("the server replies")
    }

    async fn decide(&self, due: &DueExpiry) -> ExpiryDecision {
        let event = support::event(EXPIRED, &due.ticket_id);
        self.expiry.decide_expiry(due, event, None).await.expect("it is decided")
    }

    async fn revoke(&self, ticket: &str) -> Revocation {
        let event = support::event(REVOKED, ticket);
        self.expiry.revoke(ticket, event).await.expect("the server replies")
    }

    /// All rows, oldest first.
    async fn rows(&self) -> Vec<EventRow> {
        let (mut rows, mut page) = (Vec::new(), PageRequest::first(PageRequest::MAX_LIMIT));
        loop {
            let read = self.store.list(&Filter::default(), &page).await.expect("the server replies");
            rows.extend(read.items);
            let Some(next) = read.next else { return rows };
            page.after = Some(next);
        }
    }

    /// The event types of each ticket.
    async fn events(&self) -> BTreeMap<String, Vec<String>> {
        let mut events: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in self.rows().await {
            events.entry(row.aggregate_id.expect("a ticket")).or_default().push(row.event_type);
        }
        events
    }

    async fn events_of(&self, ticket: &str) -> Vec<String> {
        self.events().await.remove(ticket).unwrap_or_default()
    }
}

const EXPIRED: &str = "TicketExpired";
const REVOKED: &str = "TicketRevoked";

/// The tickets of a store, as in another process.
fn expiry_of(store: &RedisStore) -> RedisExpiry {
    store.expiry(
        &Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good configuration"),
    )
}

/// The function that a service gives to a worker.
async fn expired(due: DueExpiry) -> Result<Event, BoxError> {
    Ok(support::event(EXPIRED, &due.ticket_id))
}

async fn run_once(expiry: &RedisExpiry) -> ExpiryReport {
    expiry.worker(expired).run_once().await.expect("the server replies")
}
