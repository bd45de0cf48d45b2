//! Counts the deliveries of a destination, and detects failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use posthaste::{Delivery, Destination, Outcome, Profile};
use tokio::sync::watch;

/// A destination whose deliveries are counted.
#[derive(Clone)]
pub(super) struct CountingDestination {
    inner: Arc<dyn Destination>,
    delivered: Arc<AtomicU64>,
    expected: u64,
    state: Arc<watch::Sender<DeliveryState>>,
}

/// State of the deliveries: how many there were, or why one failed.
#[derive(Clone, Debug)]
enum DeliveryState {
    Delivered(u64),
    Failed(String),
}

impl CountingDestination {
    pub(super) fn new(inner: Arc<dyn Destination>, expected: u64) -> Self {
        let state = Arc::new(watch::Sender::new(DeliveryState::Delivered(0)));
        Self { inner, delivered: Arc::default(), expected, state }
    }

    /// Waits until `count` events are delivered. Fails after the first failed delivery: a benchmark does not wait for a
    /// broker to recover.
    pub(super) async fn delivered(&self, count: u64) -> anyhow::Result<()> {
        let mut states = self.state.subscribe();
        let is_over = |state: &DeliveryState| match state {
            DeliveryState::Delivered(delivered) => *delivered >= count,
            DeliveryState::Failed(_) => true,
        };
        match &*states.wait_for(is_over).await? {
            DeliveryState::Delivered(_) => Ok(()),
            DeliveryState::Failed(why) => anyhow::bail!("an event was not delivered: {why}"),
        }
    }

    fn count(&self, outcomes: &[Outcome]) {
        let failed = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Done { .. } => None,
            Outcome::Dead(reason) | Outcome::Unsendable(reason) => Some(reason.clone()),
            Outcome::Failed(error) | Outcome::FailedWithDelay(_, error) => Some(error.to_string()),
            Outcome::Unreachable(unreachable) => Some(unreachable.error.to_string()),
            Outcome::Busy(busy) => Some(busy.error.to_string()),
            other => Some(format!("{other:?}")),
        });
        let more = outcomes.len() as u64;
        let delivered = self.delivered.fetch_add(more, Ordering::Relaxed) + more;
        // Notifying the waiter of every batch would distort the measurement.
        let tenth = (self.expected / 10).max(1);
        let is_news = delivered >= self.expected || delivered / tenth > (delivered - more) / tenth;
        match failed {
            Some(why) => drop(self.state.send_replace(DeliveryState::Failed(why))),
            None if is_news => {
                self.state.send_if_modified(|state| match state {
                    DeliveryState::Delivered(before) if *before < delivered => {
                        *before = delivered;
                        true
                    }
                    _ => false,
                });
            }
            None => {}
        }
    }
}

#[async_trait]
impl Destination for CountingDestination {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let outcomes = self.inner.deliver(batch).await;
        self.count(&outcomes);
        outcomes
    }

    fn profile(&self) -> Profile {
        self.inner.profile()
    }
}

#[cfg(test)]
mod tests {
    use posthaste::Recorder;

    use super::*;

    #[tokio::test]
    async fn failure_ends_the_wait() {
        let destination =
            CountingDestination::new(Arc::new(Recorder::with(|_| Outcome::Dead("no".to_owned()))), 2);
        let event = posthaste::Event::json("Made", &1).unwrap();
        destination.deliver(&[Delivery::first(event)]).await;
        let error = destination.delivered(2).await.unwrap_err();
        assert_eq!(error.to_string(), "an event was not delivered: no");
    }

    #[tokio::test]
    async fn wait_ends_with_the_last_delivery() {
        let destination = CountingDestination::new(Arc::new(Recorder::new()), 2);
        let deliver = async || {
            let event = posthaste::Event::json("Made", &1).unwrap();
            destination.deliver(&[Delivery::first(event)]).await;
        };
        deliver().await;
        assert!(tokio::time::timeout(std::time::Duration::ZERO, destination.delivered(2)).await.is_err());
        deliver().await;
        destination.delivered(2).await.unwrap();
    }
}
