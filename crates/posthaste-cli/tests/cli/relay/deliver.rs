//! A service of any language inserts a row; the relay delivers it.

use super::any_outbox::AnyOutbox;
use super::process::Relay;
use super::sink::Sink;
use super::{ids, options};

/// What every store is asked: events that were there before, events that come while it runs, two routes, and
/// an end in good order.
fn relay_delivers(outbox: AnyOutbox) {
    let sink = Sink::new();
    let (before, after, others) = (ids(0, 50), ids(50, 50), ids(100, 10));
    outbox.write(&before);
    let made = format!("Order.Made={}", sink.url("made"));
    let rest = format!("*={}", sink.url("rest"));
    let relay = Relay::start(&options(&outbox, &["--publish", &made, "--publish", &rest]));
    sink.wait_for_each_once(&["made"], &before);
    outbox.write(&after);
    outbox.write_as("Other", &others);
    let all = [&before[..], &after].concat();
    sink.wait_for_each_once(&["made"], &all);
    sink.wait_for_each_once(&["rest"], &others);
    relay.stop();

    let status = outbox.json("status");
    assert_eq!(status["done"], 110, "{status}");
    assert_eq!(status["pending"]["new"], 0, "{status}");
    outbox.end();
}

#[test]
fn relay_delivers_from_sqlite() {
    relay_delivers(AnyOutbox::sqlite());
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
fn relay_delivers_from_postgres() {
    relay_delivers(AnyOutbox::postgres());
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn relay_delivers_from_mysql() {
    relay_delivers(AnyOutbox::mysql());
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn relay_delivers_from_redis() {
    relay_delivers(AnyOutbox::redis());
}
