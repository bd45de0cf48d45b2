//! What goes wrong with brokers, once for all publishers: each brings a [`Broker`], and calls these.

mod busy;
mod check;
mod outage;
mod shutdown;
mod slow;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use posthaste::{Event, EventId};
use posthaste_publishers::Publisher;

pub(crate) use busy::destination_is_full_for_a_while;
pub(crate) use check::{broker_is_checked, is_out_of_reach, one_line_that_advises};
pub(crate) use outage::broker_is_killed_for_half_a_minute;
pub(crate) use shutdown::process_is_asked_to_stop_with_a_thousand_in_flight;
pub(crate) use slow::broker_answers_later_than_the_lease_ends;

/// A broker that nobody else uses.
#[async_trait]
pub(crate) trait Broker: Send + Sync {
    /// The URL of a publisher whose events [`received`](Self::received) sees. It is the same throughout.
    fn url(&self) -> String;

    /// Starts it, with all that the publisher needs in it (queues, streams, topics), and returns when it
    /// answers. What it acknowledged before it was killed is still there.
    async fn start(&mut self);

    /// Ends it where it stands: kill -9.
    fn kill(&mut self);

    /// Suspends it: it keeps its connections, and answers nothing.
    fn suspend(&self);

    /// Lets it go on.
    fn resume(&self);

    /// The ids of all messages that a consumer sees, repeats included, once there are at least `n`
    /// different ones. Reads from the beginning each time.
    async fn received(&self, n: usize) -> Vec<EventId>;
}

fn publisher(url: &str) -> Arc<dyn Publisher> {
    // A URL alone is not enough to let webhooks go to this machine.
    #[cfg(feature = "http")]
    if url.starts_with("http:") {
        return Arc::new(crate::http::local(url).build().expect("a good URL"));
    }
    posthaste_publishers::publisher(url).expect("a good URL")
}

/// Events of many keys.
fn events(count: usize) -> Vec<Event> {
    let event = |n: usize| Event::builder("Made").aggregate("Thing", n % 97).json(&n).build();
    (0..count).map(|n| event(n).expect("a good event")).collect()
}

fn ids(events: &[Event]) -> Vec<EventId> {
    events.iter().map(|event| event.id().clone()).collect()
}

/// How often each of them was received; each was, at least once.
fn counts(received: &[EventId], sent: &[EventId]) -> HashMap<EventId, usize> {
    let mut counts: HashMap<EventId, usize> = HashMap::new();
    for id in received {
        *counts.entry(id.clone()).or_default() += 1;
    }
    let lost: Vec<&EventId> = sent.iter().filter(|id| !counts.contains_key(*id)).collect();
    assert!(lost.is_empty(), "{} of {} are lost, the first is {:?}", lost.len(), sent.len(), lost.first());
    counts
}
