//! Decisions about tickets: expire or revoke, each in one script.

use posthaste::writer::{Ledger, NewRow, Prepared};
use posthaste::{Event, StoreError, Timestamp, WriteError};

use super::RedisExpiry;
use super::due_expiry::{DueExpiry, epoch_ms};
use crate::error::unexpected;
use crate::scripts::ScriptCall;
use crate::writer::{commit, enqueue_args};

/// The decision about a due ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExpiryDecision {
    /// The ticket has expired. Its event is stored and will be delivered.
    Enqueued,
    /// The ticket was revoked earlier. Nothing is stored.
    SuppressedRevoked,
    /// The ticket has expired, but a [hook](posthaste::WriterHook) suppressed its event.
    SuppressedByHook,
    /// The same expiry was decided earlier. Its event was stored then.
    AlreadyEnqueued,
    /// The ticket is not due: it has another expiry time, none, or one after the cutoff. Nothing is stored.
    NotDue,
}

impl ExpiryDecision {
    /// The decisions with their names in the script and in the metric's label.
    const NAMES: [(Self, &'static str); 5] = [
        (Self::Enqueued, "enqueued"),
        (Self::SuppressedRevoked, "suppressed_revoked"),
        (Self::SuppressedByHook, "suppressed_by_hook"),
        (Self::AlreadyEnqueued, "already_enqueued"),
        (Self::NotDue, "not_due"),
    ];
}

/// The result of a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Revocation {
    /// The ticket is revoked. Its event is stored and will be delivered, unless a hook suppressed it.
    Revoked,
    /// The ticket was revoked earlier. Nothing is stored.
    AlreadyRevoked,
    /// The ticket expired earlier. Nothing is stored.
    AlreadyExpired,
}

