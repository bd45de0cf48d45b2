//! Diagnosis of the server's persistence and eviction: whether Redis may lose acknowledged entries.

use posthaste::admin::Finding;
use redis::{Pipeline, Value};
use tokio::time::{Instant, timeout_at};

use super::{RedisStreamPublisher, timed_out};

impl RedisStreamPublisher {
    /// Reads the server's settings and returns findings. Settings that this user may not read cause none.
    pub(super) async fn diagnose_settings(&self) -> Vec<Finding> {
        let deadline = Instant::now() + self.settings.common.timeout;
        let connection = timeout_at(deadline, self.shared_connection.get(|_| true, self.connect())).await;
        let Ok(Ok(connection)) = connection else { return Vec::new() };
        let mut commands = Pipeline::new();
        commands.cmd("INFO").arg("persistence");
        commands.cmd("INFO").arg("memory");
        commands.cmd("CONFIG").arg("GET").arg("appendfsync");
        let replies = self.query(&connection, &commands, 3, deadline).await;
        let replies = replies.map_err(|error| error.unwrap_or_else(timed_out)).unwrap_or_default();
        let text: Vec<String> = replies.iter().map(reply_text).collect();
        findings(&ServerSettings::parse(&text.join("\n")))
    }
}

/// Settings of the server; `None` if this user may not read them.
#[derive(Debug, Default, PartialEq, Eq)]
struct ServerSettings {
    /// Whether the append-only file is on.
    has_log: Option<bool>,
    /// `appendfsync`: `always`, `everysec` or `no`.
    fsync: Option<String>,
    /// Whether `maxmemory` is set.
    has_limit: Option<bool>,
    /// `maxmemory-policy`.
    policy: Option<String>,
}

impl ServerSettings {
    fn parse(text: &str) -> Self {
        let value = |name: &str| {
            let pairs = text.lines().filter_map(|line| line.split_once(':'));
            pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.trim().to_owned())
        };
        Self {
            has_log: value("aof_enabled").map(|enabled| enabled == "1"),
            fsync: value("appendfsync"),
            has_limit: value("maxmemory").map(|bytes| bytes != "0"),
            policy: value("maxmemory_policy"),
        }
    }
}

/// Returns a reply as lines of `name:value`, the form of `INFO`. Replies of `CONFIG GET` are converted to it.
fn reply_text(reply: &Value) -> String {
    let word = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    };
    match reply {
        Value::Array(words) => words.iter().map(word).collect::<Vec<_>>().join(":"),
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(name, value)| format!("{}:{}", word(name), word(value)));
            pairs.collect::<Vec<_>>().join("\n")
        }
        other => word(other),
    }
}

fn findings(settings: &ServerSettings) -> Vec<Finding> {
    let policy = settings.policy.as_deref().unwrap_or_default();
    let evicts = settings.has_limit == Some(true) && policy.starts_with("allkeys-");
    let eviction = evicts.then(|| {
        Finding::warning(
            "redis-eviction",
            format!("Redis evicts whole streams when its memory is full: maxmemory-policy is {policy}"),
            "set maxmemory-policy to noeviction or to a volatile-… policy, and limit the streams with maxlen instead",
        )
    });
    [eviction, persistence(settings)].into_iter().flatten().collect()
}

fn persistence(settings: &ServerSettings) -> Option<Finding> {
    match (settings.has_log, settings.fsync.as_deref()) {
        (Some(false), _) => Some(Finding::warning(
            "redis-persistence",
            "Redis has no append-only file: a crash loses the entries since its last snapshot",
            "set appendonly yes, and appendfsync always if no entry may be lost",
        )),
        (Some(true), Some(fsync)) if fsync != "always" => Some(Finding::note(
            "redis-fsync",
            format!(
                "Redis acknowledges entries before they are on its disk: a crash of the machine loses the most recent \
                 ones (appendfsync {fsync})"
            ),
            "set appendfsync always if no entry may be lost; it costs a sync per batch",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_settings_cause_no_finding() {
        assert_eq!(ServerSettings::parse("NOPERM this user has no permissions"), ServerSettings::default());
        assert_eq!(findings(&ServerSettings::default()), []);
    }

    #[test]
    fn eviction_policy_without_a_memory_limit_causes_no_finding() {
        let settings = ServerSettings::parse(
            "aof_enabled:1\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\nappendfsync:always",
        );
        assert_eq!(findings(&settings), []);
        let settings = ServerSettings { has_limit: Some(true), ..settings };
        assert_eq!(findings(&settings)[0].code, "redis-eviction");
    }
}
