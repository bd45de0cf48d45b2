//! Redis: the benchmark creates outboxes of its own, and removes their keys at the end.

mod baseline;
mod keyspace;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use posthaste_redis::{OutboxName, RedisStore, RedisStoreBuilder};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};

use super::bench_store::{BenchStore, ByHand, CrossProcessLatency};
use super::cross_process;
use super::progress::Progress;
use super::statistics::per_second;
use super::table_size::backlog;
use super::workload::Load;
use keyspace::RedisTables;

/// Maximum number of events that are settled one by one, because that is slow.
const MAX_ONE_BY_ONE_EVENTS: u64 = 1_000;

/// How long the client waits for a response. It is long, because the benchmark overloads the server.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Keys per SCAN and UNLINK.
const SCAN_KEYS: usize = 1_000;

/// A server with outboxes that no other process uses.
pub(super) struct RedisBench {
    builder: RedisStoreBuilder,
    /// Shared by all writers, as in a service. The same connection removes the keys at the end, so that the server does
    /// it after all pending writes.
    connection: MultiplexedConnection,
    /// Prefix of the names of all outboxes, random so that no other process uses it.
    prefix: String,
    sets: AtomicU32,
}

impl RedisBench {
    pub(super) async fn open(builder: RedisStoreBuilder, url: &str) -> anyhow::Result<Self> {
        let prefix = format!("posthaste_bench_{:08x}", fastrand::u32(..));
        // Reports problems with the server before anything is written.
        builder.clone().name(OutboxName::new(&prefix)?).read_only().connect().await?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(RESPONSE_TIMEOUT));
        let connection = Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self { builder, connection, prefix, sets: AtomicU32::new(0) })
    }

    async fn store(&self, name: &OutboxName) -> anyhow::Result<RedisStore> {
        Ok(self.builder.clone().name(name.clone()).connect().await?)
    }
}

impl BenchStore for RedisBench {
    type Tables = RedisTables;

    fn name(&self) -> &'static str {
        "redis"
    }

    async fn create(&self) -> anyhow::Result<RedisTables> {
        let set = self.sets.fetch_add(1, Ordering::Relaxed);
        let name = OutboxName::new(&format!("{}_{set}", self.prefix))?;
        let store = self.store(&name).await?;
        Ok(RedisTables { name, store, connection: self.connection.clone() })
    }

    async fn clear(&self) -> anyhow::Result<()> {
        let mut connection = self.connection.clone();
        let mut cursor = 0;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(format!("{{{}*", self.prefix)).arg("COUNT").arg(SCAN_KEYS);
            let (next, keys): (u64, Vec<String>) = scan.query_async(&mut connection).await?;
            if !keys.is_empty() {
                redis::cmd("UNLINK").arg(keys).query_async::<u64>(&mut connection).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    async fn close(&self) -> anyhow::Result<()> {
        self.clear().await
    }

    async fn by_hand(&self, load: &Load, progress: &Progress) -> anyhow::Result<Option<ByHand>> {
        let table = backlog(self, load, load.events, progress).await?;
        progress.begin("drained by hand");
        let drain = per_second(load.events, baseline::best_case(&table, load.events).await?);
        let singles = load.events.min(MAX_ONE_BY_ONE_EVENTS);
        let table = backlog(self, load, singles, progress).await?;
        progress.begin("drained by hand, one by one");
        let one_by_one = per_second(singles, baseline::one_by_one(&table, singles).await?.all);
        // `proved` is `None` because the reply to EXEC confirms what was stored, and `notify_cost` because every write
        // notifies other processes.
        Ok(Some(ByHand { proved: None, drain, one_by_one, notify_cost: None }))
    }

    async fn cross_process_latency(&self, load: &Load) -> anyhow::Result<Option<CrossProcessLatency>> {
        let tables = self.fresh().await?;
        let reading = self.store(&tables.name).await?;
        Ok(Some(cross_process::latency(&tables, Arc::new(reading), load).await?))
    }
}
