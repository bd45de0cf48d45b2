//! Delivery feed: broadcasts the outcome of every delivery to the followers of `tail`. Without a follower it costs one
//! load of a counter per delivery.

use posthaste::{Delivery, Interceptor, Outcome, Timestamp};
use tokio::sync::broadcast;

use crate::wire::{TailLine, Time};

/// The most lines that a follower may be behind. A slower one misses lines and gets their number.
const MAX_LINES_BEHIND: usize = 4096;

/// The deliveries of an engine as they happen. Add a clone to the engine with `interceptor`; all clones are one feed.
#[derive(Clone, Debug)]
pub struct DeliveryFeed(broadcast::Sender<TailLine>);

impl DeliveryFeed {
    /// Subscribes to every delivery from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<TailLine> {
        self.0.subscribe()
    }

    /// Sends a line to all followers. An error means that the last one has just left, and is ignored.
    pub(crate) fn send(&self, line: TailLine) {
        let _ = self.0.send(line);
    }
}

impl Default for DeliveryFeed {
    fn default() -> Self {
        Self(broadcast::Sender::new(MAX_LINES_BEHIND))
    }
}

impl Interceptor for DeliveryFeed {
    fn after(&self, delivery: &Delivery, outcome: &Outcome) {
        if self.0.receiver_count() > 0 {
            self.send(line(delivery, outcome));
        }
    }
}

fn line(delivery: &Delivery, outcome: &Outcome) -> TailLine {
    let event = &delivery.event;
    TailLine {
        at: Time(Timestamp::now()),
        id: event.id().to_string(),
        event_type: event.event_type().to_owned(),
        aggregate_type: event.aggregate_type().to_owned(),
        aggregate_id: event.aggregate_id().map(str::to_owned),
        tenant_id: event.tenant_id().map(str::to_owned),
        attempt: delivery.attempt,
        outcome: outcome.name().to_owned(),
    }
}
