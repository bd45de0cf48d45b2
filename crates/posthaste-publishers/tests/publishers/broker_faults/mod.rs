//! What goes wrong with brokers, once for all publishers: each brings a [`Broker`], and calls these.

mod busy;
mod check;
mod outage;
mod shutdown;
mod slow;
mod suite;

use std::collections::HashMap;

use async_trait::async_trait;
use posthaste::conformance::destination::Received;
use posthaste::{Delivery, Event, EventId};
use posthaste_testkit::server::OwnServer;

pub(crate) use busy::destination_is_full_for_a_while;
pub(crate) use check::{broker_is_checked, is_out_of_reach, lets_nobody_in, one_line_that_advises};
pub(crate) use outage::broker_is_killed_for_half_a_minute;
pub(crate) use shutdown::process_is_asked_to_stop_with_a_thousand_in_flight;
pub(crate) use slow::broker_answers_later_than_the_lease_ends;
pub(crate) use suite::Suite;

/// A broker with one queue, stream or topic.
#[async_trait]
pub(crate) trait Broker: Sized + Send + Sync + 'static {
    /// On the server that all tests share, with a queue that nobody else uses. It runs.
    async fn shared() -> Self;

    /// On a server of its own, which does not run yet.
    async fn own() -> Self;

    /// Whether there is no server of its own to be had, so that the tests that want one are left out.
    fn is_left_out() -> bool {
        false
    }

    /// The URL of a publisher whose events [`received`](Self::received) sees. It is the same throughout.
    fn url(&self) -> String;

    /// Its own server.
    fn server(&mut self) -> &mut OwnServer;

    /// Starts it, with all that the publisher needs in it (queues, streams, topics), and returns when it
    /// answers. What it acknowledged before it was killed is still there.
    async fn start(&mut self);

    /// All messages that a consumer sees, repeats included, once there are at least `n` different ones.
    /// Reads from the beginning each time.
    async fn received(&self, n: usize) -> Vec<Received>;

    /// An event that it refuses while it takes others.
    fn refused() -> Delivery;

    /// Removes what a test left behind on the shared server.
    async fn close(&self) {}
}

/// The suite and the faults as tests of this broker's module.
macro_rules! broker_tests {
    ($broker:ty, $ignored:literal) => {
        posthaste::destination_conformance!(
            $crate::broker_faults::Suite::<$broker>::new().await,
            #[ignore = $ignored]
        );
        $crate::broker_faults::broker_tests! { $broker, $ignored:
            broker_is_killed_for_half_a_minute
            broker_answers_later_than_the_lease_ends
            process_is_asked_to_stop_with_a_thousand_in_flight
            broker_is_checked
        }
    };
    ($broker:ty, $ignored:literal: $($fault:ident)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        #[ignore = $ignored]
        async fn $fault() {
            if !<$broker as $crate::broker_faults::Broker>::is_left_out() {
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

/// How often each of them was received; each was, at least once.
fn counts(received: &[Received], sent: &[EventId]) -> HashMap<EventId, usize> {
    let mut counts: HashMap<EventId, usize> = HashMap::new();
    for message in received {
        *counts.entry(message.id.clone()).or_default() += 1;
    }
    let lost: Vec<&EventId> = sent.iter().filter(|id| !counts.contains_key(*id)).collect();
    assert!(lost.is_empty(), "{} of {} are lost, the first is {:?}", lost.len(), sent.len(), lost.first());
    counts
}
