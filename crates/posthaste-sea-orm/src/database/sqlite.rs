//! SQLite.

use std::collections::{HashMap, HashSet};

use posthaste::writer::NewRow;
use posthaste::{EventId, StoreError, Timestamp};
use posthaste_sql_writer::seqs_by_id;
use posthaste_sql_writer::sqlite::{self, InsertBatch, Statements, WrittenRows, ids};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr, ExecResult};

use super::{bound, driver_error, failed, pairs, seqs, statement};

pub(super) async fn insert(
    statements: &Statements,
    tx: &DatabaseTransaction,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, DbErr> {
    match rows {
        [] => Ok(Vec::new()),
        [row] => insert_one(statements, tx, row).await.map(|seq| vec![seq]),
        rows => insert_many(statements, tx, rows).await,
    }
}

async fn insert_one(
    statements: &Statements,
    tx: &DatabaseTransaction,
    row: &NewRow,
) -> Result<Option<i64>, DbErr> {
    let now = Timestamp::now().as_micros();
    let values = bound(sqlite::values(row).in_order().into_iter().chain([now.into()]));
    let inserted = tx.execute_raw(statement(tx, &statements.insert_one, values)).await?;
    Ok((inserted.rows_affected() == 1).then(|| last_row_id(&inserted)))
}

async fn insert_many(
    statements: &Statements,
    tx: &DatabaseTransaction,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, DbErr> {
    let batch = statements.insert_many(rows);
    let text = batch.statement;
    let values = bound(batch.in_order(Timestamp::now().as_micros()));
    let answer = tx.execute_raw(statement(tx, text, values)).await?;
    let inserted = answer.rows_affected();
    if inserted > 0
        && let Some(seqs) = InsertBatch::seqs(rows, inserted, last_row_id(&answer))
    {
        return Ok(seqs);
    }
    let values = vec![ids(rows).into(), inserted.cast_signed().into()];
    let written = tx.query_all_raw(statement(tx, &statements.last_of, values)).await?;
    Ok(seqs_by_id(rows, pairs(&written)?))
}

/// Refuses a transaction in another file than that of the outbox.
pub(super) async fn expect_database(
    statements: &Statements,
    tx: &DatabaseTransaction,
) -> Result<(), StoreError> {
    if !statements.must_identify(None) {
        return Ok(());
    }
    let found = tx.query_all_raw(statement(tx, &statements.identify, Vec::new())).await.map_err(failed)?;
    let found = found.iter().map(|row| Ok((row.try_get_by(0)?, row.try_get_by(2)?)));
    statements.expect_database(&found.collect::<Result<Vec<_>, DbErr>>().map_err(failed)?)
}

/// Whether an error with this code proves that a COMMIT was not done: a violated constraint, a full disk, a
/// locked database.
pub(super) fn proves_rollback(code: &str) -> bool {
    matches!(code, "5" | "13" | "19" | "787")
}

fn last_row_id(answer: &ExecResult) -> i64 {
    answer.last_insert_id().cast_signed()
}

pub(super) async fn present(
    statements: &Statements,
    tx: &DatabaseTransaction,
    written: HashMap<i64, EventId>,
) -> Result<HashSet<i64>, DbErr> {
    let written = WrittenRows::new(written);
    if written.is_empty() {
        return Ok(HashSet::new());
    }
    let missing =
        tx.query_all_raw(statement(tx, &statements.missing, vec![written.to_json().into()])).await?;
    Ok(written.present(seqs(&missing)?))
}

/// SQLite refuses this setting inside a transaction, and ignores it outside one because it is the temporary
/// database's. See the writer of `posthaste-sqlx`.
pub(super) async fn is_open(tx: &DatabaseTransaction) -> Result<bool, DbErr> {
    match tx.execute_unprepared("PRAGMA temp.synchronous = OFF").await {
        Ok(_) => Ok(false),
        Err(error) => match driver_error(&error).and_then(sqlx::Error::as_database_error) {
            Some(refused) if refused.message().contains("inside a transaction") => Ok(true),
            _ => Err(error),
        },
    }
}
