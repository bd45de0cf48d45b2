//! Transactions: the service's own commands and its events in one MULTI and EXEC.
//!
//! An event is stored with two plain commands, not with a script. Inside EXEC, a script that is unknown to the server
//! or that fails does not stop the other commands, so the service's change would be applied without its event. `HSETNX`
//! stores the body unless the id exists. `XADD` adds the arrival: it is the only plain command that uses the server's
//! clock. Both fail only if their key has another type.

use std::ops::{Deref, DerefMut};

use posthaste::writer::{Ledger, NewRow, Prepared};
use posthaste::{Event, EventId, StoreError, WriteError};
use redis::aio::ConnectionLike;
use redis::{ErrorKind, FromRedisValue, Pipeline, RedisError, Value};

use crate::RedisStore;
use crate::error::{failed, unexpected};
use crate::event_body;
use crate::keys::{Keys, StreamId};
use crate::writer::{RedisWriter, arrival_field, commit, ids_of};

/// A transaction, made by [`RedisWriter::begin`]. It dereferences to the driver's [`Pipeline`], so commands are added
/// as usual. If it is dropped, nothing is sent.
///
/// Send it with [`commit`](Self::commit) only. The driver's own `query_async` and `exec_async` would send the events
/// too, but hooks would see a rollback, and the engine would find the events only by polling. The driver's
/// `ignore` has no effect: `commit` returns the replies to all commands.
#[derive(Debug)]
#[must_use = "nothing is sent when this is dropped"]
pub struct RedisTx {
    pub(crate) writer: RedisWriter,
    pub(crate) pipeline: Pipeline,
    /// Events in `pipeline`, per call of `write_all`.
    writes: Vec<PendingWrite>,
    /// Expiry times in `pipeline`.
    #[cfg(feature = "tickets")]
    pub(crate) expiries: Vec<PendingExpiry>,
}

/// An expiry time to be recorded.
#[cfg(feature = "tickets")]
#[derive(Debug)]
pub(crate) struct PendingExpiry {
    pub(crate) ticket_id: String,
    /// The number of its shard.
    pub(crate) shard: u16,
    /// The index of its command in the pipeline.
    pub(crate) place: usize,
}

/// The events of one write, and the index of the first command of each in the pipeline.
#[derive(Debug)]
struct PendingWrite {
    prepared: Prepared,
    places: Vec<usize>,
}

impl RedisWriter {
    /// Begins a transaction: an atomic pipeline (MULTI and EXEC) for the service's commands and its events. Nothing is
    /// sent before [`commit`](RedisTx::commit), which uses a connection of the service.
    pub fn begin(&self) -> RedisTx {
        let mut pipeline = Pipeline::new();
        pipeline.atomic();
        RedisTx {
            writer: self.clone(),
            pipeline,
            writes: Vec::new(),
            #[cfg(feature = "tickets")]
            expiries: Vec::new(),
        }
    }
}

