//! The start: a store or a broker that is not there, a port that is taken, an address without a token.

use std::net::TcpListener;

use super::file_sink::Sink;
use super::process::Relay;
use super::{ids, options};
use crate::shop::{Shop, StoreKind};

#[test]
fn store_that_is_not_there_is_tried_again_until_it_is() {
    let (outbox, sink) = (Shop::bare(StoreKind::Sqlite), Sink::new());
    let publish = format!("*={}", sink.url("out"));
    let mut relay = Relay::start(&options(&outbox, &["--publish", &publish]));
    relay.wait_for("the store cannot be opened; trying again");
    assert_eq!(relay.get("/health/live").status, 200);
    let answer = relay.get("/health/ready");
    assert_eq!((answer.status, &answer.json()["outboxes"][0]["reason"]), (503, &"store_not_open".into()));

    let migrated = outbox.json("migrate apply");
    assert_eq!(migrated["applied"].as_array().map(Vec::is_empty), Some(false), "{migrated}");
    outbox.write(&ids(0, 3));
    sink.wait_for_each_once(&["out"], &ids(0, 3));
    relay.wait_until("/health/ready", |answer| answer.status == 200);
    relay.stop();
}

#[test]
fn fail_fast_ends_when_the_store_is_not_there() {
    let outbox = Shop::bare(StoreKind::Sqlite);
    let (code, log) = Relay::spawn(&options(&outbox, &["--publish", "stdout:", "--fail-fast"])).end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("cannot be opened"), "{log}");
}

#[test]
fn broker_that_is_not_there_is_told_and_events_wait() {
    let outbox = Shop::empty(StoreKind::Sqlite);
    let nobody =
        TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
    let publish = format!("*=redis-stream://{nobody}/0?stream=out");
    let mut relay = Relay::start(&options(&outbox, &["--publish", &publish]));
    relay.wait_for("cannot be reached");
    outbox.write(&ids(0, 3));
    relay.wait_until("/metrics", |answer| {
        answer.body.contains("outbox_breaker_open{outbox=\"outbox\",route=\"*\"} 1")
    });
    relay.stop();
    let status = outbox.json("status");
    assert_eq!((&status["pending"]["new"], &status["dead"]), (&3.into(), &0.into()), "{status}");

    let (code, log) = Relay::spawn(&options(&outbox, &["--publish", &publish, "--fail-fast"])).end();
    assert_eq!(code, Some(1), "{log}");
}

#[test]
fn missing_table_is_created_when_asked_for() {
    let (outbox, sink) = (Shop::bare(StoreKind::Sqlite), Sink::new());
    let publish = format!("*={}", sink.url("out"));
    let mut relay = Relay::start(&options(&outbox, &["--publish", &publish, "--migrate"]));
    relay.wait_for("delivering");
    outbox.write(&ids(0, 3));
    sink.wait_for_each_once(&["out"], &ids(0, 3));
    relay.stop();
}

#[test]
fn port_that_is_taken_ends_it_with_advice() {
    let outbox = Shop::empty(StoreKind::Sqlite);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let mut args = outbox.options();
    args.extend(["--listen", &address, "--publish", "stdout:"].map(str::to_owned));
    let (code, log) = Relay::spawn(&args).end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("--listen"), "{log}");
}

#[test]
fn address_that_others_can_reach_needs_a_token() {
    let outbox = Shop::empty(StoreKind::Sqlite);
    let mut args = outbox.options();
    args.extend(["--listen", "0.0.0.0:0", "--publish", "stdout:"].map(str::to_owned));
    let (code, log) = Relay::spawn(&args).end();
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("token"), "{log}");
}
