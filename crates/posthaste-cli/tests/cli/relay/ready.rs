//! Readiness: it fails while the store cannot be opened or the oldest event is too old, and recovers.

use super::file_sink::Sink;
use super::process::Relay;
use super::{ids, options};
use crate::on_stores::on_stores;
use crate::shop::{Shop, StoreKind};

on_stores!([sqlite, postgres, mysql, redis][readiness_follows_the_backlog]);

fn readiness_follows_the_backlog(kind: StoreKind) {
    let outbox = Shop::empty(kind);
    let sink = Sink::new();
    let publish = format!("*={}", sink.url("out"));
    let mut relay = Relay::start_with(
        &options(&outbox, &["--publish", &publish]),
        &[("POSTHASTE__ADMIN__READY_LAG", "1s")],
    );
    relay.wait_until("/health/ready", |response| response.status == 200);

    let paused = outbox.json("pause *");
    assert_eq!(paused["changed"], true, "{paused}");
    relay.wait_for("pause changed");
    outbox.write(&ids(0, 5));
    let late = relay.wait_until("/health/ready", |response| response.status == 503);
    assert_eq!(late.json()["outboxes"][0]["reason"], "late", "{late:?}");
    assert_eq!(relay.get("/health/live").status, 200);

    outbox.json("resume *");
    relay.wait_until("/health/ready", |response| response.status == 200);
    sink.wait_for_each_once(&["out"], &ids(0, 5));
    relay.stop();
}
