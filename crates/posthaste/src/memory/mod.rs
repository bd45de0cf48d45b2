//! The reference store: its behaviour defines the contract of [`Store`](crate::Store) and [`Admin`](crate::Admin).
//!
//! It keeps its rows in this process only, so it is for tests, simulations and experiments. [`MemoryConnection`] is its
//! driver, with transactions, savepoints and the faults that real servers have.

mod admin;
mod clock;
mod connection;
mod diagnose;
mod index;
mod raw_row;
mod row;
mod store;
mod table;
mod tx;
mod writer;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

pub use connection::{CommitFault, MemoryConnection};
pub use raw_row::RawRow;
pub use tx::{MemorySavepoint, MemoryTx};
pub use writer::MemoryWriter;

use crate::event::EventId;
use crate::mutex::lock;
use crate::row::EventRow;
use crate::store::Notifier;
use crate::time::Timestamp;

use clock::Clock;
use row::MemoryRow;
use table::Table;

/// A store in memory. Clones share their rows.
///
/// ```
/// use posthaste::MemoryStore;
///
/// let store = MemoryStore::new();
/// assert!(store.is_empty());
/// ```
#[derive(Clone)]
pub struct MemoryStore(Arc<Inner>);

struct Inner {
    // A `std` mutex, because nothing is awaited while it is locked.
    table: Mutex<Table>,
    clock: Clock,
    wake: Notifier,
}

impl MemoryStore {
    /// An empty store. Its clock starts at this host's time.
    pub fn new() -> Self {
        let inner = Inner { table: Mutex::default(), clock: Clock::new(), wake: Notifier::new() };
        Self(Arc::new(inner))
    }

    /// A new connection, as a pool would return it.
    pub fn connect(&self) -> MemoryConnection {
        MemoryConnection::new(self.clone())
    }

    /// The store's clock. It follows Tokio's clock, including a paused one.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Moves the store's clock in one step, as an administrator or a time server does. For tests.
    pub fn step_clock(&self, forward: bool, by: Duration) {
        self.0.clock.step(forward, by);
    }

    /// Inserts a committed row with these columns, as another program would. Returns its `seq`, or `None` if the id
    /// exists already. For tests.
    pub fn insert_raw(&self, raw: RawRow) -> Option<i64> {
        let now = self.now();
        let mut table = self.table();
        let seq = table.take_seq();
        table.add(MemoryRow::from_raw(seq, raw, now)).then_some(seq)
    }

    /// Loses all rows from this number on and assigns their numbers again, as a database does that lost the end of its
    /// log. For tests.
    pub fn lose_from(&self, seq: i64) {
        self.table().lose_from(seq);
    }

    /// How often the row was written after its insert; zero if there is no such row. For tests.
    pub fn writes(&self, id: &EventId) -> u64 {
        self.table().find(id).map_or(0, |row| row.writes)
    }

    /// Every row except the archived ones, in the order of insertion: a copy of the whole table. For tests.
    pub fn rows(&self) -> Vec<EventRow> {
        self.table().rows.values().map(MemoryRow::view).collect()
    }

    /// The row of this event, even if it is archived; `None` if it does not exist. For tests.
    pub fn row(&self, id: &EventId) -> Option<EventRow> {
        self.table().find(id).map(MemoryRow::view)
    }

    /// The number of rows, without the archive.
    pub fn len(&self) -> usize {
        self.table().rows.len()
    }

    /// Whether there is no row, apart from the archive.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Locks the table. A panic while it was locked cannot leave a change half done, because no foreign code runs under
    /// the lock.
    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.0.table)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("rows", &self.len()).finish_non_exhaustive()
    }
}