impl RedisTx {
    /// Adds one event and returns its id; `None` if a hook suppressed it. Nothing is sent yet.
    pub fn write(&mut self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event])?.into_iter().next())
    }

    /// Adds events and returns the ids of those that no hook suppressed. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Fails if a hook refuses the events, one of them exceeds a limit, or, on a cluster, they belong to different
    /// shards.
    ///
    /// On a cluster all events of a transaction must have the same [`tag`](RedisStore::tag).
    pub fn write_all(&mut self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        let prepared = self.writer.prepare(events)?;
        let keys = self.writer.store().keys();
        self.refuse_other_slots(prepared.rows().iter().map(|row| keys.of_event(&row.event).number))?;
        let ids = ids_of(&prepared);
        let places = prepared.rows().iter().map(|row| enqueue(keys, &mut self.pipeline, row)).collect();
        self.writes.push(PendingWrite { prepared, places });
        Ok(ids)
    }

    /// On a cluster, fails if the commands so far and those to be added belong to different shards.
    pub(crate) fn refuse_other_slots(&self, added: impl IntoIterator<Item = u16>) -> Result<(), StoreError> {
        let keys = self.writer.store().keys();
        let rows = self.writes.iter().flat_map(|write| write.prepared.rows());
        let shards = rows.map(|row| keys.of_event(&row.event).number);
        #[cfg(feature = "tickets")]
        let shards = shards.chain(self.expiries.iter().map(|expiry| expiry.shard));
        let mut shards = shards.chain(added);
        let first = shards.next();
        if self.writer.store().connections().is_cluster() && shards.any(|shard| Some(shard) != first) {
            let operation = "write to different shards in one transaction of a cluster: use one transaction for \
                             each aggregate";
            return Err(StoreError::Unsupported { store: "Redis", operation });
        }
        Ok(())
    }

    /// Sends the transaction on this connection, which can be any connection of the driver, and hands the events to the
    /// engine.
    ///
    /// # Errors
    ///
    /// All replies are checked. [`RedisCommitError`] says what was applied and what was not.
    pub async fn commit(mut self, connection: &mut impl ConnectionLike) -> Result<Replies, RedisCommitError> {
        let pipeline = std::mem::take(&mut self.pipeline);
        let writes = std::mem::take(&mut self.writes);
        if is_cut(&pipeline, &writes) {
            self.undo(writes);
            let advice = "the pipeline was cleared after an event was added to it: begin a new transaction";
            return Err(RedisCommitError::RolledBack(StoreError::backend("Redis", advice)));
        }
        if pipeline.is_empty() {
            return Ok(Replies(Vec::new()));
        }
        let reply = execute(&pipeline, connection).await;
        match reply {
            Ok(values) => self.read(writes, values),
            Err(error) => {
                if matches!(error, RedisCommitError::RolledBack(_) | RedisCommitError::Conflict) {
                    self.undo(writes);
                }
                Err(error)
            }
        }
    }

    /// Separates the results of our commands from those of the service's commands.
    fn read(&self, writes: Vec<PendingWrite>, values: Vec<Value>) -> Result<Replies, RedisCommitError> {
        let mut results = CommandResults::new(values);
        let (mut ledger, mut missing, mut cause) = (Ledger::new(), Vec::new(), None);
        for PendingWrite { prepared, places } in writes {
            let ids = ids_of(&prepared);
            let mut sids = Vec::with_capacity(places.len());
            for (&place, id) in places.iter().zip(&ids) {
                match results.take_enqueue(place) {
                    Ok(sid) => sids.push(sid),
                    Err(error) => {
                        missing.push(id.clone());
                        cause.get_or_insert(error);
                        sids.push(None);
                    }
                }
            }
            if let Err(error) = self.writer.written(prepared, &sids, &mut ledger) {
                missing.extend(ids);
                cause.get_or_insert(error);
            }
        }
        commit(ledger);
        #[cfg(feature = "tickets")]
        let expiries = self.unrecorded_expiries(&mut results, &mut cause);
        #[cfg(not(feature = "tickets"))]
        let expiries = Vec::new();
        let replies = results.into_replies();
        if let Some(source) = cause {
            return Err(RedisCommitError::EventsNotStored { events: missing, expiries, replies, source });
        }
        match replies.first_error() {
            Some((place, source)) => Err(RedisCommitError::PartlyApplied { place, replies, source }),
            None => Ok(replies),
        }
    }

    fn undo(&self, writes: Vec<PendingWrite>) {
        let mut ledger = Ledger::new();
        writes.into_iter().for_each(|write| self.writer.undone(write.prepared, &mut ledger));
        ledger.rolled_back();
    }
}

impl Drop for RedisTx {
    /// Nothing was sent, so hooks get a rollback. After a commit there are no writes left.
    fn drop(&mut self) {
        let writes = std::mem::take(&mut self.writes);
        self.undo(writes);
    }
}

impl Deref for RedisTx {
    type Target = Pipeline;
    fn deref(&self) -> &Pipeline {
        &self.pipeline
    }
}

impl DerefMut for RedisTx {
    fn deref_mut(&mut self) -> &mut Pipeline {
        &mut self.pipeline
    }
}

