//! The Writer: stores events outside a transaction and in scripts of the service. `tx.rs` has transactions.

use posthaste::writer::{Ledger, NewRow, Prepared, Scope, WriterCore};
use posthaste::{Event, EventId, Outbox, StoreError, WriteError};

use crate::event_body;
use crate::field_escape::escape;
use crate::keys::StreamId;
use crate::store::micros;
use crate::{RedisStore, error};

/// Stores events together with the service's own changes. Cheap to clone.
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

    /// Stores one event on the store's own connection, for an event without a change of the service's keys. Returns its
    /// id, or `None` if a hook suppressed it. If the id exists already, it is returned and nothing is written.
    pub async fn write(&self, event: Event) -> Result<Option<EventId>, WriteError> {
        Ok(self.write_all(vec![event]).await?.into_iter().next())
    }

    /// Stores events as [`write`](Self::write) does; events of one shard are stored in one step. If the call fails
    /// halfway, repeat it with the same events: those that are stored are left unchanged.
    pub async fn write_all(&self, events: Vec<Event>) -> Result<Vec<EventId>, WriteError> {
        let prepared = self.prepare(events)?;
        let ids = ids_of(&prepared);
        let (keys, rows) = (self.store.keys(), prepared.rows());
        let mut sids = vec![None; rows.len()];
        for (shard, places) in keys.group(rows.iter().map(|row| keys.of_event(&row.event))) {
            let mut call = self.store.scripts().insert_events.on(shard, None);
            places.iter().for_each(|&place| call.push(&enqueue_args(&rows[place])));
            let replies: Vec<Option<String>> = call.run(self.store.connections()).await?;
            places.into_iter().zip(replies).for_each(|(place, sid)| sids[place] = sid);
        }
        let mut ledger = Ledger::new();
        self.written(prepared, &sids, &mut ledger)?;
        commit(ledger);
        Ok(ids)
    }

    /// Prepares an event for a script of the service, which stores it with [`ENQUEUE_LUA`]. Returns `None` if a hook
    /// suppressed it.
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

    /// Records the server's reply in the ledger: the stream id of each row, `None` if the id existed already.
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
            tracing::debug!(%id, "an event with this id exists already; nothing was written");
        }
        ledger.record(receipt);
        Ok(())
    }

    /// Records rows that were not stored, so that hooks get a rollback, as from every other store.
    pub(crate) fn undone(&self, prepared: Prepared, ledger: &mut Ledger) {
        let keys = self.store.keys();
        let shard_alone = |row: &NewRow| Some(i64::from(keys.of_event(&row.event).number));
        let seqs: Vec<Option<i64>> = prepared.rows().iter().map(shard_alone).collect();
        ledger.record(prepared.written(&seqs));
    }
}

/// Runs the hooks for stored rows, and hands them to the engine.
pub(crate) fn commit(ledger: Ledger) {
    let present = ledger.seqs().into_iter().collect();
    ledger.committing().committed(&present);
}

pub(crate) fn ids_of(prepared: &Prepared) -> Vec<EventId> {
    prepared.rows().iter().map(|row| row.event.id().clone()).collect()
}

/// Lease or delay of a new row in microseconds, owner, token. The last two are empty without a lease.
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

/// The arguments for a script that stores one event: id, body, then those of the arrival.
pub(crate) fn enqueue_args(row: &NewRow) -> [Vec<u8>; 5] {
    let [wait, owner, token] = arrival_args(row).map(String::into_bytes);
    [row.event.id().as_str().into(), event_body::encode(&row.event), wait, owner, token]
}

/// The field behind the id in an arrival, if any. Everything is in one field, because each field costs the server more
/// than its bytes.
pub(crate) fn arrival_field(row: &NewRow) -> Option<(&'static str, String)> {
    let [wait, owner, token] = arrival_args(row);
    match (&row.lease, row.delay) {
        (Some(_), _) => Some(("l", format!("{wait} {token} {owner}"))),
        (None, Some(_)) => Some(("d", wait)),
        (None, None) => None,
    }
}

/// Lua source of the function `posthaste_enqueue(key, arg)`, with which a script of the service stores an event in the
/// same atomic step. Put it in front of the script.
///
/// The function uses two keys from `KEYS[key]` on and five arguments from `ARGV[arg]` on, those of a [`ScriptEvent`].
/// It returns the text to pass to [`ScriptEvent::committed`], or `false` if the id exists already. It checks the types
/// of its keys before it writes. Call it before the script's own first write, because Redis does not undo what a script
/// wrote before it failed.
///
/// ```no_run
/// use posthaste::Event;
/// use posthaste_redis::{ENQUEUE_LUA, RedisStore, RedisWriter};
///
/// # async fn run(store: RedisStore, writer: RedisWriter) -> Result<(), posthaste::BoxError> {
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
pub const ENQUEUE_LUA: &str = include_str!("../scripts/enqueue_function.lua");

/// An event that a script of the service will store; see [`ENQUEUE_LUA`].
#[derive(Debug)]
#[must_use = "pass its keys and arguments to a script, and the script's reply to `committed`"]
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

    /// The two keys for the script.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The five arguments for the script.
    pub fn args(&self) -> &[Vec<u8>] {
        &self.args
    }

    /// Reports that the script has run. `stored`: what `posthaste_enqueue` returned in it. Hooks run, and the engine
    /// gets the event immediately. Without this call the poller delivers it.
    pub fn committed(self, stored: Option<&str>) -> Result<(), StoreError> {
        let mut ledger = Ledger::new();
        self.writer.written(self.prepared, &[stored.map(str::to_owned)], &mut ledger)?;
        commit(ledger);
        Ok(())
    }
}
