//! Webhooks: the conformance suite and the broker faults on a receiver process, and cases that only HTTP has on
//! faulty receivers.

/// Faulty receivers.
mod faulty_receivers;
/// A foreign receiver: Python's own HTTP server and hmac.
mod python;
/// Helper: a receiver process that records requests.
mod receiver;
/// Contents, order and concurrency of requests.
mod requests;
/// Certificates.
mod tls;
/// Helper: an HTTP server that sends arbitrary bytes.
mod wire;

use posthaste::{Delivery, Event};
use posthaste_publishers::http::{HttpBuilder, HttpPublisher};

use self::receiver::Receiver;
use crate::broker_faults::{assert_no_connection, broker_tests};

/// A builder of webhooks to this machine.
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
async fn check_fails_for_a_host_without_an_address() {
    let text = assert_no_connection("https://me:s3ntinel-PW-9f@no-such-host.invalid/s3ntinel-PW-9f").await;
    assert!(text.starts_with("cannot connect to https://no-such-host.invalid: "), "{text}");
}
