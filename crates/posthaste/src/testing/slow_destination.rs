//! A destination with slow calls.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;

use crate::destination::{Delivery, Destination, Outcome, Profile};

/// A destination whose calls take this long, on Tokio's clock, before another destination gets the events.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Slow<D> {
    /// How long each call takes.
    pub takes: Duration,
    /// The destination that gets the events then.
    pub inner: D,
}

impl<D: Destination> Slow<D> {
    /// Delays every call of `destination` by `takes`.
    pub fn new(takes: Duration, destination: D) -> Self {
        Self { takes, inner: destination }
    }
}

#[async_trait]
impl<D: Destination> Destination for Slow<D> {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        sleep(self.takes).await;
        self.inner.deliver(batch).await
    }

    fn profile(&self) -> Profile {
        self.inner.profile()
    }
}
