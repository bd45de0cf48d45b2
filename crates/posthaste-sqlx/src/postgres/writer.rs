//! The Writer on the service's own pool.

use posthaste::writer::Scope;
use posthaste::{CommitError, Event, EventId, Receipt, StoreError, WriteError};
use posthaste_sql::{Postgres, WriterContext};
use sqlx::{Executor as _, PgConnection, PgPool, SqlSafeStr as _, Transaction};

use super::connection::BEGIN;
use super::insert;
use super::tx::PgTx;
use crate::cancel_safety::run_to_completion;
use crate::transaction_depth::{acquire, transaction_depth};

/// Writes events in transactions of the service's own pool; made by
/// [`PgStore::writer`](super::PgStore::writer), cheap to clone.
#[derive(Clone, Debug)]
pub struct PgWriter {
    pub(super) context: WriterContext<Postgres>,
}

impl PgWriter {
    /// Begins a transaction. A caller that goes away while it begins leaves no open transaction in the
    /// pool, as `pool.begin()` of sqlx 0.9.0 does.
    pub async fn begin(&self, pool: &PgPool) -> Result<PgTx, StoreError> {
        let connection = acquire(pool).await.map_err(failed)?;
        let tx = run_to_completion(Transaction::begin(connection, Some(BEGIN.into_sql_str())));
        let tx = tx.await.map_err(failed)?;
        Ok(PgTx::new(tx, self.clone()))
    }

    /// Runs `work` in a transaction: commits when it answers `Ok`, rolls back when it answers `Err`,
    /// panics or is dropped.
    pub async fn transaction<T, E>(
        &self,
        pool: &PgPool,
        work: impl AsyncFnOnce(&mut PgTx) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<WriteError> + From<CommitError>,
    {
        let mut tx = self.begin(pool).await.map_err(WriteError::from)?;
        let answer = work(&mut tx).await?;
        tx.commit().await?;
        Ok(answer)
    }

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
