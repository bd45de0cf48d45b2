//! Webhooks: the suite and the brokers' faults on a receiver in a process of its own, and what only HTTP can
//! get wrong on receivers that do odd things.

/// Settings, order, concurrency, connections.
mod behaviour;
/// Receivers that answer oddly or not at all.
mod misbehaving;
/// A receiver that nobody here wrote: Python's own server and cryptography.
mod python;
/// The receiver that keeps what it gets.
mod receiver;
/// Certificates that are good, and those that are not.
mod tls;
/// Just enough of HTTP to answer as no good server would.
mod wire;

use posthaste::{Delivery, Event};
use posthaste_publishers::http::{HttpBuilder, HttpPublisher};

use self::receiver::Receiver;
use crate::broker_faults::{broker_tests, lets_nobody_in};

/// Webhooks to this machine.
pub(crate) fn local(url: &str) -> HttpBuilder {
    HttpPublisher::builder(url).allow_http().allow_networks(["127.0.0.0/8", "::1"])
}

/// An event without a key.
fn event(n: usize) -> Delivery {
    Delivery::first(Event::json("Made", &n).expect("a good event"))
}

fn event_of(key: &str, n: usize) -> Delivery {
    let event = Event::builder("Made").aggregate("Thing", key).json(&n).build();
    Delivery::first(event.expect("a good event"))
}

broker_tests!(Receiver, "takes up to a minute: cargo xtask test");

#[tokio::test]
async fn check_says_that_a_host_has_no_address() {
    let text = lets_nobody_in("https://me:s3ntinel-PW-9f@no-such-host.invalid/s3ntinel-PW-9f").await;
    assert!(text.starts_with("cannot connect to https://no-such-host.invalid: "), "{text}");
}
