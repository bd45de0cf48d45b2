//! Where outboxes are observed: a store, or a running relay.

use tokio::time::Instant;

use super::relay::RelaySource;
use super::snapshot::{DeadEvent, DeadGroupKey, Observation};
use super::store::StoreSource;

/// Events per call of a replay: each is one transaction, which must not hold others up for long.
const REPLAY_BATCH_EVENTS: u64 = 500;

#[derive(Debug)]
pub(super) enum Source {
    Store(StoreSource),
    Relay(RelaySource),
}

impl Source {
    /// As people know it.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Store(store) => store.label(),
            Self::Relay(relay) => relay.label(),
        }
    }

    /// Under which name a replay is on record.
    pub(super) fn actor(&self) -> String {
        match self {
            Self::Store(store) => store.actor().to_owned(),
            Self::Relay(relay) => relay.actor(),
        }
    }

    /// All its outboxes.
    pub(super) async fn observe(&self) -> anyhow::Result<Vec<Observation>> {
        match self {
            Self::Store(store) => store.observe().await,
            Self::Relay(relay) => relay.observe().await,
        }
    }

    /// The oldest events of a group.
    pub(super) async fn list(&self, group: &DeadGroupKey) -> anyhow::Result<Vec<DeadEvent>> {
        match self {
            Self::Store(store) => store.list(group).await,
            Self::Relay(relay) => relay.list(group).await,
        }
    }

    /// How many events a replay of this group would send out.
    pub(super) async fn count(&self, group: &DeadGroupKey) -> anyhow::Result<u64> {
        match self {
            Self::Store(store) => store.count(group).await,
            Self::Relay(relay) => relay.count(group).await,
        }
    }

    /// Replays at most so many events of a group, the oldest first, of those that were DEAD at that time if there
    /// is one; answers how many.
    pub(super) async fn replay(
        &self,
        group: &DeadGroupKey,
        since: Option<Instant>,
        limit: u64,
    ) -> anyhow::Result<u64> {
        let limit = limit.min(REPLAY_BATCH_EVENTS);
        match self {
            Self::Store(store) => store.replay(group, since, limit).await,
            Self::Relay(relay) => relay.replay(group, since, limit).await,
        }
    }

    pub(super) async fn close(&self) {
        if let Self::Store(store) = self {
            store.close().await;
        }
    }
}
