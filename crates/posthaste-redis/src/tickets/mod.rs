//! Tickets that expire or are revoked, with exactly one event that says which.
//!
//! A ticket is an aggregate: its id is the aggregate id of all its events. `docs/redis-tickets.md` is the guide.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use posthaste::{Event, Timestamp};
//! use posthaste_redis::tickets::{DueExpiry, RedisExpiry, Revocation};
//!
//! # async fn run(store: posthaste_redis::RedisStore, outbox: posthaste::Outbox) -> Result<(), posthaste::BoxError> {
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
//!     Revocation::Revoked => println!("the ticket will not expire"),
//!     _ => println!("too late"),
//! }
//! # worker.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! Expiry times are the scores of a sorted set. A worker finds the due tickets, and one script decides about each. The
//! expiry of Redis keys is not used, because Redis reports it late or not at all.

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

/// Maximum number of tickets that one call returns. More would block the server.
const MAX_FOUND: usize = 10_000;

/// Default time for which a decision is remembered.
const DEFAULT_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// The tickets of an outbox: records expiry times, decides and revokes. Made by [`RedisStore::expiry`]; cheap to clone.
#[derive(Clone, Debug)]
pub struct RedisExpiry {
    writer: RedisWriter,
    scripts: Arc<ExpiryScripts>,
    retention: Duration,
    /// The clock of a test; `None` for the server's clock.
    now: Option<Timestamp>,
}

impl RedisStore {
    /// The tickets of this outbox. Make it once; it is cheap to clone.
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
    /// How long a decision is remembered. Default: 30 days. All processes should use the same value.
    ///
    /// During this time a revoked ticket cannot expire and an expired ticket cannot be revoked, even if the transaction
    /// that mints it is repeated. Workers forget older decisions.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// The same tickets with a fixed clock, for tests.
    #[doc(hidden)]
    pub fn at(&self, now: Timestamp) -> Self {
        Self { now: Some(now), ..self.clone() }
    }

    /// Records or changes the expiry time of a ticket. The time is rounded down to whole milliseconds.
    ///
    /// To record it in the transaction that mints the ticket, use
    /// [`RedisTx::record_expiry_due`](crate::RedisTx::record_expiry_due).
    pub async fn record_expiry_due(&self, ticket_id: &str, expires_at: Timestamp) -> Result<(), StoreError> {
        let cmd = record(self.store().keys(), ticket_id, expires_at);
        self.store().connections().query::<i64>(&cmd).await.map_err(failed)?;
        Ok(())
    }

    /// The tickets that are due by the server's clock, oldest first: at most `limit`, and at most 10,000. Changes
    /// nothing; [`decide_expiry`](Self::decide_expiry) decides.
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

    /// A worker that finds due tickets, calls `event` for the event of each, and [decides](Self::decide_expiry). Any
    /// number of workers in any number of processes share the work.
    ///
    /// If `event` fails, or takes longer than the [lease](ExpiryWorker::lease), the ticket stays due, and a worker
    /// tries again after the lease has ended. The error's text is not logged, because it may contain a secret; log what
    /// you need inside the function.
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

/// A ticket and its time in milliseconds, as a sorted set returns them.
type ScoredTicket = (Vec<u8>, f64);

/// Sorts the tickets of all shards, oldest first.
fn sort_due(scored: Vec<ScoredTicket>) -> Vec<DueExpiry> {
    let mut due: Vec<DueExpiry> =
        scored.iter().map(|(ticket, score)| DueExpiry::from_score(ticket, *score)).collect();
    due.sort_by(|a, b| (a.expires_at, &a.ticket_id).cmp(&(b.expires_at, &b.ticket_id)));
    due
}

/// The command that records an expiry time, outside or inside a transaction.
fn record(keys: &Keys, ticket_id: &str, expires_at: Timestamp) -> Cmd {
    let mut cmd = redis::cmd("ZADD");
    cmd.arg(keys.of_aggregate(ticket_id).key(EXPIRY_KEYS[0].0)).arg(epoch_ms(expires_at)).arg(ticket_id);
    cmd
}

/// Compiles the program of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/redis-tickets.md")]
struct Page;
