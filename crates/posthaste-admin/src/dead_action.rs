//! Actions of operators on DEAD events: replay and discard.

use posthaste::admin::{Filter, Replay};
use posthaste::{Admin, EventId, StoreError};

/// An action on DEAD events.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum DeadAction<'a> {
    /// Delivers them again.
    Replay(Replay<'a>),
    /// Deletes them. The actor is put on record in the audit.
    Discard(&'a str),
}

impl DeadAction<'_> {
    /// The name of the action in commands and in the API.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Replay(_) => "replay",
            Self::Discard(_) => "discard",
        }
    }

    /// The past participle, for reports.
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

    /// Acts on at most `limit` events that match; returns their number.
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
