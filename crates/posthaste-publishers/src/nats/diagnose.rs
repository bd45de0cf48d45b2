//! Diagnosis of the stream: that one stores the subject, and that a crash does not lose acknowledged messages.

use posthaste::admin::Finding;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::connection::{Connection, LOOKUP_TIMEOUT};
use super::settings::Settings;

/// The subject on which servers report how they store messages. It belongs to the system account, which may export
/// it.
const JETSTREAM_STATUS_SUBJECT: &str = "$SYS.REQ.SERVER.PING.JSZ";

/// The part of a stream's information that the diagnosis needs.
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

/// When an acknowledged message is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskSync {
    BeforeAck,
    AfterAck,
    /// The server does not report it to this user.
    Unknown,
}

impl Connection {
    /// Returns findings about the stream. With core NATS there are none, because nothing is acknowledged.
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
            Some(name) => self.request_json(&format!("$JS.API.STREAM.INFO.{name}"), deadline).await,
            None => None,
        };
        let jetstream: Option<Value> = self.request_json(JETSTREAM_STATUS_SUBJECT, deadline).await;
        let version = self.version();
        findings(
            stream.as_ref().map(|stream| &stream.config),
            when_synced(jetstream.as_ref(), &version),
            &version,
        )
    }

    /// Requests a JSON document. Returns `None` if there is no reply in time, it cannot be parsed, or this user may
    /// not send the request.
    async fn request_json<T: DeserializeOwned>(&self, subject: &str, deadline: Instant) -> Option<T> {
        let denied_before = self.times_denied(subject);
        let message = tokio::select! {
            biased;
            reply = self.request(subject) => reply?,
            _ = self.wait_for_failure(subject, denied_before) => return None,
            () = sleep_until(deadline.min(Instant::now() + LOOKUP_TIMEOUT)) => return None,
        };
        serde_json::from_slice(&message).ok()
    }
}

/// The subject to look up: the template with a wildcard for each part that depends on the event.
fn subject_to_check(settings: &Settings) -> String {
    let pattern = settings.subject.pattern("*");
    pattern.split('.').map(|part| if part.contains('*') { "*" } else { part }).collect::<Vec<_>>().join(".")
}

/// Servers before 2.10 always sync periodically. Later servers report `sync_always` only if it is set.
fn when_synced(jetstream: Option<&Value>, version: &str) -> DiskSync {
    match jetstream.and_then(|jetstream| jetstream.pointer("/data/config")) {
        Some(config) if config["sync_always"] == true => DiskSync::BeforeAck,
        Some(_) => DiskSync::AfterAck,
        None if lacks_sync_setting(version) => DiskSync::AfterAck,
        None => DiskSync::Unknown,
    }
}

/// Whether the server is older than NATS 2.10, the first version with the setting `sync_interval: always`.
fn lacks_sync_setting(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    matches!((numbers.next(), numbers.next()), (Some(major), Some(minor)) if (major, minor) < (2, 10))
}

fn findings(stream: Option<&StreamConfig>, sync: DiskSync, version: &str) -> Vec<Finding> {
    match stream {
        Some(stream) if stream.storage == "memory" => vec![in_memory(&stream.name)],
        Some(stream) => file_stream_findings(stream, sync, version),
        None => server_findings(sync, version),
    }
}

fn no_stream(subject: &str) -> Finding {
    Finding::problem(
        "nats-no-stream",
        format!("no stream stores the subject {subject}, so that every event for it fails"),
        "create one, or add the subject to the subjects of one",
    )
}

fn in_memory(stream: &str) -> Finding {
    Finding::warning(
        "nats-memory-stream",
        format!("the stream {stream} keeps its messages in memory: they are lost when its servers restart"),
        "recreate it with file storage, unless its consumers can do without the lost messages",
    )
}

const SYNC_ALWAYS_ADVICE: &str = "write sync_interval: always into the block jetstream of the servers' settings (NATS 2.10 and \
                      later), or give the stream three replicas";

