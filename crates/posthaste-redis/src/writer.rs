//! The Writer: stores events together with the service's own changes.

use posthaste::writer::{Ledger, NewRow, Prepared, Scope, WriterCore};
use posthaste::{Event, EventId, Outbox, StoreError, WriteError};

use crate::event_body;
use crate::field_escape::escape;
use crate::keys::StreamId;
use crate::store::micros;
use crate::{RedisStore, error};

/// Stores events together with the service's own changes; cheap to clone.
#[derive(Clone, Debug)]
pub struct RedisWriter {
    store: RedisStore,
    core: WriterCore,
}

impl RedisWriter {
    /// A Writer for this outbox. Create it once and clone it.
    pub fn new(store: &RedisStore, outbox: &Outbox) -> Self {
        let core = outbox.writer_core().with_notifier(store.remote_notifier());
        Self { store: store.clone(), core }
    }

    pub(crate) fn store(&self) -> &RedisStore {
        &self.store
    }

    /// Stores one event on its own, where nothing else has to change with it, on the store's connection;
    /// returns its id, `None` if a hook suppressed it. An id that exists already is returned like any other,
    /// and nothing is written.
    pub async fn write(&self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Stores events, as [`write`](Self::write) does, those of one shard in one step. If the server fails in the
    /// midst of it, repeat the call: what is there already is left alone.
    // S1-15
    pub async fn write_all(&self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        let prepared = self.prepare(events)?;
        let ids = ids_of(&prepared);
        let (keys, rows) = (self.store.keys(), prepared.rows());
        let mut sids = vec![None; rows.len()];
        for (shard, places) in keys.group(rows.iter().map(|row| keys.of_event(&row.event))) {
            let mut call = self.store.scripts().enqueue.on(shard, None);
            places.iter().for_each(|&place| call.push(&enqueue_args(&rows[place])));
            let answers: Vec<Option<String>> = call.run(self.store.connections()).await?;
            places.into_iter().zip(answers).for_each(|(place, answer)| sids[place] = answer);
        }
        let mut ledger = Ledger::new();
        self.written(prepared, &sids, &mut ledger)?;
        commit(ledger);
        Ok(ids)
    }

    /// Prepares an event for a script of the service's own, in which [`ENQUEUE_LUA`] stores it; `None` if a
    /// hook suppressed it.
    pub fn for_script(&self, event: Event) -> Result<Option<ScriptEvent>, WriteError> {
        let prepared = self.prepare(vec![event])?;
        let Some(row) = prepared.rows().first() else { return Ok(None) };
        let shard = self.store.keys().of_event(&row.event);
        let keys = [shard.entries().to_owned(), shard.arrivals().to_owned()];
        let args = enqueue_args(row);
        Ok(Some(ScriptEvent { writer: self.clone(), prepared, keys, args }))
    }

    pub(crate) fn prepare(&self, events: Vec<Event>) -> Result<Prepared, WriteError> {
        self.core.prepare(events, Scope::Transaction)
    }

    /// The server has replied: the stream id of each row, `None` where the id existed already.
    pub(crate) fn written(
        &self,
        prepared: Prepared,
        sids: &[Option<String>],
        ledger: &mut Ledger,
    ) -> Result<(), StoreError> {
        let keys = self.store.keys();
        let number = |(row, sid): (&NewRow, &Option<String>)| match sid {
            None => Ok(None),
            Some(sid) => {
                let sid = StreamId::parse(sid).ok_or_else(|| error::unexpected("XADD"))?;
                Ok(Some(sid.seq(keys.of_event(&row.event).number)))
            }
        };
        let seqs: Vec<Option<i64>> =
            prepared.rows().iter().zip(sids).map(number).collect::<Result<_, _>>()?;
        let stored = seqs.iter().flatten().count();
        self.store.0.metrics.enqueued(stored, seqs.len() - stored);
        let receipt = prepared.written(&seqs);
        for id in receipt.duplicates() {
            tracing::debug!(%id, "this id was written before: nothing to do");
        }
        ledger.record(receipt);
        Ok(())
    }

    /// Nothing was stored: hooks are told so, as they are by every other store.
    pub(crate) fn undone(&self, prepared: Prepared, ledger: &mut Ledger) {
        let keys = self.store.keys();
        let shard_alone = |row: &NewRow| Some(i64::from(keys.of_event(&row.event).number));
        let seqs: Vec<Option<i64>> = prepared.rows().iter().map(shard_alone).collect();
        ledger.record(prepared.written(&seqs));
    }
}

/// The rows were stored: hooks run, and the engine gets them.
pub(crate) fn commit(ledger: Ledger) {
    let present = ledger.seqs().into_iter().collect();
    ledger.committing().committed(&present);
}

pub(crate) fn ids_of(prepared: &Prepared) -> Vec<EventId> {
    prepared.rows().iter().map(|row| row.event.id().clone()).collect()
}

/// Lease or delay of a new row in microseconds, owner, token; the last two empty without a lease.
fn arrival_args(row: &NewRow) -> [String; 3] {
    match &row.lease {
        Some(lease) => [
            micros(lease.duration).to_string(),
            escape(lease.owner.as_str()).into_owned(),
            lease.token.as_i64().to_string(),
        ],
        None => [micros(row.delay.unwrap_or_default()).to_string(), String::new(), String::new()],
    }
}

/// The arguments of one event for a script that stores it: id, body, and those of its arrival.
pub(crate) fn enqueue_args(row: &NewRow) -> [Vec<u8>; 5] {
    let [wait, owner, token] = arrival_args(row).map(String::into_bytes);
    [row.event.id().as_str().into(), event_body::encode(&row.event), wait, owner, token]
}

/// The field behind the id in an entry of the stream of arrivals, if any. It is one field, because each costs the
/// server more than its bytes.
pub(crate) fn arrival_field(row: &NewRow) -> Option<(&'static str, String)> {
    let [wait, owner, token] = arrival_args(row);
    match (&row.lease, row.delay) {
        (Some(_), _) => Some(("l", format!("{wait} {token} {owner}"))),
        (None, Some(_)) => Some(("d", wait)),
        (None, None) => None,
    }
}

/// The function `posthaste_enqueue(key, arg)` for scripts of a service's own, which store an event in the
/// same step: put this text before the script's.
///
/// It takes two keys from `KEYS[key]` on and five arguments from `ARGV[arg]` on, those of a
/// [`ScriptEvent`], and returns the text to hand to [`ScriptEvent::committed`], or `false` if the id was
/// written before. It looks at the types of its keys before it writes: call it before the script's own
/// first write, because Redis does not undo what a script wrote before it failed.
///
/// ```no_run
/// use posthaste::Event;
/// use posthaste_redis::{ENQUEUE_LUA, RedisStore, RedisWriter};
///
/// # async fn run(store: RedisStore, writer: RedisWriter) -> Result<(), Box<dyn std::error::Error>> {
/// # let mut connection = redis::Client::open("redis://localhost/")?.get_multiplexed_async_connection().await?;
/// const MINT: &str = "
///     if redis.call('EXISTS', KEYS[1]) == 1 then return redis.error_reply('TAKEN') end
///     local stored = posthaste_enqueue(2, 2)
///     redis.call('SET', KEYS[1], ARGV[1])
///     return stored
/// ";
/// let event = Event::builder("TicketMinted").aggregate("Ticket", "17").json_text("{}").build()?;
/// if let Some(event) = writer.for_script(event)? {
///     let stored: Option<String> = redis::Script::new(&format!("{ENQUEUE_LUA}\n{MINT}"))
///         .key(format!("{}:ticket:17", store.tag("17")))
///         .key(event.keys())
///         .arg("minted")
///         .arg(event.args())
///         .invoke_async(&mut connection)
///         .await?;
///     event.committed(stored.as_deref())?;
/// }
/// # Ok(())
/// # }
/// ```
// S1-45
pub const ENQUEUE_LUA: &str = include_str!("../scripts/posthaste_enqueue.lua");

/// An event on its way into a script of the service's own; see [`ENQUEUE_LUA`].
#[derive(Debug)]
#[must_use = "give its keys and arguments to a script, and the script's answer to `committed`"]
pub struct ScriptEvent {
    writer: RedisWriter,
    prepared: Prepared,
    keys: [String; 2],
    args: [Vec<u8>; 5],
}

impl ScriptEvent {
    /// The event's id.
    pub fn id(&self) -> Option<&EventId> {
        self.prepared.rows().first().map(|row| row.event.id())
    }

    /// The two keys.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The five arguments.
    pub fn args(&self) -> &[Vec<u8>] {
        &self.args
    }

    /// The script has run, and this is what `posthaste_enqueue` returned in it: hooks run, and the
    /// engine gets the event immediately. Without this call the poller delivers it.
    pub fn committed(self, stored: Option<&str>) -> Result<(), StoreError> {
        let mut ledger = Ledger::new();
        self.writer.written(self.prepared, &[stored.map(str::to_owned)], &mut ledger)?;
        commit(ledger);
        Ok(())
    }
}
