//! MySQL and MariaDB.

use std::collections::HashSet;

use diesel::QueryResult;
use diesel::result::{DatabaseErrorKind, Error};
use posthaste::writer::{Ledger, NewRow};
use posthaste::{CommitError, StoreError};
use posthaste_sql_writer::mysql::{
    Flavour, IS_IN_TRANSACTION, MAX_KEYS, Statements, VERSION, next_batch, placeholder_count, values,
};
use posthaste_sql_writer::{MySql, RowValue, seqs_by_id};

use super::Dialect;
use crate::connection::{DieselConnection, DieselDatabase};
use crate::statement::{Statement, Value};

impl DieselDatabase for MySql {
    type Backend = diesel::mysql::Mysql;
}

impl Dialect for MySql {
    const NAME: &'static str = "MySQL";
    const BEGIN: &'static str = "START TRANSACTION";

    async fn insert<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
        rows: &[NewRow],
    ) -> QueryResult<Vec<Option<i64>>> {
        let flavour = flavour(connection, statements).await?;
        let mut seqs = Vec::with_capacity(rows.len());
        let mut rest = rows;
        while !rest.is_empty() {
            let (batch, others) = next_batch(rest);
            match insert_batch(connection, statements, flavour, batch).await {
                Ok(inserted) => seqs.extend(inserted),
                Err(error) if is_duplicate(&error) => {
                    for row in batch {
                        seqs.push(insert_or_know(connection, statements, flavour, row).await?);
                    }
                }
                Err(error) => return Err(error),
            }
            rest = others;
        }
        Ok(seqs)
    }

    /// MariaDB says it in the INSERT itself.
    async fn is_safe<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
    ) -> QueryResult<bool> {
        match flavour(connection, statements).await? {
            Flavour::MariaDb => Ok(true),
            Flavour::MySql => can_hold_a_savepoint(connection).await,
        }
    }

    /// An INSERT without a transaction has no id, nor has one in another database than that of the outbox.
    async fn refused<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
        error: Error,
    ) -> StoreError {
        if !has_no_id(&error) {
            return Self::failed(error);
        }
        let Some(identify) = statements.identify() else { return StoreError::NoTransaction };
        match connection.texts(Statement::<Value<'_>>::new(identify, Vec::new())).await {
            Ok(found) => statements.refused(&found.concat()),
            Err(error) => Self::failed(error),
        }
    }

    /// A savepoint may have taken some rows back, and a deadlock all of them. If nothing was written, nobody
    /// knows whether a deadlock ended the transaction or a statement such as CREATE TABLE committed it.
    async fn prove<C: DieselConnection<Database = Self>>(
        connection: &mut C,
        statements: &Statements,
        ledger: &Ledger,
    ) -> Result<HashSet<i64>, CommitError> {
        let rolled_back = |error| CommitError::RolledBack(Self::failed(error));
        let present = present(connection, statements, &ledger.seqs()).await.map_err(rolled_back)?;
        if present.is_empty() && !can_hold_a_savepoint(connection).await.map_err(rolled_back)? {
            return Err(match ledger.is_empty() {
                true => CommitError::Unknown(StoreError::NoTransaction),
                false => CommitError::RolledBack(StoreError::NoTransaction),
            });
        }
        Ok(present)
    }

    /// A server that is shutting down may say no after it has committed. A cluster in which another node has
    /// won calls it a deadlock, and that is the only refusal which diesel lets us tell from others.
    async fn explain<C: DieselConnection<Database = Self>>(
        _: &mut C,
        error: Error,
        _: &HashSet<i64>,
    ) -> CommitError {
        match &error {
            Error::DatabaseError(_, said) if said.message().starts_with("Deadlock found") => {
                CommitError::RolledBack(Self::failed(error))
            }
            _ => CommitError::Unknown(Self::failed(error)),
        }
    }
}

fn has_no_id(error: &Error) -> bool {
    match error {
        Error::DatabaseError(DatabaseErrorKind::NotNullViolation, said) => {
            said.message().contains("event_id")
        }
        _ => false,
    }
}

