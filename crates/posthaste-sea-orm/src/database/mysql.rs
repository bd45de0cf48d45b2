//! MySQL and MariaDB.

use std::collections::HashSet;

use posthaste::StoreError;
use posthaste::writer::NewRow;
use posthaste_sql_writer::mysql::{
    self, DUPLICATE_KEY, Flavour, IS_IN_TRANSACTION, MAX_KEYS, NO_SAVEPOINT, NULL_IN_COLUMN, Statements,
    next_batch, placeholder_count,
};
use posthaste_sql_writer::{RowValue, seqs_by_id};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr, Value};

use super::{bound, driver_error, failed, pairs, statement};

pub(super) async fn insert(
    statements: &Statements,
    tx: &DatabaseTransaction,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, StoreError> {
    match insert_batches(statements, tx, rows).await {
        Ok(seqs) => Ok(seqs),
        Err(error) => Err(refused(statements, tx, error).await),
    }
}

/// An INSERT without a transaction has no id, nor has one in another database than that of the outbox.
async fn refused(statements: &Statements, tx: &DatabaseTransaction, error: DbErr) -> StoreError {
    if number(&error) != Some(NULL_IN_COLUMN) || !error.to_string().contains("event_id") {
        return failed(error);
    }
    let Some(identify) = statements.identify() else { return StoreError::NoTransaction };
    match one_text(tx, identify).await {
        Ok(found) => statements.refused(&found),
        Err(error) => failed(error),
    }
}

async fn insert_batches(
    statements: &Statements,
    tx: &DatabaseTransaction,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, DbErr> {
    let flavour = flavour(statements, tx).await?;
    let mut seqs = Vec::with_capacity(rows.len());
    let mut rest = rows;
    while !rest.is_empty() {
        let (batch, others) = next_batch(rest);
        match insert_batch(statements, flavour, tx, batch).await {
            Ok(inserted) => seqs.extend(inserted),
            Err(error) if number(&error) == Some(DUPLICATE_KEY) => {
                for row in batch {
                    seqs.push(insert_or_know(statements, flavour, tx, row).await?);
                }
            }
            Err(error) => return Err(error),
        }
        rest = others;
    }
    Ok(seqs)
}

/// Which server this is.
async fn flavour(statements: &Statements, tx: &DatabaseTransaction) -> Result<Flavour, DbErr> {
    if let Some(flavour) = statements.flavour() {
        return Ok(flavour);
    }
    Ok(statements.learn(&one_text(tx, mysql::VERSION).await?))
}

async fn one_text(tx: &DatabaseTransaction, question: &str) -> Result<String, DbErr> {
    let answer = tx.query_one_raw(statement(tx, question, Vec::new())).await?;
    Ok(answer.map(|row| row.try_get_by(0)).transpose()?.unwrap_or_default())
}

async fn insert_batch(
    statements: &Statements,
    flavour: Flavour,
    tx: &DatabaseTransaction,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, DbErr> {
    let database_id = statements.database_id().map(RowValue::from).into_iter();
    let values = bound(database_id.chain(rows.iter().flat_map(|row| mysql::values(row).in_order())));
    let insert = statement(tx, statements.insert(flavour, rows.len()), values);
    if flavour == Flavour::MariaDb {
        return Ok(seqs_by_id(rows, pairs(&tx.query_all_raw(insert).await?)?));
    }
    let inserted = tx.execute_raw(insert).await?;
    if rows.len() == 1 {
        return Ok(vec![i64::try_from(inserted.last_insert_id()).ok()]);
    }
    let ids = filled(rows.iter().map(|row| Value::from(row.event.id().as_str())).collect());
    let written = tx.query_all_raw(statement(tx, &statements.written(rows.len()), ids)).await?;
    Ok(seqs_by_id(rows, pairs(&written)?))
}

/// One row, none if its id existed already.
async fn insert_or_know(
    statements: &Statements,
    flavour: Flavour,
    tx: &DatabaseTransaction,
    row: &NewRow,
) -> Result<Option<i64>, DbErr> {
    match insert_batch(statements, flavour, tx, std::slice::from_ref(row)).await {
        Ok(seqs) => Ok(seqs.first().copied().flatten()),
        Err(error) if number(&error) == Some(DUPLICATE_KEY) => {
            let exists = statement(tx, statements.exists(), vec![row.event.id().as_str().into()]);
            match tx.query_one_raw(exists).await? {
                Some(_) => Ok(None),
                // Somebody else's key, a trigger's for example.
                None => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

pub(super) async fn present(
    statements: &Statements,
    tx: &DatabaseTransaction,
    written: &[i64],
) -> Result<HashSet<i64>, DbErr> {
    let mut present = HashSet::with_capacity(written.len());
    for seqs in written.chunks(MAX_KEYS) {
        let keys = filled(seqs.iter().map(|seq| Value::from(*seq)).collect());
        let rows = tx.query_all_raw(statement(tx, &statements.present(seqs.len()), keys)).await?;
        present.extend(super::seqs(&rows)?);
    }
    Ok(present)
}

/// As many keys as a list of them has placeholders.
fn filled(mut keys: Vec<Value>) -> Vec<Value> {
    if let Some(last) = keys.last().cloned() {
        keys.resize(placeholder_count(keys.len()), last);
    }
    keys
}

/// Whether the INSERT itself is refused outside a transaction.
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

/// Without its feature there is no connection to such a server.
#[cfg(not(feature = "mysql"))]
pub(super) fn number(error: &DbErr) -> Option<u16> {
    let _ = driver_error(error);
    None
}
