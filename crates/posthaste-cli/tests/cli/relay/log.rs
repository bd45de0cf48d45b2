//! The log: one JSON document per line when asked for, and repeats counted instead of written.

use std::net::TcpListener;

use super::process::{Relay, retry_until_ok};
use super::{ids, options};
use crate::shop::{Shop, StoreKind};

#[test]
fn log_is_a_document_per_line_when_asked_for() {
    let outbox = Shop::empty(StoreKind::Sqlite);
    let mut relay = Relay::spawn(&options(&outbox, &["--publish", "stdout:", "--log-format", "json"]));
    relay.wait_for("delivering");
    relay.signal("TERM");
    let (code, log) = relay.end();
    assert_eq!(code, Some(0), "{log}");
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(["level", "timestamp", "message"].iter().all(|key| line[key].is_string()), "{line}");
    }
}

#[test]
fn variable_without_a_level_asks_for_the_usual_one() {
    let outbox = Shop::empty(StoreKind::Sqlite);
    let options = options(&outbox, &["--publish", "stdout:"]);
    let log = Relay::start_with(&options, &[("RUST_LOG", "")]).stop();
    assert!(log.contains("INFO") && !log.contains("DEBUG"), "{log}");
}

#[test]
fn repeats_are_counted_instead_of_written() {
    let outbox = Shop::empty(StoreKind::Sqlite);
    outbox.write(&ids(0, 200));
    // Neither a topic nor a template fits: every attempt fails.
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let publish = format!("*=nats://{nobody}/orders.{{tenant_id}}");
    let mut relay = Relay::start(&options(&outbox, &["--publish", &publish]));
    retry_until_ok("all events are dead", || {
        let dead = outbox.json("status")["dead"].as_u64().unwrap_or(0);
        if dead == 200 { Ok(()) } else { Err(format!("{dead} are dead")) }
    });
    let line = relay.wait_for("log lines left out");
    assert!(line.contains("count=195") && line.contains("outbox=\"outbox\""), "{line}");
    let log = relay.stop();
    assert_eq!(log.matches("event can never be delivered").count(), 6, "five and their sum: {log}");
}
