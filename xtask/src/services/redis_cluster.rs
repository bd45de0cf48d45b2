//! Redis Cluster: three masters without replicas.

use std::ops::RangeInclusive;
use std::path::Path;

use super::requirement::Requirement;
use super::server_set::ServerSet;
use super::{Service, port, process, redis};

/// The URLs of all nodes, with commas between them.
const URL_VAR: &str = "POSTHASTE_TEST_REDIS_CLUSTER_URL";

const REDIS: Requirement = redis::requirement(URL_VAR);

const NODES: u16 = 3;

/// The number of slots of every Redis Cluster.
const SLOTS: u16 = 16_384;

pub(super) const SERVICE: Service = Service { missing_packages: || REDIS.missing_packages(), start };

fn start(set: &mut ServerSet) -> Result<(), String> {
    let Some(program) = REDIS.obtain(set)? else { return Ok(()) };
    let nodes: Vec<Node> =
        (0..NODES).map(|index| Node::start(set, &program, index)).collect::<Result<_, _>>()?;
    join(&nodes)?;
    let urls: Vec<String> = nodes.iter().map(|node| format!("redis://127.0.0.1:{}", node.port)).collect();
    set.export(URL_VAR, urls.join(","));
    Ok(())
}

/// Joins the nodes to one cluster.
fn join(nodes: &[Node]) -> Result<(), String> {
    // Each pair: nodes that learn of each other through a third one need seconds.
    for (index, node) in nodes.iter().enumerate() {
        for other in &nodes[..index] {
            node.execute(&format!("CLUSTER MEET 127.0.0.1 {} {}", other.port, other.bus_port))?;
        }
    }
    if process::wait_until(|| nodes.iter().all(|node| is_complete(&node.describe_cluster()))) {
        return Ok(());
    }
    let info: String = nodes.iter().map(Node::describe_cluster).collect();
    Err(format!("{info}\nThe nodes of Redis Cluster did not join. Their CLUSTER INFO is above."))
}

struct Node {
    port: u16,
    /// The port for connections from other nodes.
    bus_port: u16,
}

impl Node {
    fn start(set: &mut ServerSet, program: &Path, index: u16) -> Result<Self, String> {
        let (port, bus_port) = port::free_pair()?;
        let settings = [
            "--cluster-enabled",
            "yes",
            // The default is 10000 higher than the port, in the range for outgoing connections.
            "--cluster-port",
            &bus_port.to_string(),
            // Otherwise redirections have no address until the nodes have met.
            "--cluster-announce-ip",
            "127.0.0.1",
        ];
        redis::serve(set, &format!("Redis-Cluster-{}", index + 1), program, port, &settings)?;
        let node = Self { port, bus_port };
        // A different epoch for each node, because nodes with the same one first resolve the conflict.
        node.execute(&format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1))?;
        let slots = slots(index);
        node.execute(&format!("CLUSTER ADDSLOTSRANGE {} {}", slots.start(), slots.end()))?;
        Ok(node)
    }

    fn execute(&self, command: &str) -> Result<(), String> {
        let port = self.port;
        match redis::send_command(port, command) {
            Ok(reply) if reply == "+OK" => Ok(()),
            Ok(reply) => Err(format!("Redis on port {port} refused `{command}`: {reply}")),
            Err(error) => Err(format!("Redis on port {port} did not reply to `{command}`: {error}")),
        }
    }

    fn describe_cluster(&self) -> String {
        redis::send_command(self.port, "CLUSTER INFO").unwrap_or_else(|error| error.to_string())
    }
}

/// The slots of a node.
fn slots(index: u16) -> RangeInclusive<u16> {
    // Rounded, so some nodes have one slot more than others.
    let begin =
        |index| u16::try_from(u32::from(SLOTS) * u32::from(index) / u32::from(NODES)).unwrap_or(SLOTS);
    begin(index)..=begin(index + 1) - 1
}

/// Whether the node with this CLUSTER INFO knows all other nodes and the owners of all slots.
fn is_complete(info: &str) -> bool {
    let nodes = [format!("cluster_known_nodes:{NODES}"), format!("cluster_size:{NODES}")];
    let has = |expected: &str| info.lines().any(|line| line == expected);
    has("cluster_state:ok") && nodes.iter().all(|line| has(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_one_node() {
        let all: Vec<u16> = (0..NODES).flat_map(slots).collect();
        assert_eq!(all, (0..SLOTS).collect::<Vec<_>>());
    }

    #[test]
    fn cluster_is_complete_when_every_node_is_known_and_has_slots() {
        let info = |state, known, size| {
            format!("cluster_state:{state}\r\ncluster_known_nodes:{known}\r\ncluster_size:{size}\r\n")
        };
        assert!(is_complete(&info("ok", 3, 3)));
        for info in [info("fail", 3, 3), info("ok", 2, 3), info("ok", 3, 2), info("ok", 30, 3), String::new()]
        {
            assert!(!is_complete(&info), "{info}");
        }
    }
}
