//! A ticket service whose state is in Redis. A ticket and its event are stored in one atomic step, and every ticket
//! ends with exactly one event, whether it is revoked or expires.
//!
//! ```sh
//! REDIS_URL=redis://localhost/ cargo run -p posthaste-examples --bin redis_tickets
//! ```

use std::time::Duration;

use posthaste::{BoxError, Delivery, Event, EventId, Outbox, Route, Routes, Timestamp, handler};
use posthaste_redis::tickets::{DueExpiry, RedisExpiry, Revocation};
use posthaste_redis::{RedisStore, RedisWriter};
use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc;
use tokio::time::timeout;

const TICKET_LIFETIME: Duration = Duration::from_millis(500);

const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

struct Tickets {
    store: RedisStore,
    writer: RedisWriter,
    expiry: RedisExpiry,
    connection: MultiplexedConnection,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::var("REDIS_URL")
        .map_err(|_| "REDIS_URL is not set: name a Redis server, such as redis://localhost/")?;
    let store = RedisStore::connect(&url).await?;
    let (delivered, mut deliveries) = mpsc::unbounded_channel();
    let routes = Routes::new().add(Route::fallback().deliver_to(handler(move |event: Delivery| {
        let ticket = event.aggregate_id().unwrap_or("?").to_owned();
        println!("{} {ticket}", event.event_type());
        // The receiver may be gone already.
        let _ = delivered.send(ticket);
        async {}
    })));
    let outbox = Outbox::builder(store.clone(), routes).start()?;

    let expiry = store.expiry(&outbox);
    let worker = expiry.worker(async |due: DueExpiry| Ok(event("TicketExpired", &due.ticket_id)?));
    let mut worker = worker.start();
    let client = redis::Client::open(url)?;
    let connection = client.get_multiplexed_async_connection().await?;
    let mut tickets = Tickets { writer: RedisWriter::new(&store, &outbox), store, expiry, connection };

    // Mints two tickets. One is revoked, the other one is left to expire.
    let (revoked, expiring) = (new_ticket(), new_ticket());
    tickets.mint(&revoked, Duration::from_secs(3600)).await?;
    tickets.mint(&expiring, TICKET_LIFETIME).await?;
    tickets.revoke(&revoked).await?;
    let mut missing = 4;
    while missing > 0 {
        let ticket = timeout(DELIVERY_TIMEOUT, deliveries.recv()).await.map_err(|_| "an event is missing")?;
        missing -= usize::from(ticket.is_some_and(|ticket| [&revoked, &expiring].contains(&&ticket)));
    }
    tickets.revoke(&expiring).await?;

    worker.shutdown().await;
    outbox.shutdown().await;
    tickets.store.close().await;
    Ok(())
}

impl Tickets {
    /// Stores the ticket, the time at which it expires, and the event, in one atomic step.
    async fn mint(&mut self, ticket: &str, valid_for: Duration) -> Result<(), BoxError> {
        // The tag keeps the ticket in the same cluster slot as its events.
        let key = format!("{}:ticket:{ticket}", self.store.tag(ticket));
        let mut tx = self.writer.begin();
        tx.set(key, "valid");
        tx.record_expiry_due(ticket, Timestamp::now() + valid_for)?;
        tx.write(event("TicketMinted", ticket)?)?;
        tx.commit(&mut self.connection).await?;
        Ok(())
    }

    async fn revoke(&self, ticket: &str) -> Result<(), BoxError> {
        match self.expiry.revoke(ticket, event("TicketRevoked", ticket)?).await? {
            Revocation::AlreadyExpired => println!("too late to revoke {ticket}"),
            _ => println!("revoked {ticket}"),
        }
        Ok(())
    }
}

fn event(event_type: &str, ticket: &str) -> Result<Event, BoxError> {
    Ok(Event::builder(event_type).aggregate("Ticket", ticket).json_text("{}").build()?)
}

fn new_ticket() -> String {
    EventId::uuid_v7().to_string()
}
