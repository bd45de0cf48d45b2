//! Interface of a store that can be benchmarked: its own tables, and the ways to write into them.

use std::sync::Arc;
use std::time::Duration;

use posthaste::{Event, Outbox, Store};
use posthaste_sqlx::ForeignTableStore;
use serde::Serialize;

use super::foreign_preset::ForeignPreset;
use super::progress::Progress;
use super::workload::Load;
use posthaste_measurements::Quantiles;
use posthaste_stores::OutboxRef;

/// A store that can be benchmarked.
pub(super) trait BenchStore: Send + Sync + 'static {
    type Tables: BenchTables;

    fn name(&self) -> &'static str;

    /// Creates new, empty tables beside the existing ones.
    fn create(&self) -> impl Future<Output = anyhow::Result<Self::Tables>> + Send;

    /// Drops all tables that this benchmark created.
    fn clear(&self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Drops all tables and creates empty ones.
    fn fresh(&self) -> impl Future<Output = anyhow::Result<Self::Tables>> + Send {
        async {
            self.clear().await?;
            self.create().await
        }
    }

    /// Drops everything that this benchmark created, and disconnects.
    fn close(&self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Measures a hand-written baseline, and the cost of notifying other processes. It is part of every round. `None`
    /// if this store has no baseline.
    fn by_hand(
        &self,
        load: &Load,
        progress: &Progress,
    ) -> impl Future<Output = anyhow::Result<Option<ByHand>>> + Send {
        let _ = (load, progress);
        std::future::ready(Ok(None))
    }

    /// Measures the time from COMMIT in one process to the handler in another. `None` if processes find each other's
    /// events only by polling.
    fn cross_process_latency(
        &self,
        load: &Load,
    ) -> impl Future<Output = anyhow::Result<Option<CrossProcessLatency>>> + Send {
        let _ = load;
        std::future::ready(Ok(None))
    }

    /// Holds a snapshot, which prevents the database from removing old row versions, until the guard is dropped. `None`
    /// if the store has no snapshots.
    fn hold_snapshot(&self) -> impl Future<Output = anyhow::Result<Option<SnapshotGuard>>> + Send {
        std::future::ready(Ok(None))
    }

    /// Creates the table of a preset, full of pending events. `None` if the store has no foreign tables.
    fn foreign(
        &self,
        preset: ForeignPreset,
        load: &Load,
    ) -> impl Future<Output = anyhow::Result<Option<ForeignTableStore>>> + Send {
        let _ = (preset, load);
        std::future::ready(Ok(None))
    }
}

/// Latency from one process to another.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CrossProcessLatency {
    #[serde(flatten)]
    pub(super) us: Option<Quantiles>,
    /// Events that took a second or longer: their notification was missed, and a poll found them.
    pub(super) late: u64,
}

/// Prevents the database from removing old row versions until it is dropped.
pub(super) type SnapshotGuard = Box<dyn std::any::Any + Send>;

/// Rates per second of a hand-written baseline.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByHand {
    /// Transactions with a business row and an event, both by hand, which check before COMMIT that the event still
    /// exists. `None` if COMMIT itself confirms that.
    pub(super) proved: Option<f64>,
    /// Events drained by a loop that claims a batch while it settles the one before.
    pub(super) drain: f64,
    /// Events drained by a loop that settles them one by one.
    pub(super) one_by_one: f64,
    /// Cost of notifying other processes; `None` if the store cannot turn notifications on and off.
    pub(super) notify_cost: Option<NotifyCost>,
}

/// Transactions per second of a service without an engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotifyCost {
    /// With notifications of other processes.
    pub(super) with_notify: f64,
    /// Without notifications.
    pub(super) without_notify: f64,
}

/// A business row: its number and its text.
pub(super) type Business<'b> = (u64, &'b str);

/// A business table and an outbox table.
pub(super) trait BenchTables: Clone + Send + Sync + 'static {
    type Writer: BenchWriter;

    fn store(&self) -> Arc<dyn Store>;

    fn writer(&self, outbox: &Outbox) -> Self::Writer;

    /// The outbox, for another process; `None` if it cannot be reached from another process.
    fn outbox_ref(&self) -> Option<OutboxRef> {
        None
    }

    /// Runs one transaction with a business row and no event.
    fn business(&self, business: Business<'_>) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Runs one transaction with a business row and a hand-written event.
    fn hand_written(&self, business: Business<'_>) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Writes events, claims them, and marks each as DONE by an UPDATE and a COMMIT of its own, as a simple relay does.
    /// Returns how long the marking took; `None` if this store has no baseline.
    fn settle_one_by_one(
        &self,
        events: u64,
        load: &Load,
    ) -> impl Future<Output = anyhow::Result<Option<Duration>>> + Send {
        let _ = (events, load);
        std::future::ready(Ok(None))
    }

    /// Fills the outbox by bulk statements. Returns `false` if the store has none.
    fn fill(&self, full: TableFill, load: &Load) -> impl Future<Output = anyhow::Result<bool>> + Send {
        let _ = (full, load);
        std::future::ready(Ok(false))
    }
}

/// How many rows of each kind to fill into the table.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TableFill {
    pub(super) done_rows: u64,
    pub(super) future_rows: u64,
    pub(super) pending_rows: u64,
}

impl TableFill {
    pub(super) fn pending(pending_rows: u64) -> Self {
        Self { pending_rows, ..Self::default() }
    }
}

/// The content of one transaction.
pub(super) struct Written<'b> {
    pub(super) business: Option<Business<'b>>,
    /// The events of each call of the Writer.
    pub(super) calls: Vec<Vec<Event>>,
}

/// The Writer of the store, on these tables.
pub(super) trait BenchWriter: Clone + Send + Sync + 'static {
    /// Runs one transaction.
    fn transaction(&self, written: Written<'_>) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Runs one transaction with these events and no business row, in one call of the Writer.
    fn events(&self, events: Vec<Event>) -> impl Future<Output = anyhow::Result<()>> + Send {
        self.transaction(Written { business: None, calls: vec![events] })
    }

    /// Runs one transaction with a business row and one event.
    fn business_and_event(
        &self,
        business: Business<'_>,
        event: Event,
    ) -> impl Future<Output = anyhow::Result<()>> + Send {
        self.transaction(Written { business: Some(business), calls: vec![vec![event]] })
    }
}

impl Load {
    /// Writes all events, `batch` per transaction. Returns how long it took.
    pub(super) async fn write<W: BenchWriter>(&self, writer: &W, batch: u64) -> anyhow::Result<Duration> {
        let write = move |writer: W, load: Self, number| async move {
            writer.events(load.events(batch.min(load.events - number * batch))?).await
        };
        self.spread(self.events.div_ceil(batch), writer, write).await
    }
}
