//! JSON lines: the conformance suite on a file, and cases that only files have.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste::conformance::destination::{DestinationCapabilities, DestinationHarness, Received, Server};
use posthaste::{Delivery, Destination, Event};
use posthaste_publishers::Publisher as _;
use posthaste_publishers::lines::LinesPublisher;
use serde_json::Value;
use tempfile::TempDir;

use crate::broker_faults::assert_advice;
use crate::delivery::{assert_all_delivered, deliver_one, text_of};

struct LinesFile {
    folder: TempDir,
}

impl LinesFile {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("events.jsonl")
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path()).expect("a file");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

fn received(line: Value) -> Received {
    let text = |name: &str| line[name].as_str().map(str::to_owned);
    let payload = match text("payload_base64") {
        Some(base64) => STANDARD.decode(base64).expect("base64"),
        None => serde_json::to_vec(&line["payload"]).expect("JSON"),
    };
    let headers = serde_json::from_value(line["headers"].clone()).expect("headers");
    Received::new(text("id").expect("an id"), payload).with_key(text("aggregate_id")).with_headers(headers)
}

#[async_trait]
impl DestinationHarness for LinesFile {
    fn destination(&self) -> Arc<dyn Destination> {
        Arc::new(LinesPublisher::file(self.path()))
    }

    async fn received(&self, _: usize) -> Vec<Received> {
        self.lines().into_iter().map(received).collect()
    }

    fn refused(&self) -> Option<Event> {
        None
    }

    fn too_large(&self) -> Option<Event> {
        None
    }

    fn server(&self) -> Option<&dyn Server> {
        None
    }

    fn capabilities(&self) -> DestinationCapabilities {
        DestinationCapabilities::ALL
    }

    async fn close(&self) {}
}

posthaste::destination_conformance!(LinesFile::new());

fn event(json: &str) -> Delivery {
    Delivery::first(Event::builder("Made").json_text(json).build().expect("a good event"))
}

#[tokio::test]
async fn payload_with_line_breaks_is_written_as_one_line() {
    let lines = LinesFile::new();
    assert_all_delivered(&lines.destination(), &[event("{\n  \"a\": \"x\\ny\"\r\n}")]).await;
    assert_eq!(lines.lines()[0]["payload"]["a"], "x\ny");
}

#[tokio::test]
async fn file_that_was_moved_away_is_created_again() {
    let lines = LinesFile::new();
    let destination = LinesPublisher::file(lines.path()).fsync(true);
    destination.deliver(&[event("1")]).await;
    std::fs::rename(lines.path(), lines.folder.path().join("old")).expect("moved");
    destination.deliver(&[event("2")]).await;
    assert_eq!(lines.lines().len(), 1);
    assert_eq!(lines.lines()[0]["payload"], 2);
}

/// Otherwise every user of the host could read the payloads.
#[cfg(unix)]
#[tokio::test]
async fn new_file_is_private_and_an_existing_one_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let lines = LinesFile::new();
    let mode = || lines.path().metadata().expect("a file").permissions().mode() & 0o777;
    let destination = LinesPublisher::file(lines.path());
    destination.deliver(&[event("1")]).await;
    assert_eq!(mode() & !0o640, 0, "{:o}", mode());
    std::fs::set_permissions(lines.path(), std::fs::Permissions::from_mode(0o604)).expect("another mode");
    destination.deliver(&[event("2")]).await;
    assert_eq!(mode(), 0o604);
}

#[tokio::test]
async fn path_that_cannot_be_written_is_unreachable() {
    let lines = LinesFile::new();
    // The path is a folder, to which not even root can write lines.
    let destination = LinesPublisher::file(lines.folder.path());
    text_of("no connection", &deliver_one(&destination, event("1")).await);
}

#[tokio::test]
async fn check_reports_whether_lines_can_be_written_and_creates_no_file() {
    let lines = LinesFile::new();
    let check = async |path: PathBuf| LinesPublisher::file(path).check().await;
    assert_eq!(check(lines.path()).await, Ok(()));
    assert!(!lines.path().exists(), "the first event creates it");
    std::fs::write(lines.path(), "1\n").expect("a file");
    assert_eq!(check(lines.path()).await, Ok(()));
    assert_eq!(std::fs::read_to_string(lines.path()).expect("a file"), "1\n");
    assert_eq!(LinesPublisher::stdout().check().await, Ok(()));
    for nowhere in
        [lines.folder.path().to_owned(), lines.folder.path().join("no/such"), lines.path().join("x")]
    {
        let text = assert_advice(check(nowhere).await.expect_err("nothing can be written there"));
        assert!(text.starts_with("no line can be written: check the path and its permissions: "), "{text}");
    }
}

#[tokio::test]
async fn full_disk_is_unreachable() {
    let text = text_of("no connection", &deliver_one(&LinesPublisher::file("/dev/full"), event("1")).await);
    assert!(text.starts_with("no line can be written: "), "{text}");
}

#[test]
fn url_sets_the_output_and_the_format() {
    for url in [
        "stdout:",
        "stdout://?format=envelope",
        "file:///tmp/x.jsonl?fsync=true&format=cloudevents-structured",
    ] {
        assert!(posthaste_publishers::publisher(url).is_ok(), "{url}");
    }
    for (url, text) in [
        ("file://tmp/x", "lines: write a file as file:///path, with three slashes"),
        ("stdout:?format=raw", "lines: a line is JSON: the format is envelope or cloudevents-structured"),
        ("stdout:?fsync=true", "lines: the URL has an unknown parameter: it takes format"),
        ("file:///x?fsync=maybe", "lines: `fsync` of the URL must be true or false"),
        (
            "ftp://x",
            "publisher: the URL has an unknown scheme: write one of kafka, amqp, amqps, nats, tls, redis-stream, rediss-stream, http, https, stdout, file",
        ),
    ] {
        let error = posthaste_publishers::publisher(url).expect_err(url);
        assert_eq!(error.to_string(), text, "{url}");
    }
}
