//! A transaction of the service's own commands and its events: one MULTI and EXEC.
//!
//! The enqueue is two plain commands, never a script: a script that is unknown to the server, or that
//! fails, fails alone inside EXEC, and the mint would stay without its event. `HSETNX` stores the body
//! unless the id is there; `XADD` notes the arrival, with the server's own clock, which is the only plain
//! command that knows it. They can fail only on keys that hold something else.

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

/// A transaction; made by [`RedisWriter::begin`]. Derefs to the driver's [`Pipeline`], so that its own
/// commands are added as always. Dropped, nothing was sent.
///
/// Send it with `commit` alone: the driver's own `query_async` and `exec_async` would send the events too, but
/// hooks would hear of a rollback, and the engine would have to find the events.
/// The driver's `ignore` has no effect: [`commit`](Self::commit) returns what every command returned.
#[derive(Debug)]
#[must_use = "dropped, nothing was sent"]
pub struct RedisTx {
    pub(crate) writer: RedisWriter,
    pub(crate) pipeline: Pipeline,
    writes: Vec<PendingWrite>,
    #[cfg(feature = "tickets")]
    pub(crate) expiries: Vec<PendingExpiry>,
}

/// A ticket whose expiry is to be recorded.
#[cfg(feature = "tickets")]
#[derive(Debug)]
pub(crate) struct PendingExpiry {
    pub(crate) ticket_id: String,
    /// The number of its shard.
    pub(crate) shard: u16,
    /// The place of its command in the pipeline.
    pub(crate) place: usize,
}

/// Events of one write, and the places of their commands in the pipeline.
#[derive(Debug)]
struct PendingWrite {
    prepared: Prepared,
    places: Vec<usize>,
}

impl RedisWriter {
    /// Begins a transaction: an atomic pipeline (MULTI and EXEC) that takes the service's commands and its
    /// events, and is sent by [`commit`](RedisTx::commit) on a connection of the service's own.
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

    /// Adds events and returns their ids, without those that a hook left out.
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

    /// A transaction of a cluster is for one shard: those of its commands so far and those that are to be added.
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

