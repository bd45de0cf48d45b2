//! Rolling restart: several relays on one outbox are replaced one by one under load.

use super::file_sink::Sink;
use super::process::Relay;
use super::{Load, ids, options};
use crate::on_stores::on_stores;
use crate::shop::{Shop, StoreKind};

on_stores!([sqlite, postgres, mysql, redis][rolling_restart_loses_and_repeats_nothing]);

/// Number of restarts of each relay.
const RESTARTS_PER_RELAY: usize = 3;

/// Two relays share the outbox while a service writes. Each is stopped and started again, one after the other. Every
/// event arrives once.
fn rolling_restart_loses_and_repeats_nothing(kind: StoreKind) {
    let outbox = Shop::empty(kind);
    let sink = Sink::new();
    let publish = format!("*={}", sink.url("out"));
    let start = || Relay::start(&options(&outbox, &["--publish", &publish]));
    let mut relays = [start(), start()];
    let load = Load::new(&outbox);
    let written = load.during(|| {
        for _ in 0..RESTARTS_PER_RELAY {
            for relay in &mut relays {
                let later = load.later();
                std::mem::replace(relay, start()).stop();
                sink.wait_for(&["out"], &later);
            }
        }
    });
    sink.wait_for(&["out"], &ids(0, written));
    for relay in relays {
        relay.stop();
    }
    sink.wait_for_each_once(&["out"], &ids(0, written));
}
