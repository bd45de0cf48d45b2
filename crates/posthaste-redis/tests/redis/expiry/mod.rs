//! Tickets that expire, and tickets that are revoked.

mod counters;
mod decide;
mod find;
mod race;
mod transaction;
mod worker;

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste::admin::{Filter, PageRequest};
use posthaste::{Admin as _, BoxError, Event, EventRow, Outbox, Routes, Timestamp};
use posthaste_redis::{
    DueExpiry, ExpiryDecision, ExpiryReport, OutboxName, RedisExpiry, RedisStore, Revocation,
};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;

use crate::support;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// An outbox that nobody delivers from, and its tickets.
struct Fixture<C = MultiplexedConnection> {
    store: RedisStore,
    name: OutboxName,
    shards: u16,
    connection: C,
    expiry: RedisExpiry,
    /// The server's clock when the test began.
    start: Timestamp,
}

async fn on_one_server(shards: u16) -> Fixture {
    let name = support::fresh_name();
    let store = support::builder(&name).shards(shards).connect().await.expect("the store opens");
    Fixture::new(store, name, shards, support::connect(&support::server_url()).await).await
}

async fn on_a_cluster(shards: u16) -> Fixture<ClusterConnection> {
    let (name, urls) = (support::fresh_name(), support::cluster_urls());
    let store = RedisStore::cluster(urls.iter().map(String::as_str)).expect("good URLs");
    let store = store.name(name.clone()).shards(shards).connect().await.expect("the store opens");
    let client = redis::cluster::ClusterClient::new(urls).expect("good URLs");
    let connection = client.get_async_connection().await.expect("the cluster answers");
    Fixture::new(store, name, shards, connection).await
}

impl<C: ConnectionLike + Clone> Fixture<C> {
    async fn new(store: RedisStore, name: OutboxName, shards: u16, mut connection: C) -> Self {
        let start = support::now(&mut connection).await;
        let expiry = expiry_of(&store);
        Self { store, name, shards, connection, expiry, start }
    }

    /// Records a ticket that is due since then.
    async fn due_since(&self, ticket: &str, ago: Duration) -> DueExpiry {
        self.record(ticket, self.start - ago).await
    }

    async fn record(&self, ticket: &str, expires_at: Timestamp) -> DueExpiry {
        self.expiry.record_expiry_due(ticket, expires_at).await.expect("it is recorded");
        DueExpiry { ticket_id: ticket.to_owned(), expires_at }
    }

    async fn found(&self) -> Vec<DueExpiry> {
        self.expiry.find_due_expiries(1000).await.expect("the server answers")
    }

    async fn decide(&self, due: &DueExpiry) -> ExpiryDecision {
        let event = support::event(EXPIRED, &due.ticket_id);
        self.expiry.decide_expiry(due, event, None).await.expect("it is decided")
    }

    async fn revoke(&self, ticket: &str) -> Revocation {
        let event = support::event(REVOKED, ticket);
        self.expiry.revoke(ticket, event).await.expect("the server answers")
    }

    /// Everything that is stored, oldest first.
    async fn rows(&self) -> Vec<EventRow> {
        let (mut rows, mut page) = (Vec::new(), PageRequest::first(PageRequest::MAX_LIMIT));
        loop {
            let answer = self.store.list(&Filter::default(), &page).await.expect("the server answers");
            rows.extend(answer.items);
            let Some(next) = answer.next else { return rows };
            page.after = Some(next);
        }
    }

    /// The types of the events of each ticket.
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

    async fn end(mut self) {
        support::remove(&mut self.connection, &self.name, self.shards).await;
    }
}

const EXPIRED: &str = "TicketExpired";
const REVOKED: &str = "TicketRevoked";

/// The expiries of a store, as one more process has them.
fn expiry_of(store: &RedisStore) -> RedisExpiry {
    store.expiry(
        &Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good configuration"),
    )
}

/// What a service gives a worker.
async fn expired(due: DueExpiry) -> Result<Event, BoxError> {
    Ok(support::event(EXPIRED, &due.ticket_id))
}

async fn run_once(expiry: &RedisExpiry) -> ExpiryReport {
    expiry.worker(expired).run_once().await.expect("the server answers")
}
