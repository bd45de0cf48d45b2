//! Redis Cluster: three masters without replicas, which share the slots.

use std::ops::RangeInclusive;
use std::path::Path;

use super::requirement::Requirement;
use super::server_set::ServerSet;
use super::{Service, port, process, redis};

/// The URLs of all nodes, with commas between them.
const URL_VAR: &str = "POSTHASTE_TEST_REDIS_CLUSTER_URL";

const REDIS: Requirement = redis::requirement(URL_VAR);

const NODES: u16 = 3;

/// Every key is in one of so many slots.
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

/// Makes one cluster of nodes that do not know each other yet.
fn join(nodes: &[Node]) -> Result<(), String> {
    // Each pair: to hear of each other from a third takes them seconds.
    for (index, node) in nodes.iter().enumerate() {
        for other in &nodes[..index] {
            node.execute(&format!("CLUSTER MEET 127.0.0.1 {} {}", other.port, other.bus_port))?;
        }
    }
    if process::wait_until(|| nodes.iter().all(|node| is_whole(&node.describe_cluster()))) {
        return Ok(());
    }
    let said: String = nodes.iter().map(Node::describe_cluster).collect();
    Err(format!("{said}\nThe nodes of Redis Cluster did not become one. Above is what they said."))
}

struct Node {
    port: u16,
    /// Where it speaks with the other nodes.
    bus_port: u16,
}

impl Node {
    fn start(set: &mut ServerSet, program: &Path, index: u16) -> Result<Self, String> {
        let (port, bus_port) = port::free_pair()?;
        let settings = [
            "--cluster-enabled",
            "yes",
            // Otherwise 10000 above the other one, where outgoing connections have theirs.
            "--cluster-port",
            &bus_port.to_string(),
            // So that clients are sent to an address from the first moment on.
            "--cluster-announce-ip",
            "127.0.0.1",
        ];
        redis::serve(set, &format!("Redis-Cluster-{}", index + 1), program, port, &settings)?;
        let node = Self { port, bus_port };
        // Different ones, or the nodes would first have to settle whose is newer.
        node.execute(&format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1))?;
        let slots = slots(index);
        node.execute(&format!("CLUSTER ADDSLOTSRANGE {} {}", slots.start(), slots.end()))?;
        Ok(node)
    }

    fn execute(&self, command: &str) -> Result<(), String> {
        let port = self.port;
        match redis::send_command(port, command) {
            Ok(reply) if reply == "+OK" => Ok(()),
            Ok(reply) => Err(format!("Redis on port {port} does not do `{command}`: {reply}")),
            Err(error) => Err(format!("Redis on port {port} does not answer `{command}`: {error}")),
        }
    }

    fn describe_cluster(&self) -> String {
        redis::send_command(self.port, "CLUSTER INFO").unwrap_or_else(|error| error.to_string())
    }
}

/// The slots of the node with this index.
fn slots(index: u16) -> RangeInclusive<u16> {
    // Some nodes may have one more than others.
    let begin =
        |index| u16::try_from(u32::from(SLOTS) * u32::from(index) / u32::from(NODES)).unwrap_or(SLOTS);
    begin(index)..=begin(index + 1) - 1
}

/// Whether the node that said so knows all others, and who has which slot.
fn is_whole(info: &str) -> bool {
    let nodes = [format!("cluster_known_nodes:{NODES}"), format!("cluster_size:{NODES}")];
    let says = |expected: &str| info.lines().any(|line| line == expected);
    says("cluster_state:ok") && nodes.iter().all(|line| says(line))
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
    fn cluster_is_whole_when_every_node_is_known_and_has_slots() {
        let info = |state, known, size| {
            format!("cluster_state:{state}\r\ncluster_known_nodes:{known}\r\ncluster_size:{size}\r\n")
        };
        assert!(is_whole(&info("ok", 3, 3)));
        for info in [info("fail", 3, 3), info("ok", 2, 3), info("ok", 3, 2), info("ok", 30, 3), String::new()]
        {
            assert!(!is_whole(&info), "{info}");
        }
    }
}
