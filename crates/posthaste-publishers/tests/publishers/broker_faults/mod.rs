//! Broker faults, shared by all publishers. Each publisher implements [`Broker`] and instantiates the tests with
//! `broker_tests!`.

mod busy;
mod check;
mod conformance;
mod outage;
mod shutdown;
mod slow;

use std::collections::HashMap;

use async_trait::async_trait;
use posthaste::conformance::destination::Received;
use posthaste::{Delivery, Event, EventId};
use posthaste_testkit::server::OwnServer;

pub(crate) use busy::full_destination_spends_no_attempts;
pub(crate) use check::{
    assert_advice, assert_no_connection, assert_unreachable, check_reports_the_state_of_the_broker,
};
pub(crate) use conformance::BrokerHarness;
pub(crate) use outage::outage_of_half_a_minute_loses_nothing;
pub(crate) use shutdown::process_stopped_with_a_thousand_in_flight_loses_nothing;
pub(crate) use slow::lease_is_renewed_while_the_broker_is_slow;

/// A broker with one queue, stream or topic.
#[async_trait]
pub(crate) trait Broker: Sized + Send + Sync + 'static {
    /// A queue of its own on the shared server, which is running.
    async fn shared() -> Self;

    /// A private server, which is not started yet.
    async fn own() -> Self;

    /// Whether tests that need a private server are skipped, because none can be started on this machine.
    fn has_no_private_server() -> bool {
        false
    }

    /// The URL of a publisher whose events [`received`](Self::received) returns. It does not change.
    fn url(&self) -> String;

    /// The private server.
    fn server(&mut self) -> &mut OwnServer;

    /// Starts the private server with everything that the publisher needs (queues, streams, topics), and returns
    /// once it replies. Events that it acknowledged before it was killed are still there.
    async fn start(&mut self);

    /// All messages that a consumer sees, duplicates included, once there are at least `n` distinct ones. Reads
    /// from the beginning each time.
    async fn received(&self, n: usize) -> Vec<Received>;

    /// An event that the broker refuses while it accepts others.
    fn refused() -> Delivery;

    /// Removes the queue of this test from the shared server.
    async fn close(&self) {}
}

/// Instantiates the conformance suite and the faults as tests in the broker's module.
macro_rules! broker_tests {
    ($broker:ty, $ignored:literal) => {
        posthaste::destination_conformance!(
            $crate::broker_faults::BrokerHarness::<$broker>::new().await,
            #[ignore = $ignored]
        );
        $crate::broker_faults::broker_tests! { $broker, $ignored:
            outage_of_half_a_minute_loses_nothing
            lease_is_renewed_while_the_broker_is_slow
            process_stopped_with_a_thousand_in_flight_loses_nothing
            check_reports_the_state_of_the_broker
        }
    };
    ($broker:ty, $ignored:literal: $($fault:ident)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        #[ignore = $ignored]
        async fn $fault() {
            if !<$broker as $crate::broker_faults::Broker>::has_no_private_server() {
                $crate::broker_faults::$fault::<$broker>().await;
            }
        })*
    };
}
pub(crate) use broker_tests;

/// Events of many keys.
fn events(count: usize) -> Vec<Event> {
    let event = |n: usize| Event::builder("Made").aggregate("Thing", n % 97).json(&n).build();
    (0..count).map(|n| event(n).expect("a good event")).collect()
}

fn ids(events: &[Event]) -> Vec<EventId> {
    events.iter().map(|event| event.id().clone()).collect()
}

/// How often each event was received. Panics if one was not received at all.
fn counts(received: &[Received], sent: &[EventId]) -> HashMap<EventId, usize> {
    let mut counts: HashMap<EventId, usize> = HashMap::new();
    for message in received {
        *counts.entry(message.id.clone()).or_default() += 1;
    }
    let lost: Vec<&EventId> = sent.iter().filter(|id| !counts.contains_key(*id)).collect();
    assert!(lost.is_empty(), "{} of {} are lost, the first is {:?}", lost.len(), sent.len(), lost.first());
    counts
}
