//! Keys of a business and of an outbox, and the ways to write into them.

use std::sync::Arc;
use std::time::Duration;

use posthaste::{EventId, Outbox, Store};
use posthaste_redis::{OutboxName, RedisStore, RedisWriter};
use redis::Pipeline;
use redis::aio::MultiplexedConnection;

use super::super::bench_store::{BenchTables, BenchWriter, Business, TableFill, Written};
use super::super::progress::Progress;
use super::super::table_size::HandDrivenTable;
use super::super::workload::Load;
use super::baseline;
use posthaste_stores::OutboxRef;

#[derive(Clone)]
pub(crate) struct RedisTables {
    pub(super) name: OutboxName,
    pub(super) store: RedisStore,
    pub(super) connection: MultiplexedConnection,
}

impl RedisTables {
    /// A key with the hash tag of the outbox: on a cluster one transaction can only use keys of one slot.
    fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.store.tag(""))
    }

    fn set_business(&self, pipeline: &mut Pipeline, (number, body): Business<'_>) {
        pipeline.set(self.key(&format!("business:{number}")), body);
    }

    async fn execute(&self, pipeline: &Pipeline) -> anyhow::Result<()> {
        pipeline.query_async::<redis::Value>(&mut self.connection.clone()).await?;
        Ok(())
    }
}

impl BenchTables for RedisTables {
    type Writer = RedisTablesWriter;

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn writer(&self, outbox: &Outbox) -> RedisTablesWriter {
        RedisTablesWriter { tables: self.clone(), writer: RedisWriter::new(&self.store, outbox) }
    }

    fn outbox_ref(&self) -> Option<OutboxRef> {
        Some(OutboxRef { table: self.name.to_string(), schema: None })
    }

    async fn business(&self, business: Business<'_>) -> anyhow::Result<()> {
        let mut pipeline = redis::pipe();
        self.set_business(pipeline.atomic(), business);
        self.execute(&pipeline).await
    }

    /// Stores the body and the arrival, as the Writer does.
    async fn hand_written(&self, business: Business<'_>) -> anyhow::Result<()> {
        let id = EventId::uuid_v7();
        let mut pipeline = redis::pipe();
        self.set_business(pipeline.atomic(), business);
        pipeline.hset_nx(self.key("entries"), id.as_str(), business.1);
        pipeline.xadd(self.key("arrivals"), "*", &[("i", id.as_str())]);
        self.execute(&pipeline).await
    }

    async fn settle_one_by_one(&self, events: u64, load: &Load) -> anyhow::Result<Option<Duration>> {
        let mut table = HandDrivenTable::new(self.clone(), load)?;
        table.fill(TableFill::pending(events), &Progress::hidden()).await?;
        Ok(Some(baseline::one_by_one(&table, events).await?.settling))
    }
}

#[derive(Clone)]
pub(crate) struct RedisTablesWriter {
    tables: RedisTables,
    writer: RedisWriter,
}

impl BenchWriter for RedisTablesWriter {
    async fn transaction(&self, Written { business, calls }: Written<'_>) -> anyhow::Result<()> {
        let mut tx = self.writer.begin();
        if let Some(business) = business {
            self.tables.set_business(&mut tx, business);
        }
        for events in calls {
            tx.write_all(events)?;
        }
        tx.commit(&mut self.tables.connection.clone()).await?;
        Ok(())
    }
}
