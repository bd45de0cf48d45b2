//! What stands in the log: neither passwords nor payloads, at any level. lapin logs more than we do.

use std::process::Command;

use posthaste::{Delivery, Event, Outcome};
use posthaste_publishers::publisher;
use tracing_subscriber::filter::LevelFilter;

use super::outcome_of;
use super::queue::Queue;
use super::shared;

/// By this the child knows what to do.
const CHILD: &str = "POSTHASTE_TEST_AMQP_LOG";
const SENTINEL: &str = "s3ntinel-PW-9f";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn neither_password_nor_payload_is_logged() {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "amqp::log::child", "--ignored", "--nocapture"]).env(CHILD, "yes");
    let output = tokio::task::spawn_blocking(move || child.output()).await.expect("a wait").expect("a child");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("lapin"), "the log is on: {text}");
    for line in text.lines() {
        assert!(!line.contains(SENTINEL), "{line}");
        assert!(!line.contains(&format!("{:?}", SENTINEL.as_bytes())), "as numbers: {line}");
    }
}

/// Not a test: a process that logs everything to its standard output.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a process of other tests: cargo xtask test"]
async fn child() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).init();
    let secret = || {
        let event = Event::builder("Made").topic("secret").header("note", SENTINEL);
        Delivery::first(event.json(&SENTINEL).build().expect("a good event"))
    };
    let queue = Queue::new(&shared());
    queue.declare_with(lapin::types::FieldTable::default(), "other").await;
    let unroutable = publisher(&queue.publisher_url()).expect("a good URL");
    assert!(matches!(outcome_of(&*unroutable, secret()).await, Outcome::Retry(_)));
    let refused = publisher(&queue.publisher_url().replace("guest:guest", &format!("guest:{SENTINEL}")));
    let refused = refused.expect("a good URL");
    assert!(matches!(outcome_of(&*refused, secret()).await, Outcome::Unreachable(_)));
    let taken = publisher(&queue.direct_url()).expect("a good URL");
    let mut parts = secret().event.to_parts();
    parts.topic = None;
    assert!(matches!(outcome_of(&*taken, Delivery::first(Event::from_parts(parts))).await, Outcome::Done));
    queue.delete().await;
}
