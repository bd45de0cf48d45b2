//! Why a store cannot be opened.

use std::path::PathBuf;

use crate::SecretUrl;

/// The options that name a store are wrong or contradict each other. Nothing was connected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidStore(String);

impl InvalidStore {
    /// An error with this text, which says what to write instead.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// A store cannot be opened, or its schema cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// The options are wrong.
    #[error(transparent)]
    Invalid(#[from] InvalidStore),

    /// The database refused, or cannot be reached.
    #[error("the outbox in {url} cannot be opened")]
    Sql {
        /// Which store.
        url: SecretUrl,
        /// What is wrong, and what to do.
        source: posthaste_sqlx::OpenError,
    },

    /// Redis refused, or cannot be reached.
    #[error("the outbox in {url} cannot be opened")]
    Redis {
        /// Which store.
        url: SecretUrl,
        /// What is wrong, and what to do.
        source: posthaste_redis::OpenError,
    },

    /// SQLite creates files but no folders, and would only say that it cannot open the file.
    #[error("there is no folder {}: create it first, or see whether the path is right", .0.display())]
    MissingFolder(PathBuf),
}
