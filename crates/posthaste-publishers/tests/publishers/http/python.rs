//! A foreign receiver: Python's own HTTP server reads the requests and its hmac module verifies the signatures.

use std::process::{Command, Stdio};

use posthaste::{Delivery, Event};
use posthaste_publishers::Format;
use posthaste_publishers::http::HttpPublisher;
use posthaste_testkit::server::OwnServer;
use serde_json::Value;

use super::local;
use crate::delivery::{assert_all_delivered, deliver_one, text_of};

const RECEIVER_SCRIPT: &str = include_str!("receiver.py");
const OLD_KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW_KEY: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD+XD6Y3T9nP8=";

struct Python {
    server: OwnServer,
}

impl Python {
    /// Starts a receiver with this key.
    async fn start(key: &'static str) -> Self {
        let python = std::env::var("POSTHASTE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let mut server = OwnServer::new(move |folder, port| {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig=KILL", "--", &python, "-c", RECEIVER_SCRIPT, &port.to_string(), key]);
            command.arg(folder.join("taken.jsonl")).stdin(Stdio::null());
            command
        });
        server.listen().await;
        Self { server }
    }

    fn hooks(&self, keys: (&str, Option<&str>)) -> HttpPublisher {
        let hooks = local(&format!("http://127.0.0.1:{}/hooks", self.server.port()));
        let hooks = hooks.format(Format::CloudEvents).signing_key(keys.0);
        let hooks = match keys.1 {
            Some(key) => hooks.previous_signing_key(key),
            None => hooks,
        };
        hooks.build().expect("good settings")
    }

    fn accepted(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.server.dir().join("taken.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

fn event(n: usize) -> Delivery {
    let event = Event::builder("Größe").aggregate("注文", format!("№ {}", n % 5)).header("note", "plain");
    Delivery::first(event.json(&format!("日本語 {n}")).build().expect("a good event"))
}

// S8
#[tokio::test]
#[ignore = "needs python3: cargo xtask test"]
async fn python_reads_the_events_and_verifies_the_signatures() {
    let python = Python::start(NEW_KEY).await;
    let batch: Vec<Delivery> = (0..50).map(event).collect();
    assert_all_delivered(&python.hooks((NEW_KEY, None)), &batch).await;
    let accepted = python.accepted();
    assert_eq!(accepted.len(), batch.len());
    for delivery in &batch {
        let line =
            accepted.iter().find(|line| line["ce-id"] == delivery.id().as_str()).expect("it was accepted");
        assert_eq!(line["ce-type"], "Größe");
        assert_eq!(line["ce-subject"], delivery.aggregate_id().expect("a key"));
        assert_eq!(line["ce-specversion"], "1.0");
        assert_eq!(line["body"].as_str().map(str::as_bytes), Some(&delivery.payload()[..]));
    }
}

// S8
#[tokio::test]
#[ignore = "needs python3: cargo xtask test"]
async fn receiver_with_the_previous_key_works_during_a_key_change() {
    let python = Python::start(OLD_KEY).await;
    assert_all_delivered(&python.hooks((OLD_KEY, None)), &[event(1)]).await;
    assert_all_delivered(&python.hooks((NEW_KEY, Some(OLD_KEY))), &[event(2)]).await;
    let text = text_of("retry", &deliver_one(&python.hooks((NEW_KEY, None)), event(3)).await);
    assert!(text.contains("responded with 401: it refuses our credentials, check the signing key"), "{text}");
    assert_eq!(python.accepted().len(), 2);
}
