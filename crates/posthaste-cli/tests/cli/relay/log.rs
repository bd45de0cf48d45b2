//! The log of a relay: one JSON document per line on request, and repeats that are counted instead of written.

use super::process::{Relay, retry_until_ok};
use super::{ids, options};
use crate::binary::unused_address;
use crate::shop::{Shop, StoreKind};

#[test]
fn json_log_is_a_document_per_line() {
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
fn empty_variable_means_the_default_level() {
    let outbox = Shop::empty(StoreKind::Sqlite);
    let options = options(&outbox, &["--publish", "stdout:"]);
    let log = Relay::start_with(&options, &[("RUST_LOG", "")]).stop();
    assert!(log.contains("INFO") && !log.contains("DEBUG"), "{log}");
}

#[test]
fn repeats_are_counted_instead_of_written() {
    let outbox = Shop::empty(StoreKind::Sqlite);
    outbox.write(&ids(0, 200));
    // Neither a topic nor the template fits, so every attempt fails.
    let publish = format!("*=nats://{}/orders.{{tenant_id}}", unused_address());
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
