//! What becomes of a ticket whose time has come, or that somebody revokes. Each is one script.

use posthaste::writer::{Ledger, NewRow, Prepared};
use posthaste::{Event, StoreError, Timestamp, WriteError};

use super::RedisExpiry;
use super::due_expiry::{DueExpiry, epoch_ms};
use crate::error::unexpected;
use crate::event_body;
use crate::scripts::ScriptCall;
use crate::store::clock;
use crate::writer::{ArrivalFields, commit};

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
    /// Its name, as the label of the metric has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enqueued => "enqueued",
            Self::SuppressedRevoked => "suppressed_revoked",
            Self::SuppressedByHook => "suppressed_by_hook",
            Self::AlreadyEnqueued => "already_enqueued",
            Self::NotDue => "not_due",
        }
    }

    fn read(name: &str) -> Option<Self> {
        let all = [
            Self::Enqueued,
            Self::SuppressedRevoked,
            Self::SuppressedByHook,
            Self::AlreadyEnqueued,
            Self::NotDue,
        ];
        all.into_iter().find(|decision| decision.as_str() == name)
    }
}

/// What became of a ticket that somebody revokes.
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
    fn read(name: &str) -> Option<Self> {
        Some(match name {
            "revoked" => Self::Revoked,
            "already_revoked" => Self::AlreadyRevoked,
            "already_expired" => Self::AlreadyExpired,
            _ => return None,
        })
    }
}

/// What became of the event that came with a decision.
enum EventFate {
    /// Stored, or there already.
    Stored(Option<String>),
    Refused,
}

impl RedisExpiry {
    /// Decides, in one step, about a ticket that [`find_due_expiries`](Self::find_due_expiries) answered:
    /// stores the event that says that it has expired, unless it was revoked, the same was decided before, or
    /// it has another time by now. Whatever was decided, the ticket is not due any more.
    ///
    /// The event gets the [id of this expiry](DueExpiry::event_id), whatever id it had, and has to carry the
    /// ticket as its aggregate id. Only what is due at `cutoff` is decided; none for the server's clock.
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
        let scripts = self.store().scripts();
        let cutoff = cutoff.map(|cutoff| epoch_ms(cutoff).to_string()).unwrap_or_default();
        let call = scripts.expiry_decide.on(self.shard_of(&due.ticket_id)).arg(clock(self.now));
        let call = call.arg(&due.ticket_id).arg(epoch_ms(due.expires_at)).arg(cutoff);
        let (answer, sid) = self.run(call, &prepared).await?;
        let decision = ExpiryDecision::read(&answer).ok_or_else(|| unexpected("expiry_decide"))?;
        let fate = match decision {
            ExpiryDecision::Enqueued | ExpiryDecision::AlreadyEnqueued => EventFate::Stored(sid),
            _ => EventFate::Refused,
        };
        self.finish(prepared, fate)?;
        self.store().count_expiry(decision);
        Ok(decision)
    }

    /// Revokes a ticket in one step: stores the event that says so and remembers it, unless the ticket was
    /// revoked before or has expired. After this it does not expire, whatever a worker has just found.
    ///
    /// A ticket that nobody recorded to expire can be revoked too. One that has expired and was then
    /// [recorded](Self::record_expiry_due) with a new time counts as new.
    ///
    /// The event has to carry the ticket as its aggregate id. A call that failed, or whose answer was lost, can
    /// be repeated with the same event; it may answer [`AlreadyRevoked`](Revocation::AlreadyRevoked) then.
    ///
    /// # With the service's own keys
    ///
    /// A revocation is a decision, and MULTI cannot decide. Either look at the answer and then change the
    /// service's own keys, or decide in a script of the service's own: with the [tag](crate::RedisStore::tag)
    /// of the ticket before each name, it has expired if it is in the hash `expired` and not in the sorted set
    /// `expiry-due`, and is revoked if it is in the sorted set `revoked`, whose scores are milliseconds since
    /// 1970. Such a script stores its event with [`ENQUEUE_LUA`](crate::ENQUEUE_LUA), adds the ticket to
    /// `revoked` and removes it from `expiry-due`. A ticket in the hash `expiry-begun` has a decision that
    /// failed in the middle: the script leaves it alone, and this method finishes it.
    // S1-42
    pub async fn revoke(&self, ticket_id: &str, event: Event) -> Result<Revocation, WriteError> {
        let prepared = self.prepare(ticket_id, event)?;
        let call = self.store().scripts().expiry_revoke.on(self.shard_of(ticket_id));
        let (answer, sid) = self.run(call.arg(clock(self.now)).arg(ticket_id), &prepared).await?;
        let revocation = Revocation::read(&answer).ok_or_else(|| unexpected("expiry_revoke"))?;
        let fate = match revocation {
            Revocation::Revoked => EventFate::Stored(sid),
            _ => EventFate::Refused,
        };
        self.finish(prepared, fate)?;
        Ok(revocation)
    }

    /// Hooks and limits; then the event must still be one, the ticket's own.
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
            [row, ..] => {
                call.push(row.event.id().as_str());
                call.push(event_body::encode(&row.event));
                ArrivalFields::of(row).args().into_iter().for_each(|arg| call.push(arg));
            }
            [] => ["", "", "0", "", ""].into_iter().for_each(|arg| call.push(arg)),
        }
        call.run(self.store().connections()).await
    }

    /// Tells hooks and engine what became of the event.
    fn finish(&self, prepared: Prepared, fate: EventFate) -> Result<(), StoreError> {
        let mut ledger = Ledger::new();
        match fate {
            EventFate::Stored(sid) => {
                let sids: Vec<_> = prepared.rows().iter().map(|_| sid.clone()).collect();
                self.writer.written(prepared, &sids, &mut ledger)?;
                commit(ledger);
            }
            EventFate::Refused => {
                self.writer.undone(prepared, &mut ledger);
                ledger.rolled_back();
            }
        }
        Ok(())
    }
}
