//! The Writer on PostgreSQL.

use std::collections::HashSet;

use posthaste::StoreError;
use posthaste::writer::NewRow;
use posthaste_sql_writer::RowValue;
use posthaste_sql_writer::postgres::{self, Statements};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr, Statement};
use sqlx::error::DatabaseError;

use super::session::WriterSession;
use super::{code, driver_error, failed};

/// Runs one statement per row, because SeaORM cannot bind a list that contains NULL.
pub(super) async fn insert(
    statements: &Statements,
    tx: &DatabaseTransaction,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, StoreError> {
    insert_each(statements, tx, rows).await.map_err(|error| {
        // In another database than that of the outbox the INSERT itself fails.
        let message =
            driver_error(&error).and_then(sqlx::Error::as_database_error).map(DatabaseError::message);
        message.and_then(|message| statements.other_database(message)).unwrap_or_else(|| failed(error))
    })
}

async fn insert_each(
    statements: &Statements,
    tx: &DatabaseTransaction,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, DbErr> {
    let (session, mut seqs) = (WriterSession::new(tx), Vec::with_capacity(rows.len()));
    for row in rows {
        let database_id = statements.database_id().map(RowValue::from);
        let values = postgres::values(row).in_order().into_iter().chain(database_id).collect();
        let inserted: Vec<i64> =
            session.rows(&statements.insert_one, values, |row| row.try_get_by(0)).await?;
        seqs.push(inserted.first().copied());
    }
    Ok(seqs)
}

pub(super) async fn present(
    statements: &Statements,
    tx: &DatabaseTransaction,
    written: Vec<i64>,
) -> Result<HashSet<i64>, DbErr> {
    let backend = tx.get_database_backend();
    let present = Statement::from_sql_and_values(backend, &*statements.present, [written.into()]);
    tx.query_all_raw(present).await?.iter().map(|row| row.try_get_by(0)).collect()
}

/// PostgreSQL refuses a savepoint outside a transaction.
pub(super) async fn is_open(tx: &DatabaseTransaction) -> Result<bool, DbErr> {
    const NO_ACTIVE_TRANSACTION: &str = "25P01";
    let probe = tx.execute_unprepared("SAVEPOINT posthaste; RELEASE SAVEPOINT posthaste").await;
    let Err(error) = probe else { return Ok(true) };
    match code(&error).as_deref() == Some(NO_ACTIVE_TRANSACTION) {
        true => Ok(false),
        false => Err(error),
    }
}
