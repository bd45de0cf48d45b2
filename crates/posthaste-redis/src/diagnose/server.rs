//! Findings about the settings and the state of the server, or of every primary of a cluster.

use std::collections::HashMap;

use posthaste::admin::{Finding, Tolerance};
use redis::InfoDict;

use crate::RedisStore;
use crate::connection::SINGLE_SERVER_NAME;

impl RedisStore {
    /// A server that does not reveal a setting gets no finding about it. INFO is allowed for every user; CONFIG is not.
    pub(super) async fn diagnose_servers(&self, tolerance: &Tolerance) -> Vec<Finding> {
        let states = self.connections().query_each::<InfoDict>(&redis::cmd("INFO")).await.unwrap_or_default();
        let mut settings: HashMap<String, HashMap<String, String>> = HashMap::new();
        // By name, because the settings also contain passwords.
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

/// INFO fields and settings of one server.
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
        // The other policies evict only keys with an expiry time, and no key of an outbox has one.
        let evicts = policy.starts_with("allkeys-") && self.number("maxmemory")? > 0;
        evicts.then(|| {
            Finding::problem(
                "redis-eviction",
                format!(
                    "{name} deletes keys when its memory is full, including those of the outbox: maxmemory-policy is \
                     {policy}"
                ),
                "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; if the server is also a cache, \
                 volatile-lru does not evict the outbox",
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
                format!("{name} uses {used} of the {limit} MiB of its maxmemory; when it is full, writes fail"),
                "raise maxmemory, or keep less: purge DONE and DEAD events sooner (posthaste purge, purge.done)",
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
                    "{name} keeps its data only in memory and snapshots (appendonly is no): a crash now loses \
                     {changes} changes, which can include events"
                ),
                "CONFIG SET appendonly yes, and the same in redis.conf",
            ));
        }
        let fsync = self.settings.get("appendfsync").filter(|fsync| *fsync != "always")?;
        let writes = match fsync.as_str() {
            "no" => "all writes that the operating system has not flushed yet",
            _ => "the last second of writes",
        };
        let whose = if name == SINGLE_SERVER_NAME { String::new() } else { format!(" of {name}") };
        Some(Finding::note(
            "redis-fsync",
            format!("a crash of the machine{whose} can lose {writes} (appendfsync is not always)"),
            "set appendfsync to always if that matters more than speed",
        ))
    }

    fn clients(&self, tolerance: &Tolerance) -> Option<Finding> {
        let limit = self.number("maxclients").or_else(|| self.settings.get("maxclients")?.parse().ok())?;
        let taken = self.number("connected_clients")?;
        let advice = "raise maxclients, use smaller pools, or close idle clients (CLIENT LIST, timeout)";
        Finding::connection_limit(&self.name, taken, limit, tolerance, advice)
    }
}
