//! Errors of opening a store, with the next step for the operator.

use std::path::PathBuf;

use crate::TableName;

/// The store cannot be opened, or its schema cannot be read or changed. The database is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The SQLite file does not exist.
    #[error(
        "there is no database file {}: create it with `posthaste migrate apply`, with `?mode=rwc` in \
         the URL, or with `create_if_missing(true)`",
        .0.display()
    )]
    MissingFile(PathBuf),

    /// The database file cannot be written.
    #[error(
        "the database {} cannot be written: check the permissions of the file and of its folder, and that \
         the URL does not contain mode=ro",
        .0.display()
    )]
    ReadOnly(PathBuf),

    /// Another connection holds the lock of the database.
    #[error(
        "the database {} has been locked by another connection for longer than the busy timeout: end the \
         transaction that holds the lock, then try again",
        .0.display()
    )]
    Locked(PathBuf),

    /// The file is not a SQLite database.
    #[error("{} is not a SQLite database, or is encrypted: check the path", .0.display())]
    NotADatabase(PathBuf),

    /// The server cannot be reached.
    #[error(
        "the database {server} cannot be reached: check that the server runs, and that host and port are \
         correct"
    )]
    Unreachable {
        /// The server and database, without the password.
        server: String,
        /// The error of the driver.
        source: sqlx::Error,
    },

    /// The server refuses the user or the password.
    #[error("the database {server} refused the user or the password: correct them in the URL")]
    Refused {
        /// The server and database, without the password.
        server: String,
        /// The error of the server.
        source: sqlx::Error,
    },

    /// The server has no database of this name.
    #[error("there is no database {server}: create it with CREATE DATABASE, or correct the URL")]
    NoDatabase {
        /// The server and database, without the password.
        server: String,
        /// The error of the server.
        source: sqlx::Error,
    },

    /// A pooler such as PgBouncer is in between, and the store was not configured for it.
    #[error(
        "{server} is a pooler: if it is PgBouncer in transaction mode, call `.pgbouncer()` on the store's \
         builder, or pass `--pgbouncer` on the command line"
    )]
    Pooler {
        /// The server and database, without the password.
        server: String,
        /// The error of the pooler.
        source: sqlx::Error,
    },

    /// The server accepts no more connections.
    #[error(
        "the database {server} has no connection left: raise max_connections, use fewer or smaller pools, \
         or put a pooler such as PgBouncer or ProxySQL before it"
    )]
    NoConnectionLeft {
        /// The server and database, without the password.
        server: String,
        /// The error of the server.
        source: sqlx::Error,
    },

    /// The server is read-only: it is a replica or is configured so.
    #[error(
        "the database {server} is read-only, as a replica is: connect to its primary, or open the store \
         with `read_only()`"
    )]
    ReadOnlyServer {
        /// The server and database, without the password.
        server: String,
    },

    /// The user may read the outbox but may neither write events nor process them.
    #[error(
        "the database user may only read the outbox on {server}: open the store with `read_only()`, or grant \
         what docs/postgres.md says a writer or a relay needs"
    )]
    OnlyReads {
        /// The server and database, without the password.
        server: String,
    },

    /// The user lacks a right.
    #[error(
        "the database user may not do this on {server}: docs/postgres.md and docs/mysql.md list the grants that \
         writers, relays and viewers need"
    )]
    NotAllowed {
        /// The server and database, without the password.
        server: String,
        /// The error of the server.
        source: sqlx::Error,
    },

    /// A table that existed when the store was opened is missing.
    #[error("a table of the outbox is missing on {server}: create it again with `posthaste migrate apply`")]
    TableGone {
        /// The server and database, without the password.
        server: String,
        /// The error of the server.
        source: sqlx::Error,
    },

    /// The server cancelled a query of an operator because it took too long.
    #[error(
        "the database {server} took too long for this query and cancelled it: narrow the filter, or try \
         again when the server is less busy"
    )]
    TookTooLong {
        /// The server and database, without the password.
        server: String,
        /// The error of the server.
        source: sqlx::Error,
    },

    /// The server is too old.
    #[error("the database server has version {found}, Posthaste needs at least {needed}: upgrade it")]
    OldServer {
        /// The version of the server.
        found: String,
        /// The oldest supported version.
        needed: &'static str,
    },

    /// The outbox table does not exist.
    #[error(
        "there is no outbox table {table}: create it with `posthaste migrate apply {options}`, or \
         with `.migrate()` on the store's builder"
    )]
    NoSchema {
        /// The name of the table.
        table: TableName,
        /// The options that name this table on the command line, such as `--table billing --schema shop`.
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
        /// The options that name this table on the command line.
        options: String,
        /// The version of the schema.
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
        /// The version of the schema.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },

    /// A table of this name exists, and Posthaste did not create it.
    #[error("there is a table {table} that Posthaste did not create ({why}): {advice}")]
    ForeignTable {
        /// The table.
        table: TableName,
        /// How the table differs from an outbox.
        why: String,
        /// What to do.
        advice: &'static str,
    },

    /// The table of a layout does not exist.
    #[error(
        "there is no table {table} on {server}: check the table of the layout, the schema and the database"
    )]
    NoForeignTable {
        /// The name of the table.
        table: TableName,
        /// The server and database, without the password.
        server: String,
    },

    /// A table does not match its layout.
    #[error("the table {table} does not match its layout: {why}; name its columns in the layout")]
    Layout {
        /// The table.
        table: TableName,
        /// All mismatches.
        why: String,
    },

    /// The user may not write outcomes into a foreign table.
    #[error(
        "the database user may not write the outcomes of events into the table {table} on {server}: let an \
         administrator run `{grant}`, or open the store with `read_only()`"
    )]
    NotGranted {
        /// The table.
        table: TableName,
        /// The server and database, without the password.
        server: String,
        /// The GRANT statement that gives the user the missing rights.
        grant: String,
        /// The error of the server.
        source: sqlx::Error,
    },

    /// The text encoding of the database is not UTF-8.
    #[error(
        "the text encoding of the database is {0}: only UTF-8 is supported; create the database again \
         with that encoding"
    )]
    Encoding(String),

    /// Any other error of the database.
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
}