fn file_stream_findings(stream: &StreamConfig, sync: DiskSync, version: &str) -> Vec<Finding> {
    let StreamConfig { name, num_replicas, .. } = stream;
    let alone = || {
        Finding::note(
            "nats-one-replica",
            format!("the stream {name} has one replica: its messages are lost with the disk of its server"),
            "give it three replicas, if there is a cluster",
        )
    };
    let is_alone = *num_replicas < 2;
    match sync {
        DiskSync::AfterAck if is_alone => vec![Finding::warning(
            "nats-sync-interval",
            format!(
                "the stream {name} has one replica, and NATS {version} acknowledges messages before they are on its \
                 disk: a crash of the machine loses the most recent ones"
            ),
            SYNC_ALWAYS_ADVICE,
        )],
        DiskSync::AfterAck => vec![Finding::note(
            "nats-sync-interval",
            format!(
                "NATS {version} acknowledges messages before they are on a disk: if all {num_replicas} replicas of \
                 the stream {name} crash at the same time, the most recent messages are lost"
            ),
            "write sync_interval: always into the block jetstream of the servers' settings (NATS 2.10 and later), \
             if they share a location or a power supply",
        )],
        DiskSync::BeforeAck => is_alone.then(alone).into_iter().collect(),
        DiskSync::Unknown => server_findings(sync, version).into_iter().chain(is_alone.then(alone)).collect(),
    }
}

/// Findings about the servers, if nothing is known about the stream.
fn server_findings(sync: DiskSync, version: &str) -> Vec<Finding> {
    match sync {
        DiskSync::BeforeAck => Vec::new(),
        DiskSync::AfterAck => vec![Finding::warning(
            "nats-sync-interval",
            format!(
                "NATS {version} acknowledges messages before they are on its disk: a crash of the machine loses the \
                 most recent messages of streams with one replica"
            ),
            SYNC_ALWAYS_ADVICE,
        )],
        DiskSync::Unknown => vec![Finding::note(
            "nats-sync-interval",
            format!(
                "NATS {version} does not reveal to this user whether messages are on the disk when it acknowledges them"
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

    fn reported(config: &str) -> Option<Value> {
        let text = format!(r#"{{"server":{{"ver":"2.11.4"}},"data":{{"config":{{{config}}},"memory":0}}}}"#);
        serde_json::from_str(&text).ok()
    }

    fn stream(storage: &str, num_replicas: usize) -> StreamConfig {
        StreamConfig { name: "SHOP".to_owned(), storage: storage.to_owned(), num_replicas }
    }

    #[test]
    fn disk_sync_is_read_from_the_server_or_derived_from_its_version() {
        let always = reported(r#""max_memory":1,"sync_interval":120000000000,"sync_always":true"#);
        assert_eq!(when_synced(always.as_ref(), "2.11.4"), DiskSync::BeforeAck);
        let usual = reported(r#""max_memory":1,"sync_interval":120000000000"#);
        assert_eq!(when_synced(usual.as_ref(), "2.11.4"), DiskSync::AfterAck);
        for (version, sync) in [
            ("2.9.10", DiskSync::AfterAck),
            ("1.4.1", DiskSync::AfterAck),
            ("2.10.0-beta", DiskSync::Unknown),
            ("2.12.1", DiskSync::Unknown),
            ("3.0.0", DiskSync::Unknown),
            ("", DiskSync::Unknown),
        ] {
            assert_eq!(when_synced(None, version), sync, "{version}");
        }
    }

    #[test]
    fn findings_depend_on_storage_replicas_and_disk_sync() {
        let seen = |stream: Option<StreamConfig>, sync| -> Vec<_> {
            let findings = findings(stream.as_ref(), sync, "2.11.4");
            findings.into_iter().map(|finding| (finding.code, finding.severity)).collect()
        };
        use Severity::{Note, Warning};
        let (sync_interval, one_replica) = ("nats-sync-interval", "nats-one-replica");
        assert_eq!(seen(Some(stream("file", 3)), DiskSync::BeforeAck), []);
        assert_eq!(seen(Some(stream("file", 3)), DiskSync::AfterAck), [(sync_interval, Note)]);
        assert_eq!(seen(Some(stream("file", 1)), DiskSync::AfterAck), [(sync_interval, Warning)]);
        assert_eq!(seen(Some(stream("file", 1)), DiskSync::BeforeAck), [(one_replica, Note)]);
        assert_eq!(
            seen(Some(stream("file", 1)), DiskSync::Unknown),
            [(sync_interval, Note), (one_replica, Note)]
        );
        assert_eq!(seen(Some(stream("memory", 3)), DiskSync::BeforeAck), [("nats-memory-stream", Warning)]);
        assert_eq!(seen(None, DiskSync::AfterAck), [(sync_interval, Warning)]);
        assert_eq!(seen(None, DiskSync::BeforeAck), []);
    }
}
