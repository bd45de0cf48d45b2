//! Errors of stores, Writers and the engine. Each says what the caller can do next.

use std::fmt::Write as _;

use crate::event::EventError;

/// Any error of a user's own code.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The longest error text kept with an event, in characters.
pub const LAST_ERROR_MAX_LENGTH: usize = 4000;

/// A store call failed. Nothing was changed, unless the reply was lost. Every call of [`Store`](crate::Store) can be
/// repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A write outside a transaction, which could not be rolled back.
    #[error("no transaction is open: begin one, write the event in it, and commit both together")]
    NoTransaction,

    /// A write on a connection to another database than the outbox uses. The engine would never find the event.
    #[error(
        "the outbox is in {outbox}, and this connection leads to {connection}: give the Writer a pool or a \
         connection of the database that its store was opened on"
    )]
    OtherDatabase {
        /// The database of the store that made the Writer.
        outbox: String,
        /// The database of the connection.
        connection: String,
    },

    /// The database, or the connection to it, failed.
    #[error("the {store} store failed")]
    Backend {
        /// The kind of store.
        store: &'static str,
        /// The driver's own error.
        source: BoxError,
    },

    /// The call took longer than `store_timeout`.
    #[error("the store did not reply within {0:?}: is the database overloaded or unreachable?")]
    Timeout(std::time::Duration),

    /// The call is valid, but this store cannot do it.
    #[error("the {store} store cannot {operation}")]
    Unsupported {
        /// The kind of store.
        store: &'static str,
        /// What it cannot do, as a verb phrase.
        operation: &'static str,
    },
}

impl StoreError {
    /// Wraps a driver's error and keeps it as the source.
    pub fn backend(store: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Backend { store, source: source.into() }
    }
}

/// A write was refused. This call wrote nothing; the caller has to roll the transaction back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// An event breaks a rule.
    #[error(transparent)]
    Event(#[from] EventError),

    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// A `before_write` hook refused.
    #[error("a before_write hook refused the events")]
    Hook(#[source] BoxError),
}

/// COMMIT failed, or its result is unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The transaction was rolled back, and none of its events will be delivered.
    #[error("the transaction was rolled back: repeat it")]
    RolledBack(#[source] StoreError),

    /// The reply to COMMIT was lost. If the transaction took effect, the poller delivers its events. Repeating it with
    /// the same event ids does not write the events twice, but the statements of the service run again.
    #[error("the reply to COMMIT was lost: repeat the transaction with the same event ids to be sure")]
    Unknown(#[source] StoreError),
}

/// An error and all its sources as one text, cut to the length that a row keeps.
pub(crate) fn error_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Many errors repeat the text of their source.
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            let _ = write!(text, ": {cause_text}");
        }
        source = cause.source();
    }
    cut_error(text)
}

/// Cuts a text to [`LAST_ERROR_MAX_LENGTH`] characters, on a character boundary, and replaces NUL, which some stores
/// cannot keep.
pub(crate) fn cut_error(mut text: String) -> String {
    const ELLIPSIS: &str = "...";
    if text.contains('\0') {
        text = text.replace('\0', "\u{fffd}");
    }
    if text.len() <= LAST_ERROR_MAX_LENGTH || text.chars().nth(LAST_ERROR_MAX_LENGTH).is_none() {
        return text;
    }
    let keep = LAST_ERROR_MAX_LENGTH - ELLIPSIS.len();
    let end = text.char_indices().nth(keep).map_or(text.len(), |(at, _)| at);
    text.truncate(end);
    text.push_str(ELLIPSIS);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // S3-68, S0-20
    #[test]
    fn error_is_cut_at_4000_characters_on_a_character_boundary() {
        let exact = "ü".repeat(LAST_ERROR_MAX_LENGTH);
        assert_eq!(cut_error(exact.clone()), exact);

        let cut = cut_error("ü".repeat(LAST_ERROR_MAX_LENGTH + 1));
        assert_eq!(cut.chars().count(), LAST_ERROR_MAX_LENGTH);
        assert!(cut.ends_with("ü..."));
    }

    #[test]
    fn error_text_names_every_source_once() {
        let inner = std::io::Error::other("connection refused");
        let outer = StoreError::backend("memory", inner);
        assert_eq!(error_text(&outer), "the memory store failed: connection refused");
    }
}
