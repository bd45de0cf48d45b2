//! The Writer on the service's own pool.

use posthaste::writer::Scope;
use posthaste::{Event, EventId, Receipt, StoreError, WriteError};
use posthaste_sql_writer::{Postgres, WriterContext};
use sqlx::{Executor as _, PgConnection};

use super::insert;
use crate::transaction_depth::transaction_depth;

/// Writes events in transactions of the service's own pool; made by
/// [`PgStore::writer`](super::PgStore::writer), cheap to clone.
#[derive(Clone, Debug)]
pub struct PgWriter {
    pub(super) context: WriterContext<Postgres>,
}

impl PgWriter {
    /// Inserts one event into the transaction that is open on this connection. After the commit give
    /// the receipt to [`Outbox::committed`](posthaste::Outbox::committed).
    ///
    /// Outside a transaction, and in another database than that of the outbox, it is refused. In a savepoint
    /// the receipt is only a wake-up.
    pub async fn insert(&self, connection: &mut PgConnection, event: Event) -> Result<Receipt, WriteError> {
        self.insert_all(connection, vec![event]).await
    }

    /// Inserts events, as [`insert`](Self::insert) does, in one statement.
    pub async fn insert_all(
        &self,
        connection: &mut PgConnection,
        events: Vec<Event>,
    ) -> Result<Receipt, WriteError> {
        let scope = match transaction_depth::<sqlx::Postgres>(connection) {
            // The driver counts only what it began itself.
            0 if !is_in_transaction(connection).await.map_err(failed)? => {
                return Err(StoreError::NoTransaction.into());
            }
            0 | 1 => Scope::Transaction,
            _ => Scope::ForeignSavepoint,
        };
        let (_, receipt) = self.write(connection, events, scope).await?;
        Ok(receipt)
    }

    /// Hooks, limits, INSERT. Answers the ids that stand for the events now, duplicates included.
    pub(super) async fn write(
        &self,
        connection: &mut PgConnection,
        events: Vec<Event>,
        scope: Scope,
    ) -> Result<(Vec<EventId>, Receipt), WriteError> {
        let prepared = self.context.core().prepare(events, scope)?;
        let ids = prepared.rows().iter().map(|row| row.event.id().clone()).collect();
        let seqs = insert::insert(self.context.statements(), connection, prepared.rows()).await;
        Ok((ids, prepared.written(&seqs.map_err(|error| self.refused(error))?)))
    }

    /// Another database than that of the outbox refuses by itself.
    fn refused(&self, error: sqlx::Error) -> StoreError {
        let said = error.as_database_error().map(sqlx::error::DatabaseError::message);
        said.and_then(|said| self.context.statements().other_database(said)).unwrap_or_else(|| failed(error))
    }
}

/// PostgreSQL refuses a savepoint outside a transaction.
async fn is_in_transaction(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    const NO_ACTIVE_TRANSACTION: &str = "25P01";
    let probe = connection.execute("SAVEPOINT posthaste; RELEASE SAVEPOINT posthaste").await;
    match probe {
        Ok(_) => Ok(true),
        Err(error) => match error.as_database_error().and_then(sqlx::error::DatabaseError::code) {
            Some(code) if code == NO_ACTIVE_TRANSACTION => Ok(false),
            _ => Err(error),
        },
    }
}

/// The pool is the service's own, so its errors are passed on as they are.
pub(super) fn failed(error: sqlx::Error) -> StoreError {
    StoreError::backend("PostgreSQL", error)
}
