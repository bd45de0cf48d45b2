//! A Redis cluster for one test.

use super::redis::{RedisServer, query};
use crate::process::free_port;
use crate::wait::wait_until;

/// A cluster of three servers without replicas. Two of them keep working without the third.
#[derive(Debug)]
pub struct RedisCluster {
    /// The servers, in the order of their slots.
    pub nodes: Vec<RedisServer>,
}

impl RedisCluster {
    const SLOTS: u16 = 16_384;
    const NODES: u16 = 3;

    /// Starts a cluster. Returns when all nodes know each other.
    pub async fn start() -> Self {
        let mut nodes: Vec<RedisServer> = Vec::new();
        let mut bus_ports: Vec<u16> = Vec::new();
        for index in 0..Self::NODES {
            let bus_port = free_port();
            let node = start_node(bus_port).await;
            let configure = async |command: String| {
                let reply = query(node.port(), &format!("CLUSTER {command}")).await;
                assert_eq!(reply.expect("a reply"), "OK", "{command}");
            };
            configure(format!("SET-CONFIG-EPOCH {}", index + 1)).await;
            let (first, end) = (Self::first_slot(index), Self::first_slot(index + 1));
            configure(format!("ADDSLOTSRANGE {first} {}", end - 1)).await;
            for (other, bus_port) in nodes.iter().zip(&bus_ports) {
                configure(format!("MEET 127.0.0.1 {} {bus_port}", other.port())).await;
            }
            nodes.push(node);
            bus_ports.push(bus_port);
        }
        let cluster = Self { nodes };
        wait_until("the nodes are one cluster", async || cluster.is_whole().await).await;
        cluster
    }

    async fn is_whole(&self) -> bool {
        for node in &self.nodes {
            let info = query(node.port(), "CLUSTER INFO").await.expect("CLUSTER INFO");
            if !["cluster_state:ok", "cluster_size:3"].iter().all(|line| info.lines().any(|it| it == *line)) {
                return false;
            }
        }
        true
    }

    fn first_slot(index: u16) -> u16 {
        (u32::from(Self::SLOTS) * u32::from(index) / u32::from(Self::NODES)) as u16
    }

    /// The URLs of the nodes.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// Index of the node that has this key. The key must not contain spaces.
    pub async fn node_of(&self, key: &str) -> usize {
        let slot = query(self.nodes[0].port(), &format!("CLUSTER KEYSLOT {key}")).await.expect("KEYSLOT");
        let slot: u16 = slot.parse().expect("a slot");
        (1..Self::NODES).filter(|&index| slot >= Self::first_slot(index)).count()
    }
}

async fn start_node(bus_port: u16) -> RedisServer {
    let settings = [
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &bus_port.to_string(),
        "--cluster-announce-ip",
        "127.0.0.1",
        "--cluster-require-full-coverage",
        "no",
        // Longer than any test: no node is declared dead.
        "--cluster-node-timeout",
        "600000",
    ];
    RedisServer::new(&settings).started().await
}
