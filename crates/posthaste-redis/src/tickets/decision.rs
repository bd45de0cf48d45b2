//! Decisions about tickets: expired or revoked. Each is one script.

use posthaste::writer::{Ledger, NewRow, Prepared};
use posthaste::{Event, StoreError, Timestamp, WriteError};

use super::RedisExpiry;
use super::due_expiry::{DueExpiry, epoch_ms};
use crate::error::unexpected;
use crate::scripts::ScriptCall;
use crate::writer::{commit, enqueue_args};

/// What was decided about a ticket whose time had come.
// S1-43
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExpiryDecision {
    /// It has expired: the event is stored and will be delivered.
    Enqueued,
    /// It was revoked before. Nothing is stored.
    SuppressedRevoked,
    /// It has expired, and a [hook](posthaste::WriterHook) left its event out.
    SuppressedByHook,
    /// The same was decided before: the event is there already, or was.
    AlreadyEnqueued,
    /// It is not due: it has another time by now, or none, or one after the cutoff. Nothing is stored.
    NotDue,
}

impl ExpiryDecision {
    /// The decisions and their names in scripts and in the label of the metric.
    const NAMES: [(Self, &'static str); 5] = [
        (Self::Enqueued, "enqueued"),
        (Self::SuppressedRevoked, "suppressed_revoked"),
        (Self::SuppressedByHook, "suppressed_by_hook"),
        (Self::AlreadyEnqueued, "already_enqueued"),
        (Self::NotDue, "not_due"),
    ];
}

/// What became of a ticket that was to be revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Revocation {
    /// It is revoked: the event is stored and will be delivered, unless a hook left it out.
    Revoked,
    /// It was revoked before. Nothing is stored.
    AlreadyRevoked,
    /// It has expired before. Nothing is stored.
    AlreadyExpired,
}

impl Revocation {
    /// The outcomes and their names in the script.
    const NAMES: [(Self, &'static str); 3] = [
        (Self::Revoked, "revoked"),
        (Self::AlreadyRevoked, "already_revoked"),
        (Self::AlreadyExpired, "already_expired"),
    ];
}

/// The outcome that a script names.
fn outcome<T: Copy>(names: &[(T, &'static str)], name: &str) -> Result<(T, &'static str), StoreError> {
    names.iter().copied().find(|(_, known)| *known == name).ok_or_else(|| unexpected("a decision"))
}

impl RedisExpiry {
    /// Decides, in one step, about a ticket that [`find_due_expiries`](Self::find_due_expiries) returned:
    /// stores the event that says that it has expired, unless it was revoked, the same was decided before, or
    /// it has another time by now. Whatever was decided, the ticket is not due any more.
    ///
    /// The event gets the [id of this expiry](DueExpiry::event_id), whatever id it had, and has to carry the
    /// ticket as its aggregate id. Only what is due at `cutoff` is decided; `None` for the server's clock.
    ///
    /// Every call can be repeated: the same ticket and time never have two events.
    // S1-36
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

    /// Revokes a ticket in one step: stores the event that says so and remembers it, unless the ticket was
    /// revoked before or has expired. After this it does not expire, whatever a worker has just found.
    ///
    /// A ticket that was not recorded to expire can be revoked too. One that has expired and was then
    /// [recorded](Self::record_expiry_due) with a new time counts as new.
    ///
    /// The event has to carry the ticket as its aggregate id. A call that failed, or whose reply was lost, can
    /// be repeated with the same event; it may return [`AlreadyRevoked`](Revocation::AlreadyRevoked) then.
    ///
    /// # With the service's own keys
    ///
    /// A revocation is a decision, and MULTI cannot decide. Either look at the outcome and then change the
    /// service's own keys, or decide in a script of the service's own: with the [tag](crate::RedisStore::tag)
    /// of the ticket before each name, it has expired if it is in the hash `expired` and not in the sorted set
    /// `expiry-due`, and is revoked if it is in the sorted set `revoked`, whose scores are milliseconds since
    /// 1970. Such a script stores its event with [`ENQUEUE_LUA`](crate::ENQUEUE_LUA), adds the ticket to
    /// `revoked` and removes it from `expiry-due`. A ticket in the hash `expiry-begun` has a decision that
    /// failed in the middle: the script leaves it alone, and this method finishes it.
    // S1-42
    pub async fn revoke(&self, ticket_id: &str, event: Event) -> Result<Revocation, WriteError> {
        let prepared = self.prepare(ticket_id, event)?;
        let call = self.scripts.revoke.on(self.shard_of(ticket_id), self.now).arg(ticket_id);
        let (reply, sid) = self.run(call, &prepared).await?;
        let (revocation, _) = outcome(&Revocation::NAMES, &reply)?;
        self.finish(prepared, (revocation == Revocation::Revoked).then_some(sid))?;
        Ok(revocation)
    }

    /// Applies hooks and limits. Then there must still be one event, the ticket's own, or none.
    fn prepare(&self, ticket_id: &str, event: Event) -> Result<Prepared, WriteError> {
        let id = event.id().clone();
        let prepared = self.writer.prepare(vec![event])?;
        let is_good = |row: &NewRow| row.event.aggregate_id() == Some(ticket_id) && *row.event.id() == id;
        match prepared.rows() {
            [] => Ok(prepared),
            [row] if is_good(row) => Ok(prepared),
            _ => {
                let operation = "decide about a ticket with another one's event: give the event the ticket's id as \
                                 its aggregate id, and let no hook change that, its id, or how many there are";
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

    /// Tells hooks and engine what became of the event: `None` if it was not to be stored, `Some(None)` if its id was
    /// written before.
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
