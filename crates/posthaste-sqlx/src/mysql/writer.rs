//! The Writer on the service's own pool.

use posthaste::writer::Scope;
use posthaste::{Event, EventId, Receipt, StoreError, WriteError};
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::mysql::{Flavour, NO_SAVEPOINT, NULL_IN_COLUMN};
use sqlx::{Executor as _, MySql, MySqlConnection, Row as _};

use super::connection::number;
use super::insert;
use crate::sql::ready;
use crate::transaction_depth::transaction_depth;

/// Writes events in transactions of the service's own pool; made by
/// [`MySqlStore::writer`](super::MySqlStore::writer), cheap to clone.
#[derive(Clone, Debug)]
pub struct MySqlWriter {
    pub(super) context: WriterContext<posthaste_sql_writer::MySql>,
}

impl MySqlWriter {
    /// Inserts one event into the transaction that is open on this connection. After the commit give
    /// the receipt to [`Outbox::committed`](posthaste::Outbox::committed).
    ///
    /// Outside a transaction, and in another database than that of the outbox, it is refused. In a savepoint
    /// the receipt is only a wake-up.
    ///
    /// sqlx 0.9.0 cannot use a connection again on which a statement was dropped half way, whoever's it was:
    /// a caller that may go away calls `close_on_drop()` on its connection before, or uses
    /// [`begin`](Self::begin).
    pub async fn insert(
        &self,
        connection: &mut MySqlConnection,
        event: Event,
    ) -> Result<Receipt, WriteError> {
        self.insert_all(connection, vec![event]).await
    }

    /// Inserts events, as [`insert`](Self::insert) does, in one statement.
    pub async fn insert_all(
        &self,
        connection: &mut MySqlConnection,
        events: Vec<Event>,
    ) -> Result<Receipt, WriteError> {
        // The driver counts only what it began itself, and goes on counting when the server has ended it.
        self.expect_transaction(connection).await?;
        let scope = match transaction_depth::<MySql>(connection) {
            0 | 1 => Scope::Transaction,
            _ => Scope::ForeignSavepoint,
        };
        let (_, receipt) = self.write(connection, events, scope).await?;
        Ok(receipt)
    }

    /// Hooks, limits, INSERT. Answers the ids that stand for the events now, duplicates included.
    pub(super) async fn write(
        &self,
        connection: &mut MySqlConnection,
        events: Vec<Event>,
        scope: Scope,
    ) -> Result<(Vec<EventId>, Receipt), WriteError> {
        let prepared = self.context.core().prepare(events, scope)?;
        let ids = prepared.rows().iter().map(|row| row.event.id().clone()).collect();
        match insert::insert(self.context.statements(), connection, prepared.rows()).await {
            Ok(seqs) => Ok((ids, prepared.written(&seqs))),
            Err(error) => Err(self.refused(connection, error).await.into()),
        }
    }

    /// An INSERT without a transaction has no id, nor has one in another database than that of the outbox.
    async fn refused(&self, connection: &mut MySqlConnection, error: sqlx::Error) -> StoreError {
        if number(&error) != Some(NULL_IN_COLUMN) || !error.to_string().contains("event_id") {
            return failed(error);
        }
        let statements = self.context.statements();
        let Some(identify) = statements.identify() else { return StoreError::NoTransaction };
        let found = ready::<MySql>(identify).fetch_one(connection).await;
        match found.and_then(|row| row.try_get::<String, _>(0)) {
            Ok(found) => statements.refused(&found),
            Err(error) => failed(error),
        }
    }

    /// Refuses a connection on which no transaction is open. MariaDB says so in the INSERT itself.
    pub(super) async fn expect_transaction(
        &self,
        connection: &mut MySqlConnection,
    ) -> Result<(), StoreError> {
        match insert::flavour(self.context.statements(), connection).await.map_err(failed)? {
            Flavour::MariaDb => Ok(()),
            Flavour::MySql if is_in_transaction(connection).await.map_err(failed)? => Ok(()),
            Flavour::MySql => Err(StoreError::NoTransaction),
        }
    }
}

/// Outside a transaction a savepoint is gone before it can be released.
pub(super) async fn is_in_transaction(connection: &mut MySqlConnection) -> Result<bool, sqlx::Error> {
    match connection.execute("SAVEPOINT posthaste; RELEASE SAVEPOINT posthaste").await {
        Ok(_) => Ok(true),
        Err(error) if number(&error) == Some(NO_SAVEPOINT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The pool is the service's own, so its errors are passed on as they are.
pub(super) fn failed(error: sqlx::Error) -> StoreError {
    StoreError::backend("MySQL", error)
}
