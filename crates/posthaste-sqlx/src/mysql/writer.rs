//! The Writer on MySQL and MariaDB: checks around the INSERT.

use posthaste::StoreError;
use posthaste::writer::NewRow;
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::mysql::{Flavour, NO_SAVEPOINT, NULL_IN_COLUMN, Statements};
use sqlx::{Executor as _, MySql, MySqlConnection, Row as _};

use super::connection::number;
use super::insert;
use crate::sql::ready;
use crate::writer::{WriterDialect, failed};

impl WriterDialect for MySql {
    type Outbox = posthaste_sql_writer::MySql;
    type WriterState = ();

    /// On MariaDB the INSERT itself fails outside a transaction. The count of the driver is no help, because it does
    /// not change when the server ends a transaction.
    async fn expect_transaction(
        context: &WriterContext<Self::Outbox>,
        connection: &mut MySqlConnection,
    ) -> Result<(), StoreError> {
        let flavour = insert::flavour(context.statements(), connection).await.map_err(failed::<MySql>)?;
        match flavour {
            Flavour::MariaDb => Ok(()),
            _ if is_in_transaction(connection).await.map_err(failed::<MySql>)? => Ok(()),
            _ => Err(StoreError::NoTransaction),
        }
    }

    async fn insert(
        statements: &Statements,
        connection: &mut MySqlConnection,
        rows: &[NewRow],
    ) -> sqlx::Result<Vec<Option<i64>>> {
        insert::insert(statements, connection, rows).await
    }

    /// `event_id` is NULL in an INSERT without a transaction, and in another database than that of the outbox.
    async fn refused(
        context: &WriterContext<Self::Outbox>,
        connection: &mut MySqlConnection,
        error: sqlx::Error,
    ) -> StoreError {
        if number(&error) != Some(NULL_IN_COLUMN) || !error.to_string().contains("event_id") {
            return failed::<MySql>(error);
        }
        let statements = context.statements();
        let Some(identify) = statements.identify() else { return StoreError::NoTransaction };
        let found = ready::<MySql>(identify).fetch_one(connection).await;
        match found.and_then(|row| row.try_get::<String, _>(0)) {
            Ok(found) => statements.refused(&found),
            Err(error) => failed::<MySql>(error),
        }
    }
}

/// Outside a transaction a savepoint is gone before it can be released.
pub(super) async fn is_in_transaction(connection: &mut MySqlConnection) -> sqlx::Result<bool> {
    match connection.execute("SAVEPOINT posthaste; RELEASE SAVEPOINT posthaste").await {
        Ok(_) => Ok(true),
        Err(error) if number(&error) == Some(NO_SAVEPOINT) => Ok(false),
        Err(error) => Err(error),
    }
}