impl Revocation {
    /// The results with their names in the script.
    const NAMES: [(Self, &'static str); 3] = [
        (Self::Revoked, "revoked"),
        (Self::AlreadyRevoked, "already_revoked"),
        (Self::AlreadyExpired, "already_expired"),
    ];
}

/// The value for a name that a script returned.
fn outcome<T: Copy>(names: &[(T, &'static str)], name: &str) -> Result<(T, &'static str), StoreError> {
    names.iter().copied().find(|(_, known)| *known == name).ok_or_else(|| unexpected("a decision"))
}

impl RedisExpiry {
    /// Decides one ticket that [`find_due_expiries`](Self::find_due_expiries) returned, in one atomic step: stores the
    /// event of its expiry, unless the ticket was revoked, the same expiry was decided earlier, or the ticket has
    /// another expiry time now. After any decision except [`NotDue`](ExpiryDecision::NotDue) the ticket is no longer
    /// due.
    ///
    /// The event gets the [id of this expiry](DueExpiry::event_id), which replaces its own, and its aggregate id must
    /// be the ticket. `cutoff`: only a ticket that is due at this time is decided; `None` uses the server's clock.
    ///
    /// The call can be repeated: one ticket and expiry time never get two events.
    ///
    /// # Errors
    ///
    /// Fails if the event belongs to another ticket, a hook fails or changes the event's ids, or the server cannot be
    /// reached.
    pub async fn decide_expiry(
        &self,
        due: &DueExpiry,
        event: Event,
        cutoff: Option<Timestamp>,
    ) -> Result<ExpiryDecision, WriteError> {
        let mut parts = event.to_parts();
        parts.id = due.event_id();
        let event = Event::from_parts(parts);
        let prepared = self.prepare(&due.ticket_id, event)?;
        let cutoff = cutoff.map(|cutoff| epoch_ms(cutoff).to_string()).unwrap_or_default();
        let call = self.scripts.decide.on(self.shard_of(&due.ticket_id), self.now);
        let call = call.arg((&due.ticket_id, epoch_ms(due.expires_at), cutoff));
        let (reply, sid) = self.run(call, &prepared).await?;
        let (decision, name) = outcome(&ExpiryDecision::NAMES, &reply)?;
        let is_stored = matches!(decision, ExpiryDecision::Enqueued | ExpiryDecision::AlreadyEnqueued);
        self.finish(prepared, is_stored.then_some(sid))?;
        let outbox = self.store().keys().name().to_string();
        metrics::counter!("outbox.redis.expiries", "outbox" => outbox, "decision" => name).increment(1);
        Ok(decision)
    }

    /// Revokes a ticket in one atomic step: stores `event` and remembers the revocation, unless the ticket was revoked
    /// or has expired earlier. A revoked ticket does not expire, even if a worker has just found it due.
    ///
    /// A ticket without an expiry time can be revoked too. A ticket that has expired and was then
    /// [recorded](Self::record_expiry_due) with a new time counts as a new ticket.
    ///
    /// The event's aggregate id must be the ticket. If the call failed or its reply was lost, repeat it with the same
    /// event; it may then return [`AlreadyRevoked`](Revocation::AlreadyRevoked).
    ///
    /// # Together with the service's own keys
    ///
    /// MULTI cannot make decisions. There are two ways to change other keys together with a revocation:
    ///
    /// - Call this method, and change the keys according to its result.
    /// - Decide in a script of your own. The keys below have the [tag](crate::RedisStore::tag) of the ticket in front.
    ///   The ticket has expired if it is in the hash `expired` and not in the sorted set `expiry-due`. It is revoked if
    ///   it is in the sorted set `revoked`, whose scores are milliseconds since 1970. The script stores its event with
    ///   [`ENQUEUE_LUA`](crate::ENQUEUE_LUA), adds the ticket to `revoked` and removes it from `expiry-due`. It must
    ///   not touch a ticket that is in the hash `expiry-begun`: that one has a decision that failed halfway, and this
    ///   method completes it.
    ///
    /// # Errors
    ///
    /// As [`decide_expiry`](Self::decide_expiry).
    pub async fn revoke(&self, ticket_id: &str, event: Event) -> Result<Revocation, WriteError> {
        let prepared = self.prepare(ticket_id, event)?;
        let call = self.scripts.revoke.on(self.shard_of(ticket_id), self.now).arg(ticket_id);
        let (reply, sid) = self.run(call, &prepared).await?;
        let (revocation, _) = outcome(&Revocation::NAMES, &reply)?;
        self.finish(prepared, (revocation == Revocation::Revoked).then_some(sid))?;
        Ok(revocation)
    }

    /// Runs hooks and checks limits. The result must be the one event of this ticket, or nothing.
    fn prepare(&self, ticket_id: &str, event: Event) -> Result<Prepared, WriteError> {
        let id = event.id().clone();
        let prepared = self.writer.prepare(vec![event])?;
        let is_good = |row: &NewRow| row.event.aggregate_id() == Some(ticket_id) && *row.event.id() == id;
        match prepared.rows() {
            [] => Ok(prepared),
            [row] if is_good(row) => Ok(prepared),
            _ => {
                let operation = "decide a ticket with an event of another ticket: give the event the ticket's id as \
                                 its aggregate id, and let no hook change the event's ids or add events";
                Err(StoreError::Unsupported { store: "Redis", operation }.into())
            }
        }
    }

    /// Adds the event to a call and runs it.
    async fn run(
        &self,
        mut call: ScriptCall<'_>,
        prepared: &Prepared,
    ) -> Result<(String, Option<String>), StoreError> {
        match prepared.rows() {
            [row, ..] => call.push(&enqueue_args(row)),
            [] => call.push(("", "", "0", "", "")),
        }
        call.run(self.store().connections()).await
    }

    /// Reports the event's outcome to the hooks and the engine: `None` if it was not to be stored, `Some(None)` if its
    /// id existed already.
    fn finish(&self, prepared: Prepared, stored: Option<Option<String>>) -> Result<(), StoreError> {
        let mut ledger = Ledger::new();
        match stored {
            Some(sid) => {
                let sids: Vec<_> = prepared.rows().iter().map(|_| sid.clone()).collect();
                self.writer.written(prepared, &sids, &mut ledger)?;
                commit(ledger);
            }
            None => {
                self.writer.undone(prepared, &mut ledger);
                ledger.rolled_back();
            }
        }
        Ok(())
    }
}
