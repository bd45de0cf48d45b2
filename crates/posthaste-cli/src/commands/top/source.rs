//! A source of observations: a store, or a running relay.

use std::fmt::Debug;

use async_trait::async_trait;
use tokio::time::Instant;

use super::outbox_snapshot::{DeadEvent, DeadGroupKey, Observation};

/// Something that `top` observes. It may have several outboxes.
#[async_trait]
pub(super) trait Source: Debug + Send + Sync {
    /// The name on the screen.
    fn label(&self) -> String;

    /// The name under which a replay is recorded in the audit.
    fn actor(&self) -> String;

    /// Observes all its outboxes.
    async fn observe(&self) -> anyhow::Result<Vec<Observation>>;

    /// Lists the oldest events of a group.
    async fn list(&self, group: &DeadGroupKey) -> anyhow::Result<Vec<DeadEvent>>;

    /// Counts the events that a replay of this group would send out.
    async fn count(&self, group: &DeadGroupKey) -> anyhow::Result<u64>;

    /// Replays at most `limit` events of a group, the oldest first, and returns how many. With `since`, only events
    /// that were already DEAD at that time.
    async fn replay(&self, group: &DeadGroupKey, since: Option<Instant>, limit: u64) -> anyhow::Result<u64>;

    /// Disconnects.
    async fn close(&self) {}
}
