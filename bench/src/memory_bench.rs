//! The memory store. Its "business table" is a map, so only the results about the engine are meaningful.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use posthaste::memory::{MemoryWriter, RawRow};
use posthaste::{MemoryStore, Outbox, Store};

use super::bench_store::{BenchStore, BenchTables, BenchWriter, Business, Written};
use super::workload;

pub(super) struct MemoryBench;

impl BenchStore for MemoryBench {
    type Tables = MemoryTables;

    fn name(&self) -> &'static str {
        "memory"
    }

    async fn create(&self) -> anyhow::Result<MemoryTables> {
        Ok(MemoryTables { store: MemoryStore::new(), business: BusinessTable::default() })
    }

    async fn clear(&self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn close(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

#[derive(Clone, Default)]
struct BusinessTable(Arc<Mutex<HashMap<u64, String>>>);

impl BusinessTable {
    fn insert(&self, number: u64, body: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(number, body.to_owned());
    }
}

#[derive(Clone)]
pub(super) struct MemoryTables {
    store: MemoryStore,
    business: BusinessTable,
}

impl BenchTables for MemoryTables {
    type Writer = MemoryTablesWriter;

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn writer(&self, outbox: &Outbox) -> MemoryTablesWriter {
        MemoryTablesWriter { writer: MemoryWriter::new(&self.store, outbox), business: self.business.clone() }
    }

    async fn business(&self, (number, body): Business<'_>) -> anyhow::Result<()> {
        let mut connection = self.store.connect();
        connection.begin().await?;
        self.business.insert(number, body);
        connection.commit().await?;
        Ok(())
    }

    async fn hand_written(&self, business: Business<'_>) -> anyhow::Result<()> {
        self.business(business).await?;
        self.store.insert_raw(RawRow::of_type(workload::EVENT_TYPE).with_payload(business.1.to_owned()));
        Ok(())
    }
}

#[derive(Clone)]
pub(super) struct MemoryTablesWriter {
    writer: MemoryWriter,
    business: BusinessTable,
}

impl BenchWriter for MemoryTablesWriter {
    async fn transaction(&self, Written { business, calls }: Written<'_>) -> anyhow::Result<()> {
        if let Some((number, body)) = business {
            self.business.insert(number, body);
        }
        let mut tx = self.writer.begin().await?;
        for events in calls {
            tx.write_all(events).await?;
        }
        Ok(tx.commit().await?)
    }
}
