//! Errors of opening a store.

use std::path::PathBuf;

use crate::SecretUrl;

/// The options that name a store are invalid or contradict each other. No connection was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidStore(String);

impl InvalidStore {
    /// An error with this text, which must say what to write instead.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// An error from opening or migrating a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// The options are invalid.
    #[error(transparent)]
    Invalid(#[from] InvalidStore),

    /// The server cannot be reached or refused the connection, or its schema cannot be used.
    #[error("the outbox in {url} cannot be opened")]
    Sql {
        /// The URL of the store. It prints without its password.
        url: SecretUrl,
        /// The cause, which says what to do.
        source: posthaste_sqlx::OpenError,
    },

    /// Redis cannot be reached or refused the connection, or its outbox cannot be used.
    #[error("the outbox in {url} cannot be opened")]
    Redis {
        /// The URL of the store. It prints without its password.
        url: SecretUrl,
        /// The cause, which says what to do.
        source: posthaste_redis::OpenError,
    },

    /// The folder of an SQLite file does not exist. SQLite creates files but not folders, and its own error would only
    /// say that it cannot open the file.
    #[error("the folder {} does not exist: create it, or check the path", .0.display())]
    MissingFolder(PathBuf),
}
