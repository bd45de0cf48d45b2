//! Why a store cannot be opened.

use std::path::PathBuf;

use crate::TableName;

/// A store cannot be opened, or its schema cannot be read or changed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no database file.
    #[error(
        "there is no database file {}: create it with `posthaste migrate apply`, with `?mode=rwc` in \
         the URL, or with `create_if_missing(true)`",
        .0.display()
    )]
    MissingFile(PathBuf),

    /// The database cannot be written.
    #[error(
        "the database {} cannot be written: see the rights of the file and of its folder, and that the \
         URL does not say mode=ro",
        .0.display()
    )]
    ReadOnly(PathBuf),

    /// Another connection keeps the database locked.
    #[error(
        "the database {} is locked by another connection for longer than the busy timeout: end the \
         transaction that holds it, then try again",
        .0.display()
    )]
    Locked(PathBuf),

    /// The file is something else.
    #[error("{} is not a SQLite database, or is encrypted: see whether the path is right", .0.display())]
    NotADatabase(PathBuf),

    /// The outbox table is not there.
    #[error(
        "there is no outbox table {table}: create it with `posthaste migrate apply --table {table}`, or \
         with `.migrate()` on the store's builder"
    )]
    NoSchema {
        /// The table that was looked for.
        table: TableName,
    },

    /// The schema is older than this program.
    #[error(
        "the outbox table {table} has schema version {found}, this program needs {needed}: run \
         `posthaste migrate apply --table {table}`, or call `.migrate()` on the store's builder"
    )]
    OldSchema {
        /// The table.
        table: TableName,
        /// Its version.
        found: u32,
        /// The version that this program needs.
        needed: u32,
    },

    /// The schema is newer than this program.
    #[error(
        "the outbox table {table} has schema version {found}, this program knows only {known}: use a \
         newer release of Posthaste"
    )]
    NewerSchema {
        /// The table.
        table: TableName,
        /// Its version.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },

    /// There is a table of this name that Posthaste did not make.
    #[error("there is a table {table} that is not Posthaste's ({why}): {advice}")]
    ForeignTable {
        /// The table.
        table: TableName,
        /// What is different.
        why: String,
        /// What to do.
        advice: &'static str,
    },

    /// The database keeps its text in another encoding.
    #[error("the database keeps text as {0}: only UTF-8 is supported; create it anew with `PRAGMA encoding`")]
    Encoding(String),

    /// Anything else that the database says.
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
}
