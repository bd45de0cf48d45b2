//! The stores' conformance suite: on one server with one shard and with several, and on a cluster.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::conformance::{Capabilities, Defect, Harness, TxEnd};
use posthaste::store::Store;
use posthaste::writer::NewRow;
use posthaste::{Admin, EventId, StoreError, Timestamp};
use redis::aio::ConnectionLike;

use crate::support::{TestOutbox, on_a_cluster, on_one_server};

const VALID_BODY: &str = r#"{"event_type":"Tested","payload":"{}"}"#;

/// Writes a row as another program would after editing its state.
async fn edit<C: ConnectionLike + Clone>(outbox: &TestOutbox<C>, id: &str, status: &str, attempts: &str) {
    let state = format!("{status}\t1700000000000-10\t\t{attempts}\t0\t0\t0\t\t\t\t\t");
    let _: u8 = outbox.run("HSETNX", "entries", (id, VALID_BODY)).await;
    let _: u8 = outbox.run("HSET", "state", (id, state)).await;
    let _: u8 = outbox.run("ZADD", "waiting", (0, format!("1700000000000-10:{id}"))).await;
    let _: u8 = outbox.run("ZADD", "pending", (0, id)).await;
}

#[async_trait]
impl<C: ConnectionLike + Clone + Send + Sync> Harness for TestOutbox<C> {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn admin(&self) -> Arc<dyn Admin> {
        Arc::new(self.store.clone())
    }

    async fn now(&self) -> Timestamp {
        self.now().await
    }

    async fn insert(&self, rows: &[NewRow], end: TxEnd) -> Result<Vec<Option<i64>>, StoreError> {
        match end {
            TxEnd::Commit => self.store.insert_rows(&mut self.connection.clone(), rows).await,
            // A transaction that is not executed is never sent.
            TxEnd::Rollback => Ok(vec![Some(0); rows.len()]),
            TxEnd::SavepointRolledBack => unreachable!("Redis has no savepoints"),
        }
    }

    async fn insert_raw(&self, defect: Defect) -> Option<EventId> {
        let id = EventId::uuid_v7();
        let bad_headers =
            format!(r#"{{"event_type":"Tested","headers":{{"a":[{:?}]}},"payload":"{{}}"}}"#, Defect::SECRET);
        match defect {
            Defect::BadHeaders => self.produce(id.as_str(), &bad_headers, 0).await,
            Defect::NoPayload => self.produce(id.as_str(), r#"{"event_type":"Tested"}"#, 0).await,
            Defect::UnknownStatus => edit(self, id.as_str(), "77", "0").await,
            Defect::NegativeAttempts => edit(self, id.as_str(), "0", "-1").await,
            Defect::FullAttempts => edit(self, id.as_str(), "0", &u32::MAX.to_string()).await,
            unknown => panic!("no row has the defect {unknown:?}: add one here"),
        }
        Some(id)
    }

    async fn give_again(&self, _: i64) -> bool {
        // The stream numbers its entries by the server's clock.
        false
    }

    fn capabilities(&self) -> Capabilities {
        // Shards know nothing of each other's order.
        let capabilities = Capabilities::ALL.without_savepoints().without_separate_leases();
        if self.shards == 1 { capabilities } else { capabilities.without_insertion_order() }
    }

    async fn close(&self) {
        self.end().await;
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
    posthaste::store_conformance!(on_a_cluster(6).await, #[ignore = "needs a Redis Cluster: cargo xtask test"]);
}
