//! Takeover of a foreign table: two relays share it, and the one that delivers is killed.

use std::collections::BTreeMap;

use super::{ForeignTable, kafka, uuid};
use crate::on_stores::on_stores;
use crate::relay::file_sink::Sink;
use crate::relay::process::{Relay, retry_until_ok};
use crate::shop::StoreKind;

/// Number of events written before the kill, and in total.
const EVENTS_BEFORE_KILL: usize = 300;
const TOTAL_EVENTS: usize = 500;

on_stores!([postgres, mysql] [order_service_survives_a_kill, outbox_record_survives_a_kill, debezium_survives_a_kill]);

fn order_service_survives_a_kill(kind: StoreKind) {
    survives_a_kill(kind, "order-service");
}

fn outbox_record_survives_a_kill(kind: StoreKind) {
    survives_a_kill(kind, "outbox-record");
}

fn debezium_survives_a_kill(kind: StoreKind) {
    survives_a_kill(kind, "debezium");
}

/// The second relay waits until the first is killed. Every event is delivered; events that were marked as sent
/// before the kill are delivered once; no event is invented.
fn survives_a_kill(kind: StoreKind, preset: &'static str) {
    let (table, sink) = (ForeignTable::new(kind, preset), Sink::new());
    let to_kafka = preset != "debezium";
    let topic = if to_kafka { kafka::topic() } else { "OrderCreated".to_owned() };
    let publish = if to_kafka { kafka::url("{event_type}") } else { sink.url("out") };
    let mut first = Relay::start(&table.relay(&publish));
    first.wait_for("this process delivers from the table");
    let mut second = Relay::start(&table.relay(&publish));
    second.wait_for("standing by");

    (0..EVENTS_BEFORE_KILL).step_by(20).for_each(|n| table.write(n, n + 20, &topic));
    // At some point during the delivery.
    retry_until_ok("some are delivered", || {
        if table.waiting() < EVENTS_BEFORE_KILL - 50 { Ok(()) } else { Err(String::new()) }
    });
    first.signal("KILL");
    let sent_before = table.sent();
    first.end();
    (EVENTS_BEFORE_KILL..TOTAL_EVENTS).step_by(20).for_each(|n| table.write(n, n + 20, &topic));
    second.wait_for("this process delivers from the table");
    retry_until_ok("nothing waits", || match table.waiting() {
        0 => Ok(()),
        waiting => Err(format!("{waiting} wait")),
    });
    second.stop();

    let arrived: Vec<String> = match to_kafka {
        true => kafka::read(&topic).into_iter().map(|message| message.id).collect(),
        false => sink.arrived("out"),
    };
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    arrived.into_iter().for_each(|id| *counts.entry(id).or_default() += 1);
    let expected: Vec<String> = (0..TOTAL_EVENTS).map(uuid).collect();
    assert!(counts.keys().eq(expected.iter()), "{} of {TOTAL_EVENTS} arrived", counts.len());
    let twice: Vec<&String> = sent_before.iter().filter(|id| counts[*id] > 1).collect();
    assert!(twice.is_empty(), "marked as sent, but delivered again: {twice:?}");
}