/// Whether the service cleared the pipeline, so that commands of our events are missing.
fn is_cut(pipeline: &Pipeline, writes: &[PendingWrite]) -> bool {
    let last = writes.iter().flat_map(|write| &write.places).max();
    last.is_some_and(|place| pipeline.len() < place + COMMANDS_PER_EVENT)
}

/// `HSETNX` and `XADD`.
const COMMANDS_PER_EVENT: usize = 2;

/// Adds the two commands of one event; returns the index of the first.
fn enqueue(keys: &Keys, pipeline: &mut Pipeline, row: &NewRow) -> usize {
    let shard = keys.of_event(&row.event);
    let place = pipeline.len();
    pipeline
        .cmd("HSETNX")
        .arg(shard.entries())
        .arg(row.event.id().as_str())
        .arg(event_body::encode(&row.event));
    pipeline.cmd("XADD").arg(shard.arrivals()).arg("*").arg("i").arg(row.event.id().as_str());
    if let Some((name, value)) = arrival_field(row) {
        pipeline.arg(name).arg(value);
    }
    place
}

/// The results of all commands of a transaction. Those of our own commands are taken out; the rest are the service's.
pub(crate) struct CommandResults(Vec<Option<Value>>);

impl CommandResults {
    fn new(values: Vec<Value>) -> Self {
        Self(values.into_iter().map(Some).collect())
    }

    /// Takes the result of one of our own commands.
    pub(crate) fn take(&mut self, place: usize) -> Result<Value, StoreError> {
        let value = self.0.get_mut(place).and_then(Option::take).ok_or_else(|| unexpected("EXEC"))?;
        value.extract_error().map_err(failed)
    }

    /// Takes the results of the two commands of an event: the stream id, or `None` if the id existed already.
    fn take_enqueue(&mut self, place: usize) -> Result<Option<String>, StoreError> {
        let (stored, sid) = (self.take(place), self.take(place + 1));
        let is_new = bool::from_redis_value(stored?).map_err(|_| unexpected("HSETNX"))?;
        let sid = String::from_redis_value(sid?).map_err(|_| unexpected("XADD"))?;
        Ok(is_new.then_some(sid))
    }

    /// The results of the service's own commands.
    fn into_replies(self) -> Replies {
        Replies(self.0.into_iter().flatten().collect())
    }
}

/// Sends MULTI, the commands and EXEC; returns the results of all commands.
async fn execute(
    pipeline: &Pipeline,
    connection: &mut impl ConnectionLike,
) -> Result<Vec<Value>, RedisCommitError> {
    let reply = connection.req_packed_commands(pipeline, pipeline.len() + 1, 1).await;
    match reply.map_err(not_executed)?.pop() {
        Some(Value::Array(values)) => Ok(values),
        Some(Value::Nil) => Err(RedisCommitError::Conflict),
        Some(Value::ServerError(error)) => Err(not_executed(error.into())),
        _ => Err(RedisCommitError::Unknown(unexpected("EXEC"))),
    }
}

/// Classifies an error before the result of EXEC. If the server sent it, nothing was applied. If the connection failed,
/// the outcome is unknown.
fn not_executed(error: RedisError) -> RedisCommitError {
    match error.kind() {
        ErrorKind::Server(_)
        | ErrorKind::Extension
        | ErrorKind::Client
        | ErrorKind::InvalidClientConfig
        | ErrorKind::AuthenticationFailed
        | ErrorKind::ClusterConnectionNotFound => RedisCommitError::RolledBack(failed(error)),
        _ if error.is_connection_refusal() => RedisCommitError::RolledBack(failed(error)),
        _ => RedisCommitError::Unknown(failed(error)),
    }
}

/// The replies to the service's own commands, in their order.
#[derive(Debug)]
pub struct Replies(Vec<Value>);

