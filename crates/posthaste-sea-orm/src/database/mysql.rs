//! The Writer on MySQL and MariaDB.

use std::collections::HashSet;

use posthaste::StoreError;
use posthaste::writer::NewRow;
use posthaste_sql_writer::mysql::{
    self, DUPLICATE_KEY, Flavour, IS_IN_TRANSACTION, MySqlSession, NO_SAVEPOINT, NULL_IN_COLUMN, Statements,
};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr};

use super::session::WriterSession;
use super::{driver_error, failed};

pub(super) async fn insert(
    statements: &Statements,
    tx: &DatabaseTransaction,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, StoreError> {
    let mut session = WriterSession::new(tx);
    match mysql::insert(&mut session, statements, rows).await {
        Ok(seqs) => Ok(seqs),
        Err(error) => Err(mysql::refused(&mut session, statements, error).await.unwrap_or_else(failed)),
    }
}

pub(super) async fn present(
    statements: &Statements,
    tx: &DatabaseTransaction,
    written: &[i64],
) -> Result<HashSet<i64>, DbErr> {
    mysql::present(&mut WriterSession::new(tx), statements, written).await
}

impl MySqlSession for WriterSession<'_> {
    const READS_INSERTS: bool = true;

    fn is_duplicate(error: &DbErr) -> bool {
        number(error) == Some(DUPLICATE_KEY)
    }

    fn has_no_id(error: &DbErr) -> bool {
        number(error) == Some(NULL_IN_COLUMN) && error.to_string().contains("event_id")
    }
}

/// Whether the INSERT itself fails outside a transaction.
pub(super) fn insert_needs_transaction(statements: &Statements) -> bool {
    statements.flavour() == Some(Flavour::MariaDb)
}

/// Outside a transaction a savepoint is gone before it can be released.
pub(super) async fn is_open(tx: &DatabaseTransaction) -> Result<bool, DbErr> {
    match tx.execute_unprepared(&IS_IN_TRANSACTION.join("; ")).await {
        Ok(_) => Ok(true),
        Err(error) if number(&error) == Some(NO_SAVEPOINT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The server's number of an error.
#[cfg(feature = "mysql")]
pub(super) fn number(error: &DbErr) -> Option<u16> {
    let error = driver_error(error)?.as_database_error()?;
    error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>().map(sqlx::mysql::MySqlDatabaseError::number)
}

/// Without the feature `mysql` there are no connections to such a server.
#[cfg(not(feature = "mysql"))]
pub(super) fn number(error: &DbErr) -> Option<u16> {
    let _ = driver_error(error);
    None
}
