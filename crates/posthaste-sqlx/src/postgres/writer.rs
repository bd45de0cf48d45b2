//! The Writer on PostgreSQL: checks around the INSERT.

use posthaste::StoreError;
use posthaste::writer::NewRow;
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::postgres::Statements;
use sqlx::{Executor as _, PgConnection, Postgres};

use super::insert;
use crate::transaction_depth::transaction_depth;
use crate::writer::{WriterDialect, failed};

impl WriterDialect for Postgres {
    type Outbox = posthaste_sql_writer::Postgres;
    type WriterState = ();

    async fn expect_transaction(
        _context: &WriterContext<Self::Outbox>,
        connection: &mut PgConnection,
    ) -> Result<(), StoreError> {
        let is_open = transaction_depth::<Postgres>(connection) > 0
            || is_in_transaction(connection).await.map_err(failed::<Postgres>)?;
        if is_open { Ok(()) } else { Err(StoreError::NoTransaction) }
    }

    async fn insert(
        statements: &Statements,
        connection: &mut PgConnection,
        rows: &[NewRow],
    ) -> sqlx::Result<Vec<Option<i64>>> {
        insert::insert(statements, connection, rows).await
    }

    /// In another database than that of the outbox the INSERT itself fails.
    async fn refused(
        context: &WriterContext<Self::Outbox>,
        _connection: &mut PgConnection,
        error: sqlx::Error,
    ) -> StoreError {
        let message = error.as_database_error().map(sqlx::error::DatabaseError::message);
        let refused = message.and_then(|message| context.statements().other_database(message));
        refused.unwrap_or_else(|| failed::<Postgres>(error))
    }
}

/// PostgreSQL refuses a savepoint outside a transaction.
async fn is_in_transaction(connection: &mut PgConnection) -> sqlx::Result<bool> {
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
