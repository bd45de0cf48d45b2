//! What operators do with DEAD events: replay or discard them.

use posthaste::admin::{Filter, Replay};
use posthaste::{Admin, EventId, StoreError};

/// What is done with DEAD events.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum DeadAction<'a> {
    /// Sends them out again.
    Replay(Replay<'a>),
    /// Deletes them, for this actor.
    Discard(&'a str),
}

impl DeadAction<'_> {
    /// Its name in a command and in the API.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Replay(_) => "replay",
            Self::Discard(_) => "discard",
        }
    }

    /// Its name once it is over.
    pub fn past_tense(&self) -> &'static str {
        match self {
            Self::Replay(_) => "replayed",
            Self::Discard(_) => "discarded",
        }
    }

    /// Acts on one event; returns whether it was DEAD.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn one(&self, admin: &dyn Admin, id: &EventId) -> Result<bool, StoreError> {
        match self {
            Self::Replay(replay) => admin.replay(id, replay).await,
            Self::Discard(actor) => {
                let only = Filter::dead().with_id(id.clone());
                Ok(admin.discard(&only, 1, actor).await? > 0)
            }
        }
    }

    /// Acts on at most `limit` events that match; returns how many.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn some(&self, admin: &dyn Admin, filter: &Filter, limit: usize) -> Result<u64, StoreError> {
        match self {
            Self::Replay(replay) => admin.replay_all(filter, limit, replay).await,
            Self::Discard(actor) => admin.discard(filter, limit, actor).await,
        }
    }
}
