//! An open transaction on a connection of the service's pool.
//!
//! sqlx 0.9.0 loses its place in the conversation with the server when a caller goes away while a statement is
//! prepared: whoever borrows the connection next reads the answers to somebody else's questions, or waits for
//! ever. So a connection on which that may have happened is closed, and never lent again.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::{Database, MySql, MySqlConnection, SqlSafeStr as _};
use sqlx_core::transaction::TransactionManager as _;

use super::connection::BEGIN;
use crate::cancel_safety::run_to_completion;

type Manager = <MySql as Database>::TransactionManager;

/// Dropped unfinished, it is rolled back.
#[derive(Debug)]
pub(super) struct OpenTx {
    pub(super) connection: PoolConnection<MySql>,
    /// Whether a statement was begun, and nobody knows yet that it ended.
    pub(super) interrupted: bool,
}

impl OpenTx {
    /// Begins a transaction, or leaves no trace of it.
    pub(super) async fn begin(connection: PoolConnection<MySql>) -> Result<Self, sqlx::Error> {
        let mut tx = Self { connection, interrupted: false };
        run_to_completion(async move {
            Manager::begin(&mut tx.connection, Some(BEGIN.into_sql_str())).await?;
            Ok(tx)
        })
        .await
    }

    pub(super) async fn commit(mut self) -> Result<(), sqlx::Error> {
        Manager::commit(&mut self.connection).await
    }

    pub(super) async fn rollback(mut self) -> Result<(), sqlx::Error> {
        match self.interrupted {
            // The server rolls back what its client leaves.
            true => Ok(()),
            false => Manager::rollback(&mut self.connection).await,
        }
    }
}

impl Deref for OpenTx {
    type Target = MySqlConnection;
    fn deref(&self) -> &MySqlConnection {
        &self.connection
    }
}

impl DerefMut for OpenTx {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        &mut self.connection
    }
}

impl Drop for OpenTx {
    fn drop(&mut self) {
        match self.interrupted {
            true => self.connection.close_on_drop(),
            // Nothing, if it has ended.
            false => Manager::start_rollback(&mut self.connection),
        }
    }
}
