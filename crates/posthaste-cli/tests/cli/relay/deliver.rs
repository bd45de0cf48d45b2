//! A service of any language inserts a row, and the relay delivers it.

use super::file_sink::Sink;
use super::process::Relay;
use super::{ids, options};
use crate::on_stores::on_stores;
use crate::shop::{Shop, StoreKind};

on_stores!([sqlite, postgres, mysql, redis][relay_delivers]);

/// The relay delivers events written before and during its run, on two routes, and stops gracefully.
fn relay_delivers(kind: StoreKind) {
    let outbox = Shop::empty(kind);
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
}