/// Which server this is.
async fn flavour<C: DieselConnection<Database = MySql>>(
    connection: &mut C,
    statements: &Statements,
) -> QueryResult<Flavour> {
    match statements.flavour() {
        Some(flavour) => Ok(flavour),
        None => {
            let version = connection.texts(Statement::<Value<'_>>::new(VERSION, Vec::new())).await?;
            Ok(statements.learn(&version.concat()))
        }
    }
}

/// Outside a transaction a savepoint is gone before it can be released. The error says its name in every
/// language.
async fn can_hold_a_savepoint<C: DieselConnection>(connection: &mut C) -> QueryResult<bool> {
    match connection.execute_text(&IS_IN_TRANSACTION.join("; ")).await {
        Ok(()) => Ok(true),
        Err(Error::DatabaseError(_, said)) if said.message().contains("posthaste") => Ok(false),
        Err(error) => Err(error),
    }
}

async fn insert_batch<C: DieselConnection<Database = MySql>>(
    connection: &mut C,
    statements: &Statements,
    flavour: Flavour,
    rows: &[NewRow],
) -> QueryResult<Vec<Option<i64>>> {
    let database_id = statements.database_id().map(Value::of);
    let rows_values = rows.iter().flat_map(|row| values(row).in_order().map(Value));
    let values = database_id.into_iter().chain(rows_values).collect();
    if flavour == Flavour::MariaDb && C::READS_INSERTS {
        let insert = Statement::new(statements.insert(flavour, rows.len()), values);
        return Ok(pair(rows, connection.pairs(insert).await?));
    }
    connection
        .execute(Statement::new(statements.insert_without_returning(flavour, rows.len()), values))
        .await?;
    if rows.len() == 1 {
        // Diesel does not show what its driver knows.
        let last = Statement::<Value<'_>>::new("SELECT CAST(LAST_INSERT_ID() AS SIGNED)", Vec::new());
        return Ok(vec![connection.numbers(last).await?.first().copied()]);
    }
    let ids = rows.iter().map(|row| row.event.id().as_str());
    let written = statements.written(rows.len());
    Ok(pair(rows, connection.pairs(Statement::new(&written, list(ids))).await?))
}

fn pair(rows: &[NewRow], written: Vec<(i64, String)>) -> Vec<Option<i64>> {
    seqs_by_id(rows, written.into_iter().map(|(seq, id)| (id, seq)).collect())
}

/// One row, none if its id existed already.
async fn insert_or_know<C: DieselConnection<Database = MySql>>(
    connection: &mut C,
    statements: &Statements,
    flavour: Flavour,
    row: &NewRow,
) -> QueryResult<Option<i64>> {
    match insert_batch(connection, statements, flavour, std::slice::from_ref(row)).await {
        Ok(seqs) => Ok(seqs.first().copied().flatten()),
        Err(error) if is_duplicate(&error) => {
            let id = vec![Value::of(row.event.id().as_str())];
            match connection.numbers(Statement::new(statements.exists(), id)).await?.is_empty() {
                false => Ok(None),
                // Somebody else's key, a trigger's for example.
                true => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

fn is_duplicate(error: &Error) -> bool {
    matches!(error, Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _))
}

async fn present<C: DieselConnection<Database = MySql>>(
    connection: &mut C,
    statements: &Statements,
    written: &[i64],
) -> QueryResult<HashSet<i64>> {
    let mut present = HashSet::with_capacity(written.len());
    for seqs in written.chunks(MAX_KEYS) {
        let text = statements.present(seqs.len());
        present.extend(connection.numbers(Statement::new(&text, list(seqs.iter().copied()))).await?);
    }
    Ok(present)
}

/// A list of values, the last one as often as it takes to fill all placeholders.
fn list<'v, T: Into<RowValue<'v>> + Clone>(keys: impl ExactSizeIterator<Item = T> + Clone) -> Vec<Value<'v>> {
    let fill = placeholder_count(keys.len()) - keys.len();
    let last = keys.clone().last();
    keys.chain(last.into_iter().cycle().take(fill)).map(Value::of).collect()
}
