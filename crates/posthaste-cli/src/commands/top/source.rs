//! Where outboxes are observed: a store, or a running relay.

use std::fmt::Debug;

use async_trait::async_trait;
use tokio::time::Instant;

use super::outbox_snapshot::{DeadEvent, DeadGroupKey, Observation};

#[async_trait]
pub(super) trait Source: Debug + Send + Sync {
    /// As people know it.
    fn label(&self) -> String;

    /// Under which name a replay is on record.
    fn actor(&self) -> String;

    /// All its outboxes.
    async fn observe(&self) -> anyhow::Result<Vec<Observation>>;

    /// The oldest events of a group.
    async fn list(&self, group: &DeadGroupKey) -> anyhow::Result<Vec<DeadEvent>>;

    /// How many events a replay of this group would send out.
    async fn count(&self, group: &DeadGroupKey) -> anyhow::Result<u64>;

    /// Replays at most so many events of a group, the oldest first, of those that were DEAD at that time if there
    /// is one; returns how many.
    async fn replay(&self, group: &DeadGroupKey, since: Option<Instant>, limit: u64) -> anyhow::Result<u64>;

    async fn close(&self) {}
}
