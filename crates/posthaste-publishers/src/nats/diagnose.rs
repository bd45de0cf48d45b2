//! Whether a stream takes what is sent, and whether NATS keeps what it acknowledges.

use posthaste::admin::Finding;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::connection::{Connection, LOOKUP_TIMEOUT};
use super::settings::Settings;

/// Where servers tell how they keep messages. That belongs to the system account, which may export it to others.
const JETSTREAM_STATUS_SUBJECT: &str = "$SYS.REQ.SERVER.PING.JSZ";

/// What a stream says of itself; servers say more.
#[derive(Debug, Deserialize)]
struct Stream {
    config: StreamConfig,
}

#[derive(Debug, Deserialize)]
struct StreamConfig {
    name: String,
    storage: String,
    num_replicas: usize,
}

/// When a message that was acknowledged is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskSync {
    Before,
    Later,
    /// The server does not tell this user.
    Unknown,
}

impl Connection {
    /// Without acknowledgements there is nothing that could be kept.
    pub(super) async fn diagnose(&self, settings: &Settings, deadline: Instant) -> Vec<Finding> {
        if self.is_core() {
            return Vec::new();
        }
        let subject = subject_to_check(settings);
        let stream = match &settings.stream {
            Some(stream) => Some(stream.clone()),
            None => match self.stream_for(&subject, deadline).await {
                Ok(None) => return vec![no_stream(&subject)],
                Ok(stream) => stream,
                Err(_) => None,
            },
        };
        let stream: Option<Stream> = match stream {
            Some(name) => self.ask(&format!("$JS.API.STREAM.INFO.{name}"), deadline).await,
            None => None,
        };
        let jetstream: Option<Value> = self.ask(JETSTREAM_STATUS_SUBJECT, deadline).await;
        let version = self.version();
        findings(
            stream.as_ref().map(|stream| &stream.config),
            when_synced(jetstream.as_ref(), &version),
            &version,
        )
    }

    /// None if nobody answers in time, or not what was asked for, or this user may not ask.
    async fn ask<T: DeserializeOwned>(&self, subject: &str, deadline: Instant) -> Option<T> {
        let denied_before = self.times_denied(subject);
        let message = tokio::select! {
            biased;
            answer = self.request(subject) => answer?,
            _ = self.wait_for_failure(subject, denied_before) => return None,
            () = sleep_until(deadline.min(Instant::now() + LOOKUP_TIMEOUT)) => return None,
        };
        serde_json::from_slice(&message).ok()
    }
}

/// Where events go; a part that an event fills may be anything.
fn subject_to_check(settings: &Settings) -> String {
    let pattern = settings.subject.pattern("*");
    pattern.split('.').map(|part| if part.contains('*') { "*" } else { part }).collect::<Vec<_>>().join(".")
}

/// A server that has no such setting writes to the disk now and then. One that has it leaves it out where it is not so.
fn when_synced(jetstream: Option<&Value>, version: &str) -> DiskSync {
    match jetstream.and_then(|jetstream| jetstream.pointer("/data/config")) {
        Some(config) if config["sync_always"] == true => DiskSync::Before,
        Some(_) => DiskSync::Later,
        None if lacks_sync_setting(version) => DiskSync::Later,
        None => DiskSync::Unknown,
    }
}

/// NATS 2.10 is the first that can be told when to write to the disk.
fn lacks_sync_setting(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    matches!((numbers.next(), numbers.next()), (Some(major), Some(minor)) if (major, minor) < (2, 10))
}

fn findings(stream: Option<&StreamConfig>, sync: DiskSync, version: &str) -> Vec<Finding> {
    match stream {
        Some(stream) if stream.storage == "memory" => vec![in_memory(&stream.name)],
        Some(stream) => of_files(stream, sync, version),
        None => of_servers(sync, version),
    }
}

fn no_stream(subject: &str) -> Finding {
    Finding::problem(
        "nats-no-stream",
        format!("no stream takes the subject {subject}, so that every event for it fails"),
        "create one, or add the subject to the subjects of one",
    )
}

fn in_memory(stream: &str) -> Finding {
    Finding::warning(
        "nats-memory-stream",
        format!("the stream {stream} keeps its messages in memory: a restart of its servers loses them"),
        "create it with file storage, unless its consumers can do without what is lost",
    )
}

const SYNC_ALWAYS_ADVICE: &str = "write sync_interval: always into the block jetstream of the servers' settings (NATS 2.10 and \
                      later), or give the stream three replicas";

