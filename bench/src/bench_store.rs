//! What a store has to offer to be measured: its own tables, and the ways to write into them.

use std::sync::Arc;
use std::time::Duration;

use posthaste::{Event, Outbox, Store};
use posthaste_sqlx::ForeignTableStore;
use serde::Serialize;

use super::foreign::preset::ForeignPreset;
use super::progress::Progress;
use super::workload::Load;
use crate::figures::Quantiles;
use posthaste_stores::OutboxRef;

/// A database that can be measured.
pub(super) trait BenchStore: Send + Sync + 'static {
    type Tables: BenchTables;

    fn name(&self) -> &'static str;

    /// New, empty tables beside those made before.
    fn create(&self) -> impl Future<Output = anyhow::Result<Self::Tables>> + Send;

    /// Drops all tables that were made here.
    fn clear(&self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Empty tables, and nothing else in the way.
    fn fresh(&self) -> impl Future<Output = anyhow::Result<Self::Tables>> + Send {
        async {
            self.clear().await?;
            self.create().await
        }
    }

    /// Drops everything that was made here, and disconnects.
    fn close(&self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Measures what somebody would write without a library, and what waking others costs; a part of every
    /// round. None where nobody has written it.
    fn by_hand(
        &self,
        load: &Load,
        progress: &Progress,
    ) -> impl Future<Output = anyhow::Result<Option<ByHand>>> + Send {
        let _ = (load, progress);
        std::future::ready(Ok(None))
    }

    /// From the answer to COMMIT in one process to the handler in another. None where a process learns of
    /// the events of others by polling alone.
    fn cross_process_latency(
        &self,
        load: &Load,
    ) -> impl Future<Output = anyhow::Result<Option<CrossProcessLatency>>> + Send {
        let _ = load;
        std::future::ready(Ok(None))
    }

    /// Holds what keeps the database from forgetting old versions of rows, until it is dropped. None
    /// where there is no such thing.
    fn hold_snapshot(&self) -> impl Future<Output = anyhow::Result<Option<SnapshotGuard>>> + Send {
        std::future::ready(Ok(None))
    }

    /// The table of a preset, full of events that wait. None where there are no layouts.
    fn foreign(
        &self,
        preset: ForeignPreset,
        load: &Load,
    ) -> impl Future<Output = anyhow::Result<Option<ForeignTableStore>>> + Send {
        let _ = (preset, load);
        std::future::ready(Ok(None))
    }
}

/// How long events take from one process to another.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CrossProcessLatency {
    #[serde(flatten)]
    pub(super) us: Option<Quantiles>,
    /// How many took a second or longer: nobody saw them, and they waited for a poll.
    pub(super) late: u64,
}

/// Keeps old versions of rows alive.
pub(super) type SnapshotGuard = Box<dyn std::any::Any + Send>;

/// Rates per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByHand {
    /// Transactions with business and event by hand, which look before COMMIT whether the event is
    /// still there. None where COMMIT itself says so.
    pub(super) proved: Option<f64>,
    /// Events drained by a loop that claims a batch, and settles it while it claims the next.
    pub(super) drain: f64,
    /// Events drained by a loop that settles them one by one.
    pub(super) one_by_one: f64,
    /// What it costs to notify other processes. None where that is not possible.
    pub(super) notify_cost: Option<NotifyCost>,
}

/// Transactions per second of a service without an engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotifyCost {
    /// Commits notify other processes.
    pub(super) with_notify: f64,
    /// Commits notify nothing.
    pub(super) without_notify: f64,
}

/// A row of business: its number and its text.
pub(super) type Business<'b> = (u64, &'b str);

/// A business table and an outbox table.
pub(super) trait BenchTables: Clone + Send + Sync + 'static {
    type Writer: BenchWriter;

    fn store(&self) -> Arc<dyn Store>;

    fn writer(&self, outbox: &Outbox) -> Self::Writer;

    /// Where another process finds the outbox. None where it cannot.
    fn outbox_ref(&self) -> Option<OutboxRef> {
        None
    }

    /// One transaction with a row of business and no event.
    fn business(&self, business: Business<'_>) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// The same with an event that is inserted by hand, as somebody would without a library.
    fn hand_written(&self, business: Business<'_>) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Writes so many events, claims them, and marks each as DONE by an UPDATE and a commit of its own,
    /// as a simple relay does; answers how long the last took. None where nobody has written it.
    fn settle_one_by_one(
        &self,
        events: u64,
        load: &Load,
    ) -> impl Future<Output = anyhow::Result<Option<Duration>>> + Send {
        let _ = (events, load);
        std::future::ready(Ok(None))
    }

    /// Fills the outbox with rows by a short cut; false where there is none.
    fn fill(&self, full: TableFill, load: &Load) -> impl Future<Output = anyhow::Result<bool>> + Send {
        let _ = (full, load);
        std::future::ready(Ok(false))
    }
}

/// How full the table shall be.
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

/// How the Writer is called for the events of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriterCalls {
    OneForAll,
    OneEach,
}

/// What one transaction writes.
pub(super) struct Written<'b> {
    pub(super) business: Option<Business<'b>>,
    pub(super) events: Vec<Event>,
    pub(super) calls: WriterCalls,
}

/// The store's Writer, on these tables.
pub(super) trait BenchWriter: Clone + Send + Sync + 'static {
    /// One transaction.
    fn transaction(&self, written: Written<'_>) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// One transaction with these events alone, in one call.
    fn events(&self, events: Vec<Event>) -> impl Future<Output = anyhow::Result<()>> + Send {
        self.transaction(Written { business: None, events, calls: WriterCalls::OneForAll })
    }

    /// One transaction with a row of business and one event.
    fn business_and_event(
        &self,
        business: Business<'_>,
        event: Event,
    ) -> impl Future<Output = anyhow::Result<()>> + Send {
        let (business, events) = (Some(business), vec![event]);
        self.transaction(Written { business, events, calls: WriterCalls::OneEach })
    }
}

impl Load {
    /// Writes all events, so many per transaction; answers how long it took.
    pub(super) async fn write<W: BenchWriter>(&self, writer: &W, batch: u64) -> anyhow::Result<Duration> {
        let write = move |writer: W, load: Self, number| async move {
            writer.events(load.events(batch.min(load.events - number * batch))?).await
        };
        self.spread(self.events.div_ceil(batch), writer, write).await
    }
}
