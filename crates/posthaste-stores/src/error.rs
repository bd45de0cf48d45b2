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

/// A store cannot be opened, or the folder of its file does not exist.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// The options are invalid.
    #[error(transparent)]
    Invalid(#[from] InvalidStore),

    /// The database refused the connection or the schema, or cannot be reached.
    #[error("the outbox in {url} cannot be opened")]
    Sql {
        /// The URL of the store. It prints without its password.
        url: SecretUrl,
        /// The cause, which says what to do.
        source: posthaste_sqlx::OpenError,
    },

    /// Redis refused the connection or the outbox, or cannot be reached.
    #[error("the outbox in {url} cannot be opened")]
    Redis {
        /// The URL of the store. It prints without its password.
        url: SecretUrl,
        /// The cause, which says what to do.
        source: posthaste_redis::OpenError,
    },

    /// The folder of an SQLite file does not exist. SQLite creates files but not folders, and its own error would only
    /// say that it cannot open the file.
    #[error("there is no folder {}: create it first, or see whether the path is right", .0.display())]
    MissingFolder(PathBuf),
}
