//! Transactions on SQLite: their turn in the write queue, the proof before COMMIT, and the errors of COMMIT.

use std::collections::HashSet;

use posthaste::writer::Ledger;
use posthaste::{CommitError, StoreError};
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::sqlite;
use sqlx::{Sqlite, SqliteConnection, SqlitePool};

use super::SqliteWriter;
use super::connection::BEGIN;
use super::write_queue::WritePermit;
use crate::tx::TxDialect;
use crate::writer::failed;
use crate::writer_session::WriterSession;

impl TxDialect for Sqlite {
    const BEGIN: &'static str = BEGIN;

    type Permit = WritePermit;

    async fn acquire_permit(
        writer: &SqliteWriter,
        pool: &SqlitePool,
        connection: &mut SqliteConnection,
    ) -> Result<WritePermit, StoreError> {
        writer.state.expect_database_of(&writer.context, pool, connection).await?;
        Ok(writer.state.write_queue.acquire().await)
    }

    fn written(permit: &mut WritePermit) {
        permit.written();
    }

    async fn prove(
        context: &WriterContext<posthaste_sql_writer::Sqlite>,
        connection: &mut SqliteConnection,
        ledger: &Ledger,
        _touched: bool,
    ) -> Result<HashSet<i64>, CommitError> {
        let mut session = WriterSession::<Self>::new(connection);
        let present = sqlite::present(&mut session, context.statements(), ledger.ids_by_seq()).await;
        present.map_err(|error| CommitError::RolledBack(failed::<Self>(error)))
    }

    /// A transaction whose COMMIT SQLite refused is rolled back when its guard is dropped. If no transaction was open
    /// any more, the outcome is a rollback if the proof found no rows, and unknown otherwise.
    fn commit_error(error: sqlx::Error, present: &HashSet<i64>) -> CommitError {
        let refused = error.as_database_error().map(|refused| refused.message().contains("no transaction"));
        match refused {
            Some(ended) if !ended || present.is_empty() => CommitError::RolledBack(failed::<Sqlite>(error)),
            _ => CommitError::Unknown(failed::<Sqlite>(error)),
        }
    }
}
