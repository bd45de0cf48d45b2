//! The Writer on MySQL and MariaDB.

use std::collections::HashSet;

use diesel::QueryResult;
use diesel::result::{DatabaseErrorKind, Error};
use posthaste::writer::{Ledger, NewRow};
use posthaste::{CommitError, StoreError};
use posthaste_sql_writer::MySql;
use posthaste_sql_writer::mysql::{self, Flavour, IS_IN_TRANSACTION, MySqlSession, Statements};

use super::Dialect;
use crate::connection::{DieselConnection, DieselDatabase};
use crate::writer_session::{NumbersRows, WriterSession};

impl DieselDatabase for MySql {
    type Backend = diesel::mysql::Mysql;
}

impl NumbersRows for MySql {
    const LAST_INSERT_ID: &'static str = "SELECT CAST(LAST_INSERT_ID() AS SIGNED)";
}

impl Dialect for MySql {
    const NAME: &'static str = "MySQL";
    const BEGIN: &'static str = "START TRANSACTION";

    async fn insert<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
        rows: &[NewRow],
    ) -> QueryResult<Vec<Option<i64>>> {
        mysql::insert(&mut WriterSession(connection), statements, rows).await
    }

    /// On MariaDB the INSERT itself fails outside a transaction.
    async fn is_safe<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
    ) -> QueryResult<bool> {
        match mysql::flavour(&mut WriterSession(connection), statements).await? {
            Flavour::MariaDb => Ok(true),
            _ => can_hold_a_savepoint(connection).await,
        }
    }

    async fn refused<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
        error: Error,
    ) -> StoreError {
        let refused = mysql::refused(&mut WriterSession(connection), statements, error).await;
        refused.unwrap_or_else(Self::failed)
    }

    /// A savepoint may have rolled some rows back, and a deadlock all of them. If nothing was written, the outcome is
    /// unknown: a deadlock may have rolled the transaction back, or a statement such as CREATE TABLE may have committed
    /// it.
    async fn prove<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
        ledger: &Ledger,
    ) -> Result<HashSet<i64>, CommitError> {
        let rolled_back = |error| CommitError::RolledBack(Self::failed(error));
        let present = mysql::present(&mut WriterSession(connection), statements, &ledger.seqs()).await;
        let present = present.map_err(rolled_back)?;
        if present.is_empty() && !can_hold_a_savepoint(connection).await.map_err(rolled_back)? {
            return Err(match ledger.is_empty() {
                true => CommitError::Unknown(StoreError::NoTransaction),
                false => CommitError::RolledBack(StoreError::NoTransaction),
            });
        }
        Ok(present)
    }

    /// A server that is shutting down may report the shutdown after it has committed. A cluster reports a deadlock if
    /// another node has won a conflict; that is the only refusal that can be recognized in the errors of diesel.
    async fn explain<C: DieselConnection<Database = Self>>(
        _: &mut C,
        error: Error,
        _: &HashSet<i64>,
    ) -> CommitError {
        match &error {
            Error::DatabaseError(_, info) if info.message().starts_with("Deadlock found") => {
                CommitError::RolledBack(Self::failed(error))
            }
            _ => CommitError::Unknown(Self::failed(error)),
        }
    }
}

/// Outside a transaction a savepoint is gone before it can be released. The error always contains the savepoint's name.
async fn can_hold_a_savepoint<C: DieselConnection>(connection: &mut C) -> QueryResult<bool> {
    match connection.execute_text(&IS_IN_TRANSACTION.join("; ")).await {
        Ok(()) => Ok(true),
        Err(Error::DatabaseError(_, info)) if info.message().contains("posthaste") => Ok(false),
        Err(error) => Err(error),
    }
}

impl<C: DieselConnection<Database = MySql>> MySqlSession for WriterSession<'_, C> {
    const READS_INSERTS: bool = C::READS_INSERTS;

    fn is_duplicate(error: &Error) -> bool {
        matches!(error, Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _))
    }

    fn has_no_id(error: &Error) -> bool {
        match error {
            Error::DatabaseError(DatabaseErrorKind::NotNullViolation, info) => {
                info.message().contains("event_id")
            }
            _ => false,
        }
    }
}