    /// Sends the transaction on this connection, which may be any of the driver's, and hands the events to
    /// the engine.
    ///
    /// Reads every reply: an `Err` says exactly what was applied and what was not.
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
        let answer = execute(&pipeline, connection).await;
        match answer {
            Ok(values) => self.read(writes, values),
            Err(error) => {
                if matches!(error, RedisCommitError::RolledBack(_) | RedisCommitError::Conflict) {
                    self.undo(writes);
                }
                Err(error)
            }
        }
    }

    /// Sorts the answers into those of our commands and those of the service's.
    fn read(&self, writes: Vec<PendingWrite>, values: Vec<Value>) -> Result<Replies, RedisCommitError> {
        let mut answers = Answers::new(values);
        let (mut ledger, mut missing, mut cause) = (Ledger::new(), Vec::new(), None);
        for PendingWrite { prepared, places } in writes {
            let ids = ids_of(&prepared);
            let mut sids = Vec::with_capacity(places.len());
            for (&place, id) in places.iter().zip(&ids) {
                match answers.take_enqueue(place) {
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
        let expiries = self.unrecorded_expiries(&mut answers, &mut cause);
        let replies = answers.into_replies();
        if let Some(source) = cause {
            return Err(RedisCommitError::EventsNotStored {
                events: missing,
                #[cfg(feature = "tickets")]
                expiries,
                replies,
                source,
            });
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
    /// Nothing was sent: hooks are told.
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

/// Whether commands of ours are missing.
fn is_cut(pipeline: &Pipeline, writes: &[PendingWrite]) -> bool {
    let last = writes.iter().flat_map(|write| &write.places).max();
    last.is_some_and(|place| pipeline.len() < place + COMMANDS_PER_EVENT)
}

/// How many commands an event has.
const COMMANDS_PER_EVENT: usize = 2;

/// Adds the two commands of one event, and returns the place of the first.
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

/// What each command of a transaction returned, of which ours are taken out.
pub(crate) struct Answers(Vec<Option<Value>>);

impl Answers {
    fn new(values: Vec<Value>) -> Self {
        Self(values.into_iter().map(Some).collect())
    }

    /// What one of our own commands returned.
    pub(crate) fn take(&mut self, place: usize) -> Result<Value, StoreError> {
        let value = self.0.get_mut(place).and_then(Option::take).ok_or_else(|| unexpected("EXEC"))?;
        value.extract_error().map_err(failed)
    }

    /// What the two commands of an event returned: the stream id, or `None` for an id that existed already.
    fn take_enqueue(&mut self, place: usize) -> Result<Option<String>, StoreError> {
        let (stored, sid) = (self.take(place), self.take(place + 1));
        let is_new = bool::from_redis_value(stored?).map_err(|_| unexpected("HSETNX"))?;
        let sid = String::from_redis_value(sid?).map_err(|_| unexpected("XADD"))?;
        Ok(is_new.then_some(sid))
    }

    /// What the service's own commands returned.
    fn into_replies(self) -> Replies {
        Replies(self.0.into_iter().flatten().collect())
    }
}

/// Sends MULTI, the commands and EXEC, and returns what every command returned.
async fn execute(
    pipeline: &Pipeline,
    connection: &mut impl ConnectionLike,
) -> Result<Vec<Value>, RedisCommitError> {
    let answer = connection.req_packed_commands(pipeline, pipeline.len() + 1, 1).await;
    match answer.map_err(not_executed)?.pop() {
        Some(Value::Array(values)) => Ok(values),
        Some(Value::Nil) => Err(RedisCommitError::Conflict),
        Some(Value::ServerError(error)) => Err(not_executed(error.into())),
        _ => Err(RedisCommitError::Unknown(unexpected("EXEC"))),
    }
}

/// An error of the server before EXEC means that it refused the whole. One of the connection means that the outcome
/// is unknown.
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

/// What the service's own commands returned, in their order.
#[derive(Debug)]
pub struct Replies(Vec<Value>);

impl Replies {
    /// All of them as a tuple or a list.
    ///
    /// ```no_run
    /// # async fn run(mut tx: posthaste_redis::RedisTx) -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut connection = redis::Client::open("redis://localhost/")?.get_multiplexed_async_connection().await?;
    /// tx.incr("{outbox:0}:minted", 1).set("{outbox:0}:ticket:17", "minted");
    /// let (minted, _set): (u64, ()) = tx.commit(&mut connection).await?.read()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn read<T: FromRedisValue>(self) -> Result<T, RedisError> {
        Ok(T::from_redis_value(Value::Array(self.0))?)
    }

    /// The values as they came.
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

/// A transaction that was not simply applied. Each variant says what the server has done: Redis does not
/// undo the commands beside one that fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedisCommitError {
    /// The server refused the whole: nothing was applied, nothing will be delivered.
    #[error("the transaction was refused, and nothing of it was applied: fix the cause, and repeat it")]
    RolledBack(#[source] StoreError),

    /// A key that the service watches was changed by another client: nothing was applied.
    #[error("a watched key was changed, and nothing was applied: read it again, and repeat the transaction")]
    Conflict,

    /// The answer was lost. If the transaction took effect its events are delivered by the poller,
    /// otherwise not.
    #[error(
        "the answer to EXEC was lost: see whether your own change is there, and repeat it with the same event ids"
    )]
    Unknown(#[source] StoreError),

    /// The service's own commands were applied, and these events were not stored, because a key of the outbox holds
    /// something else. Rename or delete that key, then store the events again with [`RedisWriter::write`]: with the
    /// same ids that is safe, whatever part of them is there.
    #[cfg_attr(
        not(feature = "tickets"),
        error(
            "the transaction was applied without {} of its events: rename or delete the key that is not the \
             outbox's, then store these events again with the same ids",
            .events.len()
        )
    )]
    #[cfg_attr(
        feature = "tickets",
        error(
            "the transaction was applied without {} of its events and {} of its expiries: rename or delete the key \
             that is not the outbox's, then store these events again with the same ids, and record these expiries \
             again",
            .events.len(), .expiries.len()
        )
    )]
    #[non_exhaustive]
    EventsNotStored {
        /// The events that are missing.
        events: Vec<EventId>,
        /// The tickets that are not recorded to expire. Record them again with
        /// [`RedisExpiry::record_expiry_due`](crate::tickets::RedisExpiry::record_expiry_due).
        #[cfg(feature = "tickets")]
        expiries: Vec<String>,
        /// What the service's own commands returned.
        replies: Replies,
        /// What the server said.
        source: StoreError,
    },

    /// One of the service's own commands failed; the others were applied, and the events are stored and will
    /// be delivered. Do now what the command should have done.
    #[error(
        "command {place} of the transaction failed; the others were applied, and the events will be delivered: \
         do now what it should have done"
    )]
    #[non_exhaustive]
    PartlyApplied {
        /// The place of the first command that failed, among the service's own, counted from zero.
        place: usize,
        /// What all of the service's own commands returned.
        replies: Replies,
        /// What the server said.
        source: RedisError,
    },
}

/// The enqueue of a transaction alone.
pub(crate) async fn insert_rows(
    store: &RedisStore,
    connection: &mut impl ConnectionLike,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, StoreError> {
    let mut inserted = vec![None; rows.len()];
    // On a cluster, one transaction for each shard.
    for (shard, here) in store.keys().group(rows.iter().map(|row| store.keys().of_event(&row.event))) {
        let mut pipeline = Pipeline::new();
        pipeline.atomic();
        let places: Vec<_> =
            here.into_iter().map(|at| (at, enqueue(store.keys(), &mut pipeline, &rows[at]))).collect();
        let values =
            execute(&pipeline, connection).await.map_err(|error| StoreError::backend("Redis", error))?;
        let mut answers = Answers::new(values);
        for (at, place) in places {
            let sid = answers.take_enqueue(place)?;
            inserted[at] = sid.and_then(|sid| StreamId::parse(&sid)).map(|sid| sid.seq(shard.number));
        }
    }
    Ok(inserted)
}
