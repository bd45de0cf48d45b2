//! Every status that a row can have, from its INSERT to Kafka.

use super::kafka::{self, Message};
use super::{ForeignTable, uuid};
use crate::on_stores::on_stores;
use crate::relay::file_sink::Sink;
use crate::relay::process::{Relay, retry_until_ok};
use crate::shop::StoreKind;

fn expect_statuses(table: &ForeignTable, wanted: &str) {
    retry_until_ok("the rows have their statuses", || {
        let found = table.statuses();
        if found == wanted { Ok(()) } else { Err(found) }
    });
}

fn message(n: usize) -> Message {
    Message { key: uuid(n % 5), id: uuid(n) }
}

fn sorted(mut messages: Vec<Message>) -> Vec<Message> {
    messages.sort_by(|a, b| a.id.cmp(&b.id));
    messages
}

on_stores!([postgres, mysql] [
    order_service_passes_every_status,
    outbox_record_passes_every_status,
    debezium_rows_are_delivered_and_deleted
]);

// S4-01, S4-11, S4-12
fn order_service_passes_every_status(kind: StoreKind) {
    passes_every_status(kind, "order-service", "NEW", "0");
}

// S0-17, S0-27
fn outbox_record_passes_every_status(kind: StoreKind) {
    passes_every_status(kind, "outbox-record", "PENDING", "3");
}

/// Two events go to an existing topic and one to a missing one: two are sent, and one is FAILED after its attempts.
/// Then an operator creates the topic and replays the event: it is pending, and then sent.
fn passes_every_status(kind: StoreKind, preset: &'static str, pending: &str, attempts: &str) {
    if kafka::is_mock() {
        return;
    }
    let (topic, missing) = (kafka::topic(), kafka::missing_topic());
    let table = ForeignTable::new(kind, preset);
    table.write(0, 2, &topic);
    table.write(2, 3, &missing);
    assert_eq!(table.statuses(), [pending; 3].join(" "));

    let options = table.relay(&kafka::url("{event_type}"));
    let three = [("POSTHASTE__OUTBOX__OUTBOX__RETRY__MAX_ATTEMPTS", "3")];
    let relay = match preset {
        "outbox-record" => Relay::start_with(&options, &three),
        _ => Relay::start(&options),
    };
    expect_statuses(&table, "SENT SENT FAILED");
    let dead = table.json("dead list");
    let row = &dead["events"][0];
    assert_eq!((row["id"].as_str(), row["status"].as_str()), (Some(&*uuid(2)), Some("DEAD")), "{dead}");
    assert!(row["last_error"].as_str().is_some_and(|error| error.contains("topic")), "{dead}");
    assert_eq!(row["attempts"].to_string(), attempts);
    let stats = table.json("status");
    assert_eq!((stats["done"].as_u64(), stats["dead"].as_u64()), (Some(2), Some(1)), "{stats}");

    kafka::create(&missing);
    let output = table.run("dead replay --all --yes");
    assert_eq!(output.code, 0, "{output}");
    assert!(
        output.stderr.contains("an operator changed events") && output.stderr.contains("cli:ann"),
        "{output}"
    );
    expect_statuses(&table, "SENT SENT SENT");
    let log = relay.stop();
    assert!(log.contains("one relay at a time delivers from this table"), "the limitation is logged: {log}");
    assert_eq!(sorted(kafka::read(&topic)), [message(0), message(1)]);
    assert_eq!(kafka::read(&missing), [message(2)]);
}

/// Rows are deleted after their delivery.
fn debezium_rows_are_delivered_and_deleted(kind: StoreKind) {
    let (table, sink) = (ForeignTable::new(kind, "debezium"), Sink::new());
    table.write(0, 20, "OrderCreated");
    let relay = Relay::start(&table.relay(&sink.url("out")));
    let ids: Vec<String> = (0..20).map(uuid).collect();
    sink.wait_for_each_once(&["out"], &ids);
    retry_until_ok("the rows are gone", || if table.waiting() == 0 { Ok(()) } else { Err(String::new()) });
    let log = relay.stop();
    assert!(log.contains("delivered rows are deleted immediately"), "{log}");
}
