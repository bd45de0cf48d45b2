//! Where outboxes are looked at: a store, or a running relay.

use tokio::time::Instant;

use super::relay::RelaySource;
use super::seen::{DeadEvent, Group, Look};
use super::store::StoreSource;

/// Groups of DEAD events, and of pending ones: the largest are what an operator can act on.
pub(super) const GROUPS: usize = 20;

/// DEAD events of a group that are listed, the oldest.
pub(super) const EVENTS: usize = 100;

/// Events per call of a replay: each is one transaction, which must not hold others up for long.
const BATCH: u64 = 500;

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
    pub(super) async fn look(&self) -> anyhow::Result<Vec<Look>> {
        match self {
            Self::Store(store) => store.look().await,
            Self::Relay(relay) => relay.look().await,
        }
    }

    /// The oldest events of a group.
    pub(super) async fn list(&self, group: &Group) -> anyhow::Result<Vec<DeadEvent>> {
        match self {
            Self::Store(store) => store.list(group).await,
            Self::Relay(relay) => relay.list(group).await,
        }
    }

    /// How many events a replay of this group would send out.
    pub(super) async fn count(&self, group: &Group) -> anyhow::Result<u64> {
        match self {
            Self::Store(store) => store.count(group).await,
            Self::Relay(relay) => relay.count(group).await,
        }
    }

    /// Replays at most so many events of a group, the oldest first, of those that were DEAD at that time if there
    /// is one; answers how many.
    pub(super) async fn replay(
        &self,
        group: &Group,
        since: Option<Instant>,
        limit: u64,
    ) -> anyhow::Result<u64> {
        let limit = limit.min(BATCH);
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
