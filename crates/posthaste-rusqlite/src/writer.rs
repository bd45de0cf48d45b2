//! The Writer on the service's own connections.

use posthaste::writer::Scope;
use posthaste::{Event, EventId, Outbox, Receipt, StoreError, WriteError};
use posthaste_sql_writer::sqlite::Statements;
use posthaste_sql_writer::{OutboxStore, Sqlite, WriterContext};
use rusqlite::Connection;

use crate::InTransaction;
use crate::insert::insert;

/// Writes events in transactions of the service's own connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SqliteWriter {
    pub(crate) context: WriterContext<Sqlite>,
}

impl SqliteWriter {
    /// A Writer for this outbox in a `SqliteStore` of `posthaste-sqlx`.
    pub fn new(store: &impl OutboxStore<Sqlite>, outbox: &Outbox) -> Self {
        Self::from_context(store.writer_context(outbox))
    }

    /// A Writer for a service without a store, which leaves delivery to a relay: see
    /// [`WriterContext::writer_only`].
    pub fn from_context(context: WriterContext<Sqlite>) -> Self {
        Self { context }
    }

    /// Inserts one event into a transaction that the service began itself. After the commit give the receipt to
    /// [`Outbox::committed`](posthaste::Outbox::committed).
    ///
    /// It is refused outside a transaction, in a transaction that SQLite has ended by itself, and on a connection to
    /// another file than that of the outbox. The receipt is only a wake-up unless a
    /// [`Transaction`](rusqlite::Transaction) is given; see [`InTransaction`].
    pub fn insert<T: InTransaction>(&self, tx: &T, event: Event) -> Result<Receipt, WriteError> {
        self.insert_all(tx, vec![event])
    }

    /// Inserts events, as [`insert`](Self::insert) does, in one statement.
    pub fn insert_all<T: InTransaction>(&self, tx: &T, events: Vec<Event>) -> Result<Receipt, WriteError> {
        expect_database(&self.context, tx.connection())?;
        let (_, receipt) = write(&self.context, tx.connection(), events, tx.scope())?;
        Ok(receipt)
    }
}

/// Refuses a connection to another file than that of the outbox. Comparing its path is almost always enough, without a
/// query.
pub(crate) fn expect_database(
    context: &WriterContext<Sqlite>,
    connection: &Connection,
) -> Result<(), StoreError> {
    let statements = context.statements();
    if !statements.must_identify(connection.path()) {
        return Ok(());
    }
    statements.expect_database(&identify(statements, connection).map_err(failed)?)
}

fn identify(statements: &Statements, connection: &Connection) -> rusqlite::Result<Vec<(i64, String)>> {
    let mut identify = connection.prepare_cached(&statements.identify)?;
    let found = identify.query_map([], |row| Ok((row.get(0)?, row.get(2)?)))?;
    found.collect()
}

/// Checks that a transaction is open, applies hooks and limits and runs the INSERT. Returns the ids of the events,
/// duplicates included.
pub(crate) fn write(
    context: &WriterContext<Sqlite>,
    connection: &Connection,
    events: Vec<Event>,
    scope: Scope,
) -> Result<(Vec<EventId>, Receipt), WriteError> {
    // Asks SQLite instead of relying on the type: SQLite ends a transaction by itself when the disk is full, for
    // example.
    if connection.is_autocommit() {
        return Err(StoreError::NoTransaction.into());
    }
    let prepared = context.core().prepare(events, scope)?;
    let ids = prepared.rows().iter().map(|row| row.event.id().clone()).collect();
    let seqs = insert(context.statements(), connection, prepared.rows()).map_err(failed)?;
    Ok((ids, prepared.written(&seqs)))
}

/// The connection and its file belong to the service, so its errors are passed on unchanged.
pub(crate) fn failed(error: rusqlite::Error) -> StoreError {
    StoreError::backend("SQLite", error)
}