impl Replies {
    /// Converts all replies into a tuple or a list. Fails if a reply has another type.
    ///
    /// ```no_run
    /// # async fn run(mut tx: posthaste_redis::RedisTx) -> Result<(), posthaste::BoxError> {
    /// # let mut connection = redis::Client::open("redis://localhost/")?.get_multiplexed_async_connection().await?;
    /// tx.incr("{outbox:0}:minted", 1).set("{outbox:0}:ticket:17", "minted");
    /// let (minted, _set): (u64, ()) = tx.commit(&mut connection).await?.read()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn read<T: FromRedisValue>(self) -> Result<T, RedisError> {
        Ok(T::from_redis_value(Value::Array(self.0))?)
    }

    /// The unconverted replies.
    pub fn values(&self) -> &[Value] {
        &self.0
    }

    fn first_error(&self) -> Option<(usize, RedisError)> {
        let errors = self.0.iter().enumerate();
        errors
            .filter_map(|(place, value)| value.clone().extract_error().err().map(|error| (place, error)))
            .next()
    }
}

/// A transaction that was not completely applied. Each variant says what the server has done: Redis does not undo other
/// commands when one fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedisCommitError {
    /// The server refused the whole transaction. Nothing was applied, and nothing will be delivered.
    #[error("the transaction was refused and nothing was applied: fix the cause, then repeat it")]
    RolledBack(#[source] StoreError),

    /// Another client changed a key that the service watches. Nothing was applied.
    #[error("a watched key was changed and nothing was applied: read it again, then repeat the transaction")]
    Conflict,

    /// The reply was lost. If the transaction was applied, the poller delivers its events; otherwise nothing is
    /// delivered.
    #[error(
        "the reply to EXEC was lost: check whether your own change was applied; if not, repeat the transaction with \
         the same event ids"
    )]
    Unknown(#[source] StoreError),

    /// The service's own commands were applied, but these events were not stored, or these expiry times not recorded,
    /// because a key of the outbox has another type. Rename or delete that key, then store the events again with
    /// [`RedisWriter::write`]. With the same ids this is safe, even if some of them are stored.
    #[error("the transaction was applied without {}", missing_parts(.events, .expiries))]
    #[non_exhaustive]
    EventsNotStored {
        /// The events that are missing.
        events: Vec<EventId>,
        /// The tickets whose expiry time was not recorded; empty without the feature `tickets`. Record them again with
        /// `RedisExpiry::record_expiry_due`.
        expiries: Vec<String>,
        /// The replies to the service's own commands.
        replies: Replies,
        /// The server's error.
        source: StoreError,
    },

    /// One of the service's own commands failed. The other commands were applied, and the events are stored and will be
    /// delivered. Correct the effect of the failed command.
    #[error(
        "command {place} of the transaction failed; the other commands were applied, and the events will be \
         delivered: correct the effect of the failed command"
    )]
    #[non_exhaustive]
    PartlyApplied {
        /// The index of the first failed command among the service's own commands, counted from 0.
        place: usize,
        /// The replies to all of the service's own commands.
        replies: Replies,
        /// The server's error.
        source: RedisError,
    },
}

/// What is missing after a partial commit, and what to do about it.
fn missing_parts(events: &[EventId], expiries: &[String]) -> String {
    let (missing, advice) = match expiries.len() {
        0 => (String::new(), ""),
        n => (format!(" and {n} of its expiries"), ", and record these expiries again"),
    };
    let events = events.len();
    format!(
        "{events} of its events{missing}: rename or delete the key of the outbox that has another type, then store \
         these events again with the same ids{advice}"
    )
}

/// Stores rows as a transaction does, for the conformance suite.
pub(crate) async fn insert_rows(
    store: &RedisStore,
    connection: &mut impl ConnectionLike,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, StoreError> {
    let mut inserted = vec![None; rows.len()];
    // A transaction per shard, as a cluster requires.
    for (shard, here) in store.keys().group(rows.iter().map(|row| store.keys().of_event(&row.event))) {
        let mut pipeline = Pipeline::new();
        pipeline.atomic();
        let places: Vec<_> =
            here.into_iter().map(|at| (at, enqueue(store.keys(), &mut pipeline, &rows[at]))).collect();
        let values =
            execute(&pipeline, connection).await.map_err(|error| StoreError::backend("Redis", error))?;
        let mut results = CommandResults::new(values);
        for (at, place) in places {
            let sid = results.take_enqueue(place)?;
            inserted[at] = sid.and_then(|sid| StreamId::parse(&sid)).map(|sid| sid.seq(shard.number));
        }
    }
    Ok(inserted)
}
