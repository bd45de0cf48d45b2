//! Transactions on PostgreSQL: the proof before COMMIT, and the errors of COMMIT.

use std::collections::HashSet;

use posthaste::writer::Ledger;
use posthaste::{CommitError, StoreError};
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::postgres::proves_rollback;
use sqlx::{PgConnection, PgPool, Postgres, Row as _};

use super::PgWriter;
use super::connection::BEGIN;
use crate::sql::ready;
use crate::tx::TxDialect;
use crate::writer::failed;

impl TxDialect for Postgres {
    const BEGIN: &'static str = BEGIN;

    type Permit = ();

    async fn acquire_permit(_: &PgWriter, _: &PgPool, _: &mut PgConnection) -> Result<(), StoreError> {
        Ok(())
    }

    /// This query fails in a transaction that a failed statement has aborted.
    async fn prove(
        context: &WriterContext<posthaste_sql_writer::Postgres>,
        connection: &mut PgConnection,
        ledger: &Ledger,
        _touched: bool,
    ) -> Result<HashSet<i64>, CommitError> {
        let statements = context.statements();
        let query = ready::<Postgres>(&statements.present).persistent(statements.cacheable);
        let rows = query.bind(ledger.seqs()).fetch_all(connection).await;
        let present = rows.and_then(|rows| rows.iter().map(|row| row.try_get(0)).collect());
        present.map_err(|error| CommitError::RolledBack(failed::<Postgres>(error)))
    }

    /// The server itself refuses a COMMIT if a deferred constraint is violated, for example.
    fn commit_error(error: sqlx::Error, _present: &HashSet<i64>) -> CommitError {
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        match code.is_some_and(|code| proves_rollback(&code)) {
            true => CommitError::RolledBack(failed::<Postgres>(error)),
            false => CommitError::Unknown(failed::<Postgres>(error)),
        }
    }
}
