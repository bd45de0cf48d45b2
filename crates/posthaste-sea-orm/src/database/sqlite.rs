//! The Writer on SQLite.

use std::collections::{HashMap, HashSet};

use posthaste::writer::NewRow;
use posthaste::{EventId, StoreError};
use posthaste_sql_writer::sqlite::{self, Statements};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr, QueryResult};

use super::session::WriterSession;
use super::{driver_error, failed};

pub(super) async fn insert(
    statements: &Statements,
    tx: &DatabaseTransaction,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, DbErr> {
    sqlite::insert(&mut WriterSession::new(tx), statements, rows).await
}

/// Refuses a transaction in another file than that of the outbox.
pub(super) async fn expect_database(
    statements: &Statements,
    tx: &DatabaseTransaction,
) -> Result<(), StoreError> {
    if !statements.must_identify(None) {
        return Ok(());
    }
    let file = |row: &QueryResult| Ok((row.try_get_by(0)?, row.try_get_by(2)?));
    let found: Vec<_> =
        WriterSession::new(tx).rows(&statements.identify, Vec::new(), file).await.map_err(failed)?;
    statements.expect_database(&found)
}

/// Whether an error with this result code proves that a COMMIT was not executed: a violated constraint (19, 787), a
/// full disk (13), a locked database (5).
pub(super) fn proves_rollback(code: &str) -> bool {
    matches!(code, "5" | "13" | "19" | "787")
}

pub(super) async fn present(
    statements: &Statements,
    tx: &DatabaseTransaction,
    written: HashMap<i64, EventId>,
) -> Result<HashSet<i64>, DbErr> {
    sqlite::present(&mut WriterSession::new(tx), statements, written).await
}

/// Whether a transaction is open. SQLite refuses this PRAGMA inside a transaction. Outside one it has no effect,
/// because it applies to the temporary database.
pub(super) async fn is_open(tx: &DatabaseTransaction) -> Result<bool, DbErr> {
    match tx.execute_unprepared("PRAGMA temp.synchronous = OFF").await {
        Ok(_) => Ok(false),
        Err(error) => match driver_error(&error).and_then(sqlx::Error::as_database_error) {
            Some(refused) if refused.message().contains("inside a transaction") => Ok(true),
            _ => Err(error),
        },
    }
}
