//! What the settings and the state of the servers mean for the outbox: of the one server, or of every primary of
//! a cluster.

use std::collections::HashMap;

use posthaste::admin::{Finding, Tolerance};
use redis::InfoDict;

use crate::RedisStore;
use crate::connection::SINGLE_SERVER_NAME;

impl RedisStore {
    /// A server that does not tell is not blamed. What everybody may ask is asked with INFO.
    pub(super) async fn diagnose_servers(&self, tolerance: &Tolerance) -> Vec<Finding> {
        let states = self.connections().query_each::<InfoDict>(&redis::cmd("INFO")).await.unwrap_or_default();
        let mut settings: HashMap<String, HashMap<String, String>> = HashMap::new();
        // By name: passwords are among the others.
        for name in ["appendfsync", "maxclients"] {
            let get = redis::cmd("CONFIG").arg("GET").arg(name).to_owned();
            for (server, found) in
                self.connections().query_each::<HashMap<String, String>>(&get).await.unwrap_or_default()
            {
                settings.entry(server).or_default().extend(found);
            }
        }
        let servers = states.into_iter().map(|(name, state)| {
            let settings = settings.remove(&name).unwrap_or_default();
            ServerInfo { name, state, settings }
        });
        servers.flat_map(|server| server.findings(tolerance)).collect()
    }
}

/// What one server says of itself.
struct ServerInfo {
    name: String,
    state: InfoDict,
    settings: HashMap<String, String>,
}

impl ServerInfo {
    fn findings(&self, tolerance: &Tolerance) -> Vec<Finding> {
        let findings = [self.eviction(), self.memory(tolerance), self.durability(), self.clients(tolerance)];
        findings.into_iter().flatten().collect()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.state.get(name)
    }

    fn eviction(&self) -> Option<Finding> {
        let (name, policy) = (&self.name, self.state.get::<String>("maxmemory_policy")?);
        // The other policies delete what has an end, and no key of an outbox has one.
        let evicts = policy.starts_with("allkeys-") && self.number("maxmemory")? > 0;
        evicts.then(|| {
            Finding::problem(
                "redis-eviction",
                format!(
                    "{name} deletes keys when its memory is full, those of the outbox too: maxmemory-policy is \
                     {policy}"
                ),
                "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; volatile-lru spares the outbox too, \
                 where others use the server as a cache",
            )
        })
    }

    fn memory(&self, tolerance: &Tolerance) -> Option<Finding> {
        const MIB: u64 = 1024 * 1024;
        let (used, limit) = (self.number("used_memory")?, self.number("maxmemory")?);
        tolerance.is_used_up(used, limit).then(|| {
            let (name, used, limit) = (&self.name, used / MIB, limit / MIB);
            Finding::warning(
                "redis-memory",
                format!("{name} has used {used} of the {limit} MiB of its maxmemory; when they are full, writes fail"),
                "raise maxmemory, or keep less: purge what is done and dead sooner (posthaste purge, purge.done)",
            )
        })
    }

    fn durability(&self) -> Option<Finding> {
        let name = &self.name;
        if self.number("aof_enabled")? == 0 {
            let changes = self.number("rdb_changes_since_last_save").unwrap_or_default();
            return Some(Finding::problem(
                "redis-persistence",
                format!(
                    "{name} keeps its data in memory, and in snapshots at most (appendonly is no): a crash now \
                     loses {changes} changes, events among them"
                ),
                "CONFIG SET appendonly yes, and the same in redis.conf",
            ));
        }
        let fsync = self.settings.get("appendfsync").filter(|fsync| *fsync != "always")?;
        let writes = match fsync.as_str() {
            "no" => "whatever its system has not written yet",
            _ => "the last second of writes",
        };
        let whose = if name == SINGLE_SERVER_NAME { String::new() } else { format!(" of {name}") };
        Some(Finding::note(
            "redis-fsync",
            format!("a crash of the machine{whose} can lose {writes} (appendfsync is not always)"),
            "set appendfsync to always where that matters more than speed",
        ))
    }

    fn clients(&self, tolerance: &Tolerance) -> Option<Finding> {
        let limit = self.number("maxclients").or_else(|| self.settings.get("maxclients")?.parse().ok())?;
        let taken = self.number("connected_clients")?;
        let advice =
            "raise maxclients, use smaller pools, or end clients that are idle (CLIENT LIST, timeout)";
        Finding::connection_limit(&self.name, taken, limit, tolerance, advice)
    }
}
