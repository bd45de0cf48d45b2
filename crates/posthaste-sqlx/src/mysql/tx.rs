//! Transactions on MySQL and MariaDB: the proof before COMMIT, and the errors of COMMIT.

use std::collections::HashSet;

use posthaste::writer::Ledger;
use posthaste::{CommitError, StoreError};
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::mysql::{Statements, proves_rollback};
use sqlx::{MySql, MySqlConnection, MySqlPool, Row as _};

use super::MySqlWriter;
use super::connection::{BEGIN, number};
use super::value::{MAX_KEYS, bind_all};
use super::writer::is_in_transaction;
use crate::sql::ready;
use crate::tx::TxDialect;
use crate::writer::failed;

impl TxDialect for MySql {
    const BEGIN: &'static str = BEGIN;

    /// If a caller is dropped while sqlx 0.9.0 prepares a statement, the driver loses track of the replies of the
    /// server: the next borrower of the connection reads the replies to other statements, or waits forever.
    const SPOILED_BY_DROP: bool = true;

    type Permit = ();

    async fn acquire_permit(
        _: &MySqlWriter,
        _: &MySqlPool,
        _: &mut MySqlConnection,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    /// A deadlock rolls back all rows, because it ends the transaction.
    async fn prove(
        context: &WriterContext<posthaste_sql_writer::MySql>,
        connection: &mut MySqlConnection,
        ledger: &Ledger,
        touched: bool,
    ) -> Result<HashSet<i64>, CommitError> {
        let rolled_back = |error| CommitError::RolledBack(failed::<MySql>(error));
        let present = present(context.statements(), connection, &ledger.seqs()).await.map_err(rolled_back)?;
        let in_doubt = present.is_empty() && touched;
        if in_doubt && !is_in_transaction(connection).await.map_err(rolled_back)? {
            return Err(match ledger.is_empty() {
                true => CommitError::Unknown(StoreError::NoTransaction),
                false => CommitError::RolledBack(StoreError::NoTransaction),
            });
        }
        Ok(present)
    }

    /// The server itself refuses a COMMIT in a cluster if another node has won.
    fn commit_error(error: sqlx::Error, _present: &HashSet<i64>) -> CommitError {
        match number(&error).is_some_and(proves_rollback) {
            true => CommitError::RolledBack(failed::<MySql>(error)),
            false => CommitError::Unknown(failed::<MySql>(error)),
        }
    }
}

async fn present(
    statements: &Statements,
    connection: &mut MySqlConnection,
    written: &[i64],
) -> sqlx::Result<HashSet<i64>> {
    let mut present = HashSet::with_capacity(written.len());
    for seqs in written.chunks(MAX_KEYS) {
        let query = bind_all(ready(&statements.present(seqs.len()).into()), seqs);
        for row in &query.fetch_all(&mut *connection).await? {
            present.insert(row.try_get(0)?);
        }
    }
    Ok(present)
}
