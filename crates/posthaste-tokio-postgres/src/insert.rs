//! The INSERT: one statement for any number of events.

use std::sync::Arc;

use posthaste::writer::NewRow;
use posthaste_sql_writer::postgres::{ColumnValues, columns, values};
use posthaste_sql_writer::{RowValue, seqs_by_id};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Transaction};

use crate::writer_session::WriterSession;

/// The types of the values of one row, then of the database id.
const ONE_ROW_TYPES: [Type; 17] = {
    const TEXT: Type = Type::TEXT;
    const INT: Type = Type::INT8;
    [TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, INT, TEXT, TEXT, Type::BYTEA, INT, INT, TEXT, INT, INT, TEXT]
};

/// The result of an INSERT.
#[derive(Debug, Default)]
pub(crate) struct Inserted {
    /// One entry per row; `None` where the id existed already.
    pub(crate) seqs: Vec<Option<i64>>,
    /// Whether a savepoint was open, opened by the driver or by an SQL text.
    pub(crate) in_savepoint: bool,
}

/// A value that is bound, and its type.
type Bound<'v> = (&'v (dyn ToSql + Sync), Type);

/// Prepares the INSERT of one row, which nearly every transaction needs, before the transaction begins. Costs a round
/// trip on a new connection only.
pub(crate) async fn warm_up(session: &WriterSession, client: &Client) -> Result<(), Error> {
    let statements = session.statements();
    let types = match statements.database_id() {
        Some(_) => &ONE_ROW_TYPES[..],
        None => &ONE_ROW_TYPES[..ONE_ROW_TYPES.len() - 1],
    };
    session.ready(client, &statements.insert_one_with_savepoint_flag, types).await.map(|_| ())
}

/// Inserts rows into this transaction.
pub(crate) async fn insert(
    session: &WriterSession,
    tx: &Transaction<'_>,
    rows: &[NewRow],
) -> Result<Inserted, Error> {
    let statements = session.statements();
    let inserted = match rows {
        [] => return Ok(Inserted::default()),
        [row] => {
            let values = values(row).in_order();
            let bound = values.iter().map(bound_value).collect();
            run(session, tx, &statements.insert_one_with_savepoint_flag, bound).await?
        }
        rows => {
            let columns = columns(rows);
            let bound = columns.iter().map(bound_column).collect();
            run(session, tx, &statements.insert_many_with_savepoint_flag, bound).await?
        }
    };
    let pairs = inserted.iter().map(|row| Ok((row.try_get(1)?, row.try_get(0)?)));
    let seqs = seqs_by_id(rows, pairs.collect::<Result<_, Error>>()?);
    // The flag is the same for all rows of a statement.
    let in_savepoint = inserted.first().map_or(Ok(false), |row| row.try_get(2))?;
    Ok(Inserted { seqs, in_savepoint })
}

/// Runs an INSERT with these values, followed by the database id if the context has one.
async fn run(
    session: &WriterSession,
    tx: &Transaction<'_>,
    text: &Arc<str>,
    mut bound: Vec<Bound<'_>>,
) -> Result<Vec<Row>, Error> {
    let database_id = session.statements().database_id();
    bound.extend(database_id.as_ref().map(|id| (id as &(dyn ToSql + Sync), Type::TEXT)));
    let (values, types): (Vec<_>, Vec<_>) = bound.into_iter().unzip();
    session.ready(tx.client(), text, &types).await?.rows(tx, &values, &types).await
}

fn bound_value<'v>(value: &'v RowValue<'_>) -> Bound<'v> {
    match value {
        RowValue::Text(text) => (text, Type::TEXT),
        RowValue::Int(int) => (int, Type::INT8),
        RowValue::Bytes(bytes) => (bytes, Type::BYTEA),
    }
}

fn bound_column<'v>(column: &'v ColumnValues<'_>) -> Bound<'v> {
    match column {
        ColumnValues::Texts(texts) => (texts, Type::TEXT_ARRAY),
        ColumnValues::Ints(ints) => (ints, Type::INT8_ARRAY),
        ColumnValues::Bytes(bytes) => (bytes, Type::BYTEA_ARRAY),
    }
}
