//! Transactions on MySQL and MariaDB: the proof before COMMIT, and the errors of COMMIT.

use std::collections::HashSet;

use posthaste::writer::Ledger;
use posthaste::{CommitError, StoreError};
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::mysql::{self, proves_rollback};
use sqlx::{MySql, MySqlConnection, MySqlPool};

use super::MySqlWriter;
use super::connection::{BEGIN, number};
use super::writer::is_in_transaction;
use crate::tx::TxDialect;
use crate::writer::failed;
use crate::writer_session::WriterSession;

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
        let mut session = WriterSession::<Self>::new(connection);
        let present = mysql::present(&mut session, context.statements(), &ledger.seqs()).await;
        let present = present.map_err(rolled_back)?;
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
