//! Tickets that expire: each has a time, and when it has come exactly one event says what became of the ticket.
//!
//! A ticket is an aggregate: its id is the aggregate id of every event about it.
//! `docs/redis-tickets.md` is the guide.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use posthaste::{Event, Timestamp};
//! use posthaste_redis::expiry::{DueExpiry, RedisExpiry, Revocation};
//!
//! # async fn run(store: posthaste_redis::RedisStore, outbox: posthaste::Outbox) -> Result<(), Box<dyn std::error::Error>> {
//! fn event(event_type: &str, ticket: &str) -> Result<Event, posthaste::EventError> {
//!     Event::builder(event_type).aggregate("Ticket", ticket).json_text("{}").build()
//! }
//!
//! let expiry: RedisExpiry = store.expiry(&outbox);
//! let worker = expiry.worker(async |due: DueExpiry| Ok(event("TicketExpired", &due.ticket_id)?));
//! let mut worker = worker.start();
//!
//! expiry.record_expiry_due("17", Timestamp::now() + Duration::from_secs(3600)).await?;
//! match expiry.revoke("17", event("TicketRevoked", "17")?).await? {
//!     Revocation::Revoked => println!("it will not expire"),
//!     _ => println!("too late"),
//! }
//! # worker.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! The times are in a sorted set, a worker finds those that have come, and one script decides. The expiry of keys has
//! no part in it, because Redis reports that late or not at all.
// S1-34

mod decision;
mod due_expiry;
#[cfg(test)]
mod fault_tests;
mod leases;
mod scripts;
mod transaction;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use posthaste::{BoxError, Event, Outbox, StoreError, Timestamp};
use redis::Cmd;

use crate::RedisStore;
use crate::error::failed;
use crate::keys::{EXPIRY_KEYS, Keys, Shard};
use crate::writer::RedisWriter;
use due_expiry::epoch_ms;
use scripts::ExpiryScripts;

pub use decision::{ExpiryDecision, Revocation};
pub use due_expiry::DueExpiry;
pub use worker::{ExpiryHandle, ExpiryReport, ExpiryWorker};

/// The most tickets that one call returns: more would keep other clients of the server waiting.
const MAX_FOUND: usize = 10_000;

/// How long a decision is remembered by default.
const DEFAULT_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// Tickets that expire, or are revoked before that; made by [`RedisStore::expiry`], cheap to clone.
#[derive(Clone, Debug)]
pub struct RedisExpiry {
    writer: RedisWriter,
    scripts: Arc<ExpiryScripts>,
    retention: Duration,
    /// The clock of a test; `None` for the server's own.
    now: Option<Timestamp>,
}

impl RedisStore {
    /// Tickets that expire. Made once; cheap to clone.
    pub fn expiry(&self, outbox: &Outbox) -> RedisExpiry {
        let scripts = Arc::new(ExpiryScripts::after(""));
        RedisExpiry {
            writer: RedisWriter::new(self, outbox),
            scripts,
            retention: DEFAULT_RETENTION,
            now: None,
        }
    }
}

impl RedisExpiry {
    /// How long a decision is remembered. Default: 30 days; every process should have the same.
    ///
    /// For so long a ticket that was revoked cannot expire and one that has expired cannot be revoked, even if
    /// its mint is repeated. Workers forget older decisions.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// The same with another clock than the server's, for tests.
    #[doc(hidden)]
    pub fn at(&self, now: Timestamp) -> Self {
        Self { now: Some(now), ..self.clone() }
    }

    /// Records when a ticket expires, or changes it. Times are kept in whole milliseconds, rounded down.
    ///
    /// A service that mints in a transaction records the time there, with
    /// [`RedisTx::record_expiry_due`](crate::RedisTx::record_expiry_due).
    // S1-32
    pub async fn record_expiry_due(&self, ticket_id: &str, expires_at: Timestamp) -> Result<(), StoreError> {
        let cmd = record(self.store().keys(), ticket_id, expires_at);
        self.store().connections().query::<i64>(&cmd).await.map_err(failed)?;
        Ok(())
    }

    /// Tickets whose time has come by the server's clock, oldest first, at most `limit` and at most 10,000.
    /// Changes nothing: [`decide_expiry`](Self::decide_expiry) does.
    // S1-35
    pub async fn find_due_expiries(&self, limit: usize) -> Result<Vec<DueExpiry>, StoreError> {
        let limit = limit.min(MAX_FOUND);
        let find = |shard| async move {
            let call = self.scripts.find.on(shard, self.now).arg(limit);
            call.run::<Vec<ScoredTicket>>(self.store().connections()).await
        };
        let found = try_join_all(self.store().keys().shards().iter().map(find)).await?;
        let mut due = sort_due(found.concat());
        due.truncate(limit);
        Ok(due)
    }

    /// A worker that finds tickets whose time has come, gets the event that says so from `event`, and
    /// [decides](Self::decide_expiry). Any number of workers share the work, in any number of processes.
    ///
    /// A function that fails, or takes longer than the [lease](ExpiryWorker::lease), leaves its ticket due, and
    /// a worker tries again when the lease has ended. The text of its error is not logged, because it may
    /// contain a secret: log in the function what you need.
    // S1-44
    pub fn worker<F, Fut>(&self, event: F) -> ExpiryWorker
    where
        F: Fn(DueExpiry) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Event, BoxError>> + Send + 'static,
    {
        ExpiryWorker::new(self.clone(), event)
    }

    fn store(&self) -> &RedisStore {
        self.writer.store()
    }

    fn shard_of(&self, ticket_id: &str) -> &Shard {
        self.store().keys().of_aggregate(ticket_id)
    }
}

/// A ticket and its time, as a sorted set returns them.
type ScoredTicket = (Vec<u8>, f64);

/// Oldest first, from whatever shards.
fn sort_due(scored: Vec<ScoredTicket>) -> Vec<DueExpiry> {
    let mut due: Vec<DueExpiry> =
        scored.iter().map(|(ticket, score)| DueExpiry::from_score(ticket, *score)).collect();
    due.sort_by(|a, b| (a.expires_at, &a.ticket_id).cmp(&(b.expires_at, &b.ticket_id)));
    due
}

/// The command that records when a ticket expires, alone or in a transaction.
fn record(keys: &Keys, ticket_id: &str, expires_at: Timestamp) -> Cmd {
    let mut cmd = redis::cmd("ZADD");
    cmd.arg(keys.of_aggregate(ticket_id).key(EXPIRY_KEYS[0].0)).arg(epoch_ms(expires_at)).arg(ticket_id);
    cmd
}

/// The guide, so that its program is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/redis-tickets.md")]
struct Page;
