//! The Writer on MySQL and MariaDB: checks around the INSERT.

use posthaste::StoreError;
use posthaste::writer::NewRow;
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::mysql::{
    self, DUPLICATE_KEY, Flavour, MySqlSession, NO_SAVEPOINT, NULL_IN_COLUMN, Statements,
};
use sqlx::mysql::MySqlQueryResult;
use sqlx::{Executor as _, MySql, MySqlConnection};

use super::connection::number;
use crate::writer::{WriterDialect, failed};
use crate::writer_session::{WriterSession, WriterSessionDialect};

impl WriterDialect for MySql {
    type Outbox = posthaste_sql_writer::MySql;
    type WriterState = ();

    /// On MariaDB the INSERT itself fails outside a transaction. The count of the driver is no help, because it does
    /// not change when the server ends a transaction.
    async fn expect_transaction(
        context: &WriterContext<Self::Outbox>,
        connection: &mut MySqlConnection,
    ) -> Result<(), StoreError> {
        let flavour = mysql::flavour(&mut WriterSession::<Self>::new(connection), context.statements())
            .await
            .map_err(failed::<MySql>)?;
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
        mysql::insert(&mut WriterSession::<Self>::new(connection), statements, rows).await
    }

    /// `event_id` is NULL in an INSERT without a transaction, and in another database than that of the outbox.
    async fn refused(
        context: &WriterContext<Self::Outbox>,
        connection: &mut MySqlConnection,
        error: sqlx::Error,
    ) -> StoreError {
        let mut session = WriterSession::<Self>::new(connection);
        mysql::refused(&mut session, context.statements(), error).await.unwrap_or_else(failed::<Self>)
    }
}

impl WriterSessionDialect for MySql {
    fn inserted(result: &MySqlQueryResult) -> (u64, Option<i64>) {
        (result.rows_affected(), i64::try_from(result.last_insert_id()).ok())
    }
}

impl MySqlSession for WriterSession<'_, MySql> {
    const READS_INSERTS: bool = true;

    fn is_duplicate(error: &sqlx::Error) -> bool {
        number(error) == Some(DUPLICATE_KEY)
    }

    fn has_no_id(error: &sqlx::Error) -> bool {
        number(error) == Some(NULL_IN_COLUMN) && error.to_string().contains("event_id")
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
