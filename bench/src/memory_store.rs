//! The memory store. Its "business table" is a map, so only the figures of the engine mean much.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use posthaste::memory::{MemoryWriter, RawRow};
use posthaste::{Event, MemoryStore, Outbox, Store};

use super::bench_store::{
    BenchStore, BenchTables, BenchWriter, ByHand, CrossProcessLatency, SnapshotGuard, TableFill,
};
use super::load::{self, Load};
use super::progress::Progress;
use posthaste_stores::OutboxRef;

pub(super) struct MemoryBench;

impl BenchStore for MemoryBench {
    type Tables = MemoryTables;

    fn name(&self) -> &'static str {
        "memory"
    }

    async fn create(&self) -> anyhow::Result<MemoryTables> {
        Ok(MemoryTables { store: MemoryStore::new(), business: Business::default() })
    }

    async fn clear(&self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn close(&self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn by_hand(&self, _: &Load, _: &Progress) -> anyhow::Result<Option<ByHand>> {
        Ok(None)
    }

    async fn cross_process_latency(&self, _: &Load) -> anyhow::Result<Option<CrossProcessLatency>> {
        Ok(None)
    }

    async fn hold_snapshot(&self) -> anyhow::Result<Option<SnapshotGuard>> {
        Ok(None)
    }
}

#[derive(Clone, Default)]
struct Business(Arc<Mutex<HashMap<u64, String>>>);

impl Business {
    fn insert(&self, number: u64, body: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(number, body.to_owned());
    }
}

#[derive(Clone)]
pub(super) struct MemoryTables {
    store: MemoryStore,
    business: Business,
}

impl BenchTables for MemoryTables {
    type Writer = MemoryTablesWriter;

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn writer(&self, outbox: &Outbox) -> MemoryTablesWriter {
        MemoryTablesWriter { writer: self.store.writer(outbox), business: self.business.clone() }
    }

    fn outbox_ref(&self) -> Option<OutboxRef> {
        None
    }

    async fn business(&self, number: u64, body: &str) -> anyhow::Result<()> {
        let mut connection = self.store.connect();
        connection.begin().await?;
        self.business.insert(number, body);
        connection.commit().await?;
        Ok(())
    }

    async fn hand_written(&self, number: u64, body: &str) -> anyhow::Result<()> {
        self.business(number, body).await?;
        let payload = Some(body.to_owned().into());
        self.store.insert_raw(RawRow { event_type: load::EVENT_TYPE.into(), payload, ..RawRow::default() });
        Ok(())
    }

    async fn settle_one_by_one(&self, _: u64, _: &Load) -> anyhow::Result<Option<Duration>> {
        Ok(None)
    }

    async fn fill(&self, _: TableFill, _: &Load) -> anyhow::Result<bool> {
        Ok(false)
    }
}

#[derive(Clone)]
pub(super) struct MemoryTablesWriter {
    writer: MemoryWriter,
    business: Business,
}

impl BenchWriter for MemoryTablesWriter {
    async fn business_and_event(&self, number: u64, body: &str, event: Event) -> anyhow::Result<()> {
        self.business.insert(number, body);
        self.events(vec![event]).await
    }

    async fn events(&self, events: Vec<Event>) -> anyhow::Result<()> {
        let mut tx = self.writer.begin().await?;
        tx.write_all(events).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn events_singly(&self, events: Vec<Event>) -> anyhow::Result<()> {
        let mut tx = self.writer.begin().await?;
        for event in events {
            tx.write(event).await?;
        }
        tx.commit().await?;
        Ok(())
    }
}
