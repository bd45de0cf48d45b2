//! The stores' suite: on one server with one shard, on one server with several, and on a cluster.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::conformance::{Capabilities, Defect, Harness, TxEnd};
use posthaste::store::Store;
use posthaste::writer::NewRow;
use posthaste::{Admin, EventId, StoreError, Timestamp};
use posthaste_redis::{OutboxName, RedisStore};
use redis::aio::MultiplexedConnection;
use redis::cluster_async::ClusterConnection;

use crate::support;

/// One outbox, and a connection that is not its own.
struct OnRedis<C> {
    store: RedisStore,
    name: OutboxName,
    shards: u16,
    connection: C,
}

async fn on_one_server(shards: u16) -> OnRedis<MultiplexedConnection> {
    let name = support::fresh_name();
    let store = support::builder(&name).shards(shards).connect().await.expect("the store opens");
    OnRedis { store, name, shards, connection: support::connect(&support::server_url()).await }
}

async fn on_a_cluster() -> OnRedis<ClusterConnection> {
    const SHARDS: u16 = 6;
    let (name, urls) = (support::fresh_name(), support::cluster_urls());
    let store = RedisStore::cluster(urls.iter().map(String::as_str)).expect("good URLs");
    let store = store.name(name.clone()).shards(SHARDS).connect().await.expect("the store opens");
    let client = redis::cluster::ClusterClient::new(urls).expect("good URLs");
    let connection = client.get_async_connection().await.expect("the cluster answers");
    OnRedis { store, name, shards: SHARDS, connection }
}

impl<C: redis::aio::ConnectionLike + Clone + Send + Sync> OnRedis<C> {
    async fn run(&self, command: &str, key: &str, args: &[&str]) {
        let mut cmd = redis::cmd(command);
        cmd.arg(support::key(&self.name, key)).arg(args);
        cmd.query_async::<redis::Value>(&mut self.connection.clone()).await.expect("the server does it");
    }

    /// What a foreign program writes: the two commands of the document.
    async fn enqueue(&self, id: &str, body: &str) {
        self.run("HSETNX", "entries", &[id, body]).await;
        self.run("ZADD", "pending", &["NX", "0", id]).await;
    }

    /// A row that somebody edited.
    async fn edit(&self, id: &str, status: &str, attempts: &str) {
        let state = format!("{status}\t1700000000000-10\t\t{attempts}\t0\t0\t0\t\t\t\t\t");
        self.run("HSETNX", "entries", &[id, VALID_BODY]).await;
        self.run("HSET", "state", &[id, &state]).await;
        self.run("ZADD", "waiting", &["0", &format!("1700000000000-10:{id}")]).await;
        self.run("ZADD", "pending", &["0", id]).await;
    }
}

const VALID_BODY: &str = r#"{"event_type":"Tested","payload":"{}"}"#;

#[async_trait]
impl<C: redis::aio::ConnectionLike + Clone + Send + Sync> Harness for OnRedis<C> {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn admin(&self) -> Arc<dyn Admin> {
        Arc::new(self.store.clone())
    }

    async fn now(&self) -> Timestamp {
        support::now(&mut self.connection.clone()).await
    }

    async fn insert(&self, rows: &[NewRow], end: TxEnd) -> Result<Vec<Option<i64>>, StoreError> {
        match end {
            TxEnd::Commit => self.store.insert_rows(&mut self.connection.clone(), rows).await,
            // A transaction that is not executed was never sent.
            TxEnd::Rollback => Ok(vec![Some(0); rows.len()]),
            TxEnd::SavepointRolledBack => unreachable!("Redis has no savepoints"),
        }
    }

    async fn insert_raw(&self, defect: Defect) -> Option<EventId> {
        let id = EventId::uuid_v7();
        let bad_headers =
            format!(r#"{{"event_type":"Tested","headers":{{"a":[{:?}]}},"payload":"{{}}"}}"#, Defect::SECRET);
        match defect {
            Defect::BadHeaders => self.enqueue(id.as_str(), &bad_headers).await,
            Defect::NoPayload => self.enqueue(id.as_str(), r#"{"event_type":"Tested"}"#).await,
            Defect::UnknownStatus => self.edit(id.as_str(), "77", "0").await,
            Defect::NegativeAttempts => self.edit(id.as_str(), "0", "-1").await,
            Defect::FullAttempts => self.edit(id.as_str(), "0", &u32::MAX.to_string()).await,
        }
        Some(id)
    }

    async fn give_again(&self, _: i64) -> bool {
        // A stream numbers its entries by the server's clock.
        false
    }

    fn capabilities(&self) -> Capabilities {
        // Shards know nothing of each other's order.
        Capabilities { savepoints: false, archive: true, insertion_order: self.shards == 1 }
    }

    async fn close(&self) {
        support::remove(&mut self.connection.clone(), &self.name, self.shards).await;
    }
}

mod one_shard {
    use super::*;
    posthaste::store_conformance!(on_one_server(1).await, #[ignore = "needs Redis: cargo xtask test"]);
}

mod several_shards {
    use super::*;
    posthaste::store_conformance!(on_one_server(4).await, #[ignore = "needs Redis: cargo xtask test"]);
}

mod cluster {
    use super::*;
    posthaste::store_conformance!(on_a_cluster().await, #[ignore = "needs a Redis Cluster: cargo xtask test"]);
}