fn of_files(stream: &StreamConfig, sync: DiskSync, version: &str) -> Vec<Finding> {
    let StreamConfig { name, num_replicas, .. } = stream;
    let alone = || {
        Finding::note(
            "nats-one-replica",
            format!("the stream {name} has one replica: a disk that is lost takes its messages along"),
            "give it three replicas, if there is a cluster",
        )
    };
    let is_alone = *num_replicas < 2;
    match sync {
        DiskSync::Later if is_alone => vec![Finding::warning(
            "nats-sync-interval",
            format!(
                "the stream {name} has one replica, and NATS {version} acknowledges messages before they are on its \
                 disk: a crash of the machine loses the last of them"
            ),
            SYNC_ALWAYS_ADVICE,
        )],
        DiskSync::Later => vec![Finding::note(
            "nats-sync-interval",
            format!(
                "NATS {version} acknowledges messages before they are on a disk: a crash of all {num_replicas} \
                 replicas of the stream {name} at once loses the last of them"
            ),
            "write sync_interval: always into the block jetstream of the servers' settings (NATS 2.10 and later), \
             if they stand in one place",
        )],
        DiskSync::Before => is_alone.then(alone).into_iter().collect(),
        DiskSync::Unknown => of_servers(sync, version).into_iter().chain(is_alone.then(alone)).collect(),
    }
}

/// Where nothing is known of the stream.
fn of_servers(sync: DiskSync, version: &str) -> Vec<Finding> {
    match sync {
        DiskSync::Before => Vec::new(),
        DiskSync::Later => vec![Finding::warning(
            "nats-sync-interval",
            format!(
                "NATS {version} acknowledges messages before they are on its disk: a crash of the machine loses the \
                 last of those that have one replica"
            ),
            SYNC_ALWAYS_ADVICE,
        )],
        DiskSync::Unknown => vec![Finding::note(
            "nats-sync-interval",
            format!(
                "NATS {version} does not tell this user whether messages are on the disk when it acknowledges them"
            ),
            format!(
                "look for sync_interval: always in the block jetstream of the servers' settings, or let the system \
                 account export {JETSTREAM_STATUS_SUBJECT} to this user's account"
            ),
        )],
    }
}

#[cfg(test)]
mod tests {
    use posthaste::admin::Severity;

    use super::*;

    fn told(config: &str) -> Option<Value> {
        let text = format!(r#"{{"server":{{"ver":"2.11.4"}},"data":{{"config":{{{config}}},"memory":0}}}}"#);
        serde_json::from_str(&text).ok()
    }

    fn stream(storage: &str, num_replicas: usize) -> StreamConfig {
        StreamConfig { name: "SHOP".to_owned(), storage: storage.to_owned(), num_replicas }
    }

    #[test]
    fn server_that_tells_is_believed_and_of_others_the_version_counts() {
        let always = told(r#""max_memory":1,"sync_interval":120000000000,"sync_always":true"#);
        assert_eq!(when_synced(always.as_ref(), "2.11.4"), DiskSync::Before);
        let usual = told(r#""max_memory":1,"sync_interval":120000000000"#);
        assert_eq!(when_synced(usual.as_ref(), "2.11.4"), DiskSync::Later);
        for (version, sync) in [
            ("2.9.10", DiskSync::Later),
            ("1.4.1", DiskSync::Later),
            ("2.10.0-beta", DiskSync::Unknown),
            ("2.12.1", DiskSync::Unknown),
            ("3.0.0", DiskSync::Unknown),
            ("", DiskSync::Unknown),
        ] {
            assert_eq!(when_synced(None, version), sync, "{version}");
        }
    }

    #[test]
    fn stream_is_as_safe_as_its_storage_and_its_replicas() {
        let seen = |stream: Option<StreamConfig>, sync| -> Vec<_> {
            let findings = findings(stream.as_ref(), sync, "2.11.4");
            findings.into_iter().map(|finding| (finding.code, finding.severity)).collect()
        };
        use Severity::{Note, Warning};
        let (sync_interval, one_replica) = ("nats-sync-interval", "nats-one-replica");
        assert_eq!(seen(Some(stream("file", 3)), DiskSync::Before), []);
        assert_eq!(seen(Some(stream("file", 3)), DiskSync::Later), [(sync_interval, Note)]);
        assert_eq!(seen(Some(stream("file", 1)), DiskSync::Later), [(sync_interval, Warning)]);
        assert_eq!(seen(Some(stream("file", 1)), DiskSync::Before), [(one_replica, Note)]);
        assert_eq!(
            seen(Some(stream("file", 1)), DiskSync::Unknown),
            [(sync_interval, Note), (one_replica, Note)]
        );
        assert_eq!(seen(Some(stream("memory", 3)), DiskSync::Before), [("nats-memory-stream", Warning)]);
        assert_eq!(seen(None, DiskSync::Later), [(sync_interval, Warning)]);
        assert_eq!(seen(None, DiskSync::Before), []);
    }
}
