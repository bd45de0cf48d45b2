//! The differences between the databases: the INSERT, the proof before COMMIT, and how to check that a transaction is
//! open.

mod mysql;
mod postgres;
mod session;
mod sqlite;

use std::borrow::Cow;
use std::collections::HashSet;

use posthaste::StoreError;
use posthaste::writer::{Ledger, NewRow, WriterCore};
use posthaste_sql_writer::{MySql, Postgres, Sqlite, WriterContext};
use sea_orm::{DatabaseTransaction, DbBackend, DbErr, RuntimeErr};
use sqlx::error::DatabaseError;

/// A writer context of any database that SeaORM supports. Converted from a [`WriterContext`] of that database.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyWriterContext {
    /// A context of MySQL or MariaDB.
    MySql(WriterContext<MySql>),
    /// A context of PostgreSQL.
    Postgres(WriterContext<Postgres>),
    /// A context of SQLite.
    Sqlite(WriterContext<Sqlite>),
}

impl From<WriterContext<MySql>> for AnyWriterContext {
    fn from(context: WriterContext<MySql>) -> Self {
        Self::MySql(context)
    }
}

impl From<WriterContext<Postgres>> for AnyWriterContext {
    fn from(context: WriterContext<Postgres>) -> Self {
        Self::Postgres(context)
    }
}

impl From<WriterContext<Sqlite>> for AnyWriterContext {
    fn from(context: WriterContext<Sqlite>) -> Self {
        Self::Sqlite(context)
    }
}

impl AnyWriterContext {
    pub(crate) fn core(&self) -> &WriterCore {
        match self {
            Self::MySql(context) => context.core(),
            Self::Postgres(context) => context.core(),
            Self::Sqlite(context) => context.core(),
        }
    }

    /// Refuses a connection to another kind of database than that of the outbox.
    pub(crate) fn expect(&self, found: DbBackend) -> Result<(), StoreError> {
        let wanted = match self {
            Self::MySql(_) => DbBackend::MySql,
            Self::Postgres(_) => DbBackend::Postgres,
            Self::Sqlite(_) => DbBackend::Sqlite,
        };
        match found == wanted {
            true => Ok(()),
            false => {
                let advice = format!(
                    "the outbox is on {wanted:?} and this connection on {found:?}: give the Writer a connection to \
                     the database of its outbox"
                );
                Err(StoreError::backend("SeaORM", advice))
            }
        }
    }

    /// Refuses a transaction in another database than that of the outbox, where the INSERT itself does not.
    pub(crate) async fn expect_database(&self, tx: &DatabaseTransaction) -> Result<(), StoreError> {
        match self {
            Self::MySql(_) | Self::Postgres(_) => Ok(()),
            Self::Sqlite(context) => sqlite::expect_database(context.statements(), tx).await,
        }
    }

    /// Inserts rows into this transaction; returns their `seq`s, `None` where the id existed already.
    pub(crate) async fn insert(
        &self,
        tx: &DatabaseTransaction,
        rows: &[NewRow],
    ) -> Result<Vec<Option<i64>>, StoreError> {
        match self {
            Self::MySql(context) => mysql::insert(context.statements(), tx, rows).await,
            Self::Postgres(context) => postgres::insert(context.statements(), tx, rows).await,
            Self::Sqlite(context) => sqlite::insert(context.statements(), tx, rows).await.map_err(failed),
        }
    }

    /// The rows of the ledger that the transaction still sees.
    pub(crate) async fn present(
        &self,
        tx: &DatabaseTransaction,
        ledger: &Ledger,
    ) -> Result<HashSet<i64>, DbErr> {
        match self {
            Self::MySql(context) => mysql::present(context.statements(), tx, &ledger.seqs()).await,
            Self::Postgres(context) => postgres::present(context.statements(), tx, ledger.seqs()).await,
            Self::Sqlite(context) => sqlite::present(context.statements(), tx, ledger.ids_by_seq()).await,
        }
    }

    /// Whether a transaction is open on the server. The driver does not know: an SQL text or a deadlock may have ended
    /// it.
    pub(crate) async fn is_open(&self, tx: &DatabaseTransaction) -> Result<bool, DbErr> {
        match self {
            Self::MySql(_) => mysql::is_open(tx).await,
            Self::Postgres(_) => postgres::is_open(tx).await,
            Self::Sqlite(_) => sqlite::is_open(tx).await,
        }
    }

    /// Whether an error of a COMMIT proves that it was not executed.
    pub(crate) fn is_refusal(&self, error: &DbErr) -> bool {
        match self {
            Self::MySql(_) => mysql::number(error).is_some_and(posthaste_sql_writer::mysql::proves_rollback),
            Self::Postgres(_) => {
                code(error).is_some_and(|code| posthaste_sql_writer::postgres::proves_rollback(&code))
            }
            Self::Sqlite(_) => code(error).is_some_and(|code| sqlite::proves_rollback(&code)),
        }
    }

    /// Refuses to write after the transaction has ended, on databases whose INSERT does not check that itself: the
    /// server would commit the INSERT immediately.
    pub(crate) async fn expect_open(&self, tx: &DatabaseTransaction) -> Result<(), StoreError> {
        let insert_is_refused = match self {
            Self::MySql(context) => mysql::insert_needs_transaction(context.statements()),
            // PostgreSQL never ends a transaction by itself; it only aborts it.
            Self::Postgres(_) => true,
            Self::Sqlite(_) => false,
        };
        match insert_is_refused || self.is_open(tx).await.map_err(failed)? {
            true => Ok(()),
            false => Err(StoreError::NoTransaction),
        }
    }
}

/// The connection belongs to the service, so its errors are passed on unchanged.
pub(crate) fn failed(error: DbErr) -> StoreError {
    StoreError::backend("SeaORM", error)
}

/// The error of sqlx inside an error of SeaORM.
fn driver_error(error: &DbErr) -> Option<&sqlx::Error> {
    match error {
        DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error))
        | DbErr::Conn(RuntimeErr::SqlxError(error)) => Some(error),
        _ => None,
    }
}

/// The error code of the database: an SQLSTATE, or the result code of SQLite.
fn code(error: &DbErr) -> Option<Cow<'_, str>> {
    driver_error(error).and_then(sqlx::Error::as_database_error).and_then(DatabaseError::code)
}
