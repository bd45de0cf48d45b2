//! What stands in the log: neither passwords nor payloads, at any level. The client library logs as well, and at
//! TRACE it tells the headers; docs/nats.md says so.

use std::process::Command;

use posthaste::{Event, Outcome};
use tracing_subscriber::filter::LevelFilter;

use super::server::{NatsServer, Stream};
use super::{built, deliver_one};

/// By this the child knows what to do.
const CHILD: &str = "POSTHASTE_TEST_NATS_LOG";
const SENTINEL: &str = "s3ntinel-PW-9f";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs NATS: cargo xtask test"]
async fn neither_password_nor_payload_is_logged() {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "nats::log::child", "--ignored", "--nocapture"]).env(CHILD, "yes");
    let output = tokio::task::spawn_blocking(move || child.output()).await.expect("a wait").expect("a child");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("async_nats"), "the log is on: {text}");
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
    let mut server =
        NatsServer::new(&format!("authorization {{ users = [ {{ user: me, password: \"{SENTINEL}\" }} ] }}"));
    server.start().await;
    let host = format!("127.0.0.1:{}", server.port());
    Stream::new(format!("nats://me:{SENTINEL}@{host}"), "door").create().await;
    tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).init();
    let secret = || Event::builder("Made").json(&SENTINEL).build().expect("a good event");
    let taken = built(&format!("nats://me:{SENTINEL}@{host}/door.orders"));
    assert!(matches!(deliver_one(&taken, secret()).await, Outcome::Done));
    let nowhere = built(&format!("nats://me:{SENTINEL}@{host}/nobody"));
    assert!(matches!(deliver_one(&nowhere, secret()).await, Outcome::Retry(_)));
    for login in
        [format!("me:not-{SENTINEL}@{host}/door.orders"), format!("{host}/door.orders?token={SENTINEL}")]
    {
        let refused = built(&format!("nats://{login}"));
        assert!(matches!(deliver_one(&refused, secret()).await, Outcome::Unreachable(_)));
    }
}
