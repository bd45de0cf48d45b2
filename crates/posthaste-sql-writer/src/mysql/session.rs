//! The INSERT and the proof before COMMIT on MySQL and MariaDB, over a connection of any driver.

use std::collections::HashSet;

use posthaste::StoreError;
use posthaste::writer::NewRow;

use super::{Flavour, MAX_KEYS, Statements, VERSION, next_batch, placeholder_count, values};
use crate::session::seqs_of;
use crate::{RowValue, Session};

/// A connection to MySQL or MariaDB.
pub trait MySqlSession: Session {
    /// Whether the driver can read the rows that an INSERT returns.
    const READS_INSERTS: bool;

    /// Whether this error is [`DUPLICATE_KEY`](super::DUPLICATE_KEY).
    fn is_duplicate(error: &Self::Error) -> bool;

    /// Whether this error is [`NULL_IN_COLUMN`](super::NULL_IN_COLUMN) for the column `event_id`.
    fn has_no_id(error: &Self::Error) -> bool;
}

/// Inserts rows in as few statements as possible; returns their `seq`s, `None` where the id existed already.
pub async fn insert<S: MySqlSession>(
    session: &mut S,
    statements: &Statements,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, S::Error> {
    let flavour = flavour(session, statements).await?;
    let mut seqs = Vec::with_capacity(rows.len());
    let mut rest = rows;
    while !rest.is_empty() {
        let (batch, others) = next_batch(rest);
        match insert_batch(session, statements, flavour, batch).await {
            Ok(inserted) => seqs.extend(inserted),
            Err(error) if S::is_duplicate(&error) => {
                for row in batch {
                    seqs.push(insert_or_know(session, statements, flavour, row).await?);
                }
            }
            Err(error) => return Err(error),
        }
        rest = others;
    }
    Ok(seqs)
}

/// Explains the error of an INSERT: `event_id` is NULL without a transaction and in another database than that of the
/// outbox. Every other error is returned unchanged.
pub async fn refused<S: MySqlSession>(
    session: &mut S,
    statements: &Statements,
    error: S::Error,
) -> Result<StoreError, S::Error> {
    if !S::has_no_id(&error) {
        return Err(error);
    }
    let Some(identify) = statements.identify() else { return Ok(StoreError::NoTransaction) };
    Ok(statements.refused(&session.texts(identify).await?.concat()))
}

/// The proof before COMMIT: which of these `seq`s the transaction still sees.
pub async fn present<S: MySqlSession>(
    session: &mut S,
    statements: &Statements,
    written: &[i64],
) -> Result<HashSet<i64>, S::Error> {
    let mut present = HashSet::with_capacity(written.len());
    for seqs in written.chunks(MAX_KEYS) {
        let keys = filled(seqs.iter().map(|seq| RowValue::from(*seq)).collect());
        present.extend(session.numbers(&statements.present(seqs.len()), keys).await?);
    }
    Ok(present)
}

/// The flavour of the server. Queries it once per context.
pub async fn flavour<S: MySqlSession>(session: &mut S, statements: &Statements) -> Result<Flavour, S::Error> {
    match statements.flavour() {
        Some(flavour) => Ok(flavour),
        None => Ok(statements.learn(&session.texts(VERSION).await?.concat())),
    }
}

async fn insert_batch<S: MySqlSession>(
    session: &mut S,
    statements: &Statements,
    flavour: Flavour,
    rows: &[NewRow],
) -> Result<Vec<Option<i64>>, S::Error> {
    let database_id = statements.database_id().map(RowValue::from).into_iter();
    let values = database_id.chain(rows.iter().flat_map(|row| values(row).in_order())).collect();
    if flavour == Flavour::MariaDb && S::READS_INSERTS {
        let inserted = session.pairs(statements.insert(flavour, rows.len()), values).await?;
        return Ok(seqs_of(rows, inserted));
    }
    session.execute(statements.insert_without_returning(flavour, rows.len()), values).await?;
    if rows.len() == 1 {
        return Ok(vec![session.last_insert_id().await?]);
    }
    let ids = filled(rows.iter().map(|row| row.event.id().as_str().into()).collect());
    let written = session.pairs(&statements.written(rows.len()), ids).await?;
    Ok(seqs_of(rows, written))
}

/// Inserts one row; returns `None` if its id existed already.
async fn insert_or_know<S: MySqlSession>(
    session: &mut S,
    statements: &Statements,
    flavour: Flavour,
    row: &NewRow,
) -> Result<Option<i64>, S::Error> {
    match insert_batch(session, statements, flavour, std::slice::from_ref(row)).await {
        Ok(seqs) => Ok(seqs.first().copied().flatten()),
        Err(error) if S::is_duplicate(&error) => {
            let id = vec![row.event.id().as_str().into()];
            match session.numbers(statements.exists(), id).await?.is_empty() {
                false => Ok(None),
                // A duplicate in another table, written by a trigger for example.
                true => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Repeats the last key until there is one for each placeholder of the list.
fn filled(mut keys: Vec<RowValue<'_>>) -> Vec<RowValue<'_>> {
    if let Some(last) = keys.last().cloned() {
        keys.resize(placeholder_count(keys.len()), last);
    }
    keys
}
