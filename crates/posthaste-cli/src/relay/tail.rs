//! Tells those who follow a relay what it delivers. While nobody follows, it costs one look at a counter.

use posthaste::{Delivery, Interceptor, Outcome, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

/// How many lines a follower may be behind before it misses some, and is told how many.
const BEHIND: usize = 4096;

/// A channel to all who follow. Clones are the same channel.
#[derive(Clone, Debug)]
pub(crate) struct Tail(broadcast::Sender<TailLine>);

/// One delivery: what became of one attempt. No payload, no header, no error text: the row has them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct TailLine {
    /// By the relay's clock.
    pub(crate) at: String,
    pub(crate) id: String,
    pub(crate) event_type: String,
    pub(crate) aggregate_type: String,
    pub(crate) aggregate_id: Option<String>,
    pub(crate) tenant_id: Option<String>,
    /// 1 for the first attempt.
    pub(crate) attempt: u32,
    /// `done`, `retry`, `deferred`, `dead`, `unreachable` or `busy`.
    pub(crate) outcome: String,
}

impl Tail {
    /// Everything from now on.
    pub(crate) fn follow(&self) -> broadcast::Receiver<TailLine> {
        self.0.subscribe()
    }

    /// Tells all who follow. An error would mean that the last of them has just left.
    pub(crate) fn tell(&self, line: TailLine) {
        let _ = self.0.send(line);
    }
}

impl Default for Tail {
    fn default() -> Self {
        Self(broadcast::Sender::new(BEHIND))
    }
}

impl Interceptor for Tail {
    fn after(&self, delivery: &Delivery, outcome: &Outcome) {
        if self.0.receiver_count() > 0 {
            self.tell(TailLine::of(delivery, outcome));
        }
    }
}

impl TailLine {
    fn of(delivery: &Delivery, outcome: &Outcome) -> Self {
        let event = &delivery.event;
        Self {
            at: Timestamp::now().to_string(),
            id: event.id().to_string(),
            event_type: event.event_type().to_owned(),
            aggregate_type: event.aggregate_type().to_owned(),
            aggregate_id: event.aggregate_id().map(str::to_owned),
            tenant_id: event.tenant_id().map(str::to_owned),
            attempt: delivery.attempt,
            outcome: word(outcome).to_owned(),
        }
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Retry(_) | Outcome::RetryAfter(..) => "retry",
        Outcome::Defer(_) => "deferred",
        Outcome::Dead(_) | Outcome::Unsendable(_) => "dead",
        Outcome::Unreachable(_) => "unreachable",
        Outcome::Busy(_) => "busy",
    }
}
