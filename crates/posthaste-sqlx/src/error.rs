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

    /// The server did not answer.
    #[error(
        "the database {server} cannot be reached: see that the server runs, and that host and port are right"
    )]
    Unreachable {
        /// Which database.
        server: String,
        /// What the driver said.
        source: sqlx::Error,
    },

    /// The server does not let this user in.
    #[error("the database {server} refused the user or the password: correct them in the URL")]
    Refused {
        /// Which database.
        server: String,
        /// What the server said.
        source: sqlx::Error,
    },

    /// The server has no such database.
    #[error("there is no database {server}: create it with CREATE DATABASE, or correct the URL")]
    NoDatabase {
        /// Which database.
        server: String,
        /// What the server said.
        source: sqlx::Error,
    },

    /// There is a PgBouncer between, which nobody said.
    #[error(
        "a pooler answers at {server}: if it is PgBouncer in transaction mode, call `.pgbouncer()` on the \
         store's builder, or give the command line `--pgbouncer`"
    )]
    Pooler {
        /// Which database.
        server: String,
        /// What the pooler said.
        source: sqlx::Error,
    },

    /// The server has no connection left.
    #[error(
        "the database {server} has no connection left: raise max_connections, use fewer or smaller pools, \
         or put a pooler such as PgBouncer or ProxySQL before it"
    )]
    NoConnectionLeft {
        /// Which database.
        server: String,
        /// What the server said.
        source: sqlx::Error,
    },

    /// The server only reads: it is a replica, or was told so.
    #[error(
        "the database {server} only reads, as a replica does: connect to its primary, or open the store \
         with `read_only()`"
    )]
    ReadOnlyServer {
        /// Which database.
        server: String,
    },

    /// The user may look, and nothing else.
    #[error(
        "the database user may only read the outbox on {server}: open the store with `read_only()`, or grant \
         what docs/postgres.md says a writer or a relay needs"
    )]
    OnlyReads {
        /// Which database.
        server: String,
    },

    /// The user may not do this.
    #[error(
        "the database user may not do this on {server}: docs/postgres.md and docs/mysql.md have the grants that \
         writers, relays and viewers need"
    )]
    NotAllowed {
        /// Which database.
        server: String,
        /// What the server said.
        source: sqlx::Error,
    },

    /// A table that was there is gone.
    #[error("a table of the outbox is gone from {server}: create it again with `posthaste migrate apply`")]
    TableGone {
        /// Which database.
        server: String,
        /// What the server said.
        source: sqlx::Error,
    },

    /// What somebody wanted to see took the server too long.
    #[error(
        "the database {server} needed too long for this question and was told to stop: narrow the filter, or ask \
         again when the server is less busy"
    )]
    TookTooLong {
        /// Which database.
        server: String,
        /// What the server said.
        source: sqlx::Error,
    },

    /// The server is too old.
    #[error("the database server has version {found}, Posthaste needs at least {needed}: upgrade it")]
    OldServer {
        /// Its version.
        found: String,
        /// The oldest that is good enough.
        needed: &'static str,
    },

    /// The outbox table is not there.
    #[error(
        "there is no outbox table {table}: create it with `posthaste migrate apply {options}`, or \
         with `.migrate()` on the store's builder"
    )]
    NoSchema {
        /// The table that was looked for.
        table: TableName,
        /// How the command line is told of it, such as `--table billing --schema shop`.
        options: String,
    },

    /// The schema is older than this program.
    #[error(
        "the outbox table {table} has schema version {found}, this program needs {needed}: run \
         `posthaste migrate apply {options}`, or call `.migrate()` on the store's builder"
    )]
    OldSchema {
        /// The table.
        table: TableName,
        /// How the command line is told of it.
        options: String,
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

    /// A layout names a table that is not there.
    #[error(
        "there is no table {table} on {server}: see that the table of the layout, the schema and the database \
         are right"
    )]
    NoForeignTable {
        /// The table that was looked for.
        table: TableName,
        /// Which database.
        server: String,
    },

    /// A table is not laid out as its layout says.
    #[error("the table {table} does not fit its layout: {why}; name its columns in the layout")]
    Layout {
        /// The table.
        table: TableName,
        /// Everything that does not fit.
        why: String,
    },

    /// The user may not write back into a foreign table.
    #[error(
        "the database user may not write into the table {table} on {server} what becomes of its events: let an \
         administrator run `{grant}`, or open the store with `read_only()`"
    )]
    NotGranted {
        /// The table.
        table: TableName,
        /// Which database.
        server: String,
        /// The statement that gives the user what is missing.
        grant: String,
        /// What the server said.
        source: sqlx::Error,
    },

    /// The database keeps its text in another encoding.
    #[error("the database keeps text as {0}: only UTF-8 is supported; create it anew with that encoding")]
    Encoding(String),

    /// Anything else that the database says.
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
}
