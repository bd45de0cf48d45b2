//! Start of a relay: a missing store or broker, a port in use, an address without a token.

use std::net::TcpListener;

use super::file_sink::Sink;
use super::process::Relay;
use super::{ids, options};
use crate::binary::unused_address;
use crate::shop::{Shop, StoreKind};

#[test]
fn missing_store_is_retried_until_it_exists() {
    let (outbox, sink) = (Shop::bare(StoreKind::Sqlite), Sink::new());
    let publish = format!("*={}", sink.url("out"));
    let mut relay = Relay::start(&options(&outbox, &["--publish", &publish]));
    relay.wait_for("the store cannot be opened; trying again");
    assert_eq!(relay.get("/health/live").status, 200);
    let response = relay.get("/health/ready");
    assert_eq!((response.status, &response.json()["outboxes"][0]["reason"]), (503, &"store_not_open".into()));

    let migrated = outbox.json("migrate apply");
    assert_eq!(migrated["applied"].as_array().map(Vec::is_empty), Some(false), "{migrated}");
    outbox.write(&ids(0, 3));
    sink.wait_for_each_once(&["out"], &ids(0, 3));
    relay.wait_until("/health/ready", |response| response.status == 200);
    relay.stop();
}

#[test]
fn fail_fast_exits_if_the_store_is_missing() {
    let outbox = Shop::bare(StoreKind::Sqlite);
    let (code, log) = Relay::spawn(&options(&outbox, &["--publish", "stdout:", "--fail-fast"])).end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("cannot be opened"), "{log}");
}

#[test]
fn unreachable_broker_is_logged_and_events_wait() {
    let outbox = Shop::empty(StoreKind::Sqlite);
    let publish = format!("*=redis-stream://{}/0?stream=out", unused_address());
    let mut relay = Relay::start(&options(&outbox, &["--publish", &publish]));
    relay.wait_for("cannot be reached");
    outbox.write(&ids(0, 3));
    relay.wait_until("/metrics", |response| {
        response.body.contains("outbox_breaker_open{outbox=\"outbox\",route=\"*\"} 1")
    });
    relay.stop();
    let status = outbox.json("status");
    assert_eq!((&status["pending"]["new"], &status["dead"]), (&3.into(), &0.into()), "{status}");

    let (code, log) = Relay::spawn(&options(&outbox, &["--publish", &publish, "--fail-fast"])).end();
    assert_eq!(code, Some(1), "{log}");
}

#[test]
fn missing_table_is_created_with_migrate() {
    let (outbox, sink) = (Shop::bare(StoreKind::Sqlite), Sink::new());
    let publish = format!("*={}", sink.url("out"));
    let mut relay = Relay::start(&options(&outbox, &["--publish", &publish, "--migrate"]));
    relay.wait_for("delivering");
    outbox.write(&ids(0, 3));
    sink.wait_for_each_once(&["out"], &ids(0, 3));
    relay.stop();
}

#[test]
fn port_in_use_fails_with_advice() {
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
fn public_address_needs_a_token() {
    let outbox = Shop::empty(StoreKind::Sqlite);
    let mut args = outbox.options();
    args.extend(["--listen", "0.0.0.0:0", "--publish", "stdout:"].map(str::to_owned));
    let (code, log) = Relay::spawn(&args).end();
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("token"), "{log}");
}
