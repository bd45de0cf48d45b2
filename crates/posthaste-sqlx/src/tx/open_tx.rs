//! Open transactions on a connection of the service's pool.

use std::ops::{Deref, DerefMut};

use sqlx::SqlSafeStr as _;
use sqlx::pool::PoolConnection;
use sqlx_core::transaction::TransactionManager as _;

use super::TxDialect;
use crate::cancel_safety::run_to_completion;

/// An open transaction and its connection. Dropped before it ends, it is rolled back.
#[derive(Debug)]
pub(crate) struct OpenTx<D: TxDialect> {
    pub(crate) connection: PoolConnection<D>,
    /// Whether a statement was begun that is not known to have ended, on a driver whose connection cannot be used again
    /// then: see [`TxDialect::SPOILED_BY_DROP`]. Set by [`Tx`](super::Tx) and its savepoints around each statement of
    /// theirs.
    pub(crate) interrupted: bool,
    /// Whether BEGIN has returned and the transaction is not known to have ended. Still `true` while COMMIT runs: the
    /// driver for SQLite expects a ROLLBACK from a caller that drops its COMMIT.
    open: bool,
    // Declared last, so that it is dropped last: the next writer then finds the lock free.
    permit: D::Permit,
}

impl<D: TxDialect> OpenTx<D> {
    /// Begins a transaction. If the caller is dropped, BEGIN still completes and is rolled back.
    pub(crate) async fn begin(connection: PoolConnection<D>, permit: D::Permit) -> sqlx::Result<Self> {
        let mut tx = Self { connection, interrupted: false, open: false, permit };
        run_to_completion(async move {
            D::TransactionManager::begin(&mut tx.connection, Some(D::BEGIN.into_sql_str())).await?;
            tx.open = true;
            Ok(tx)
        })
        .await
    }

    pub(crate) async fn commit(mut self) -> sqlx::Result<()> {
        let committed = D::TransactionManager::commit(&mut self.connection).await;
        self.open = committed.is_err();
        D::written(&mut self.permit);
        committed
    }

    pub(crate) async fn rollback(mut self) -> sqlx::Result<()> {
        if self.interrupted {
            // Dropping `self` closes the connection, and the server rolls back.
            return Ok(());
        }
        D::TransactionManager::rollback(&mut self.connection).await?;
        self.open = false;
        Ok(())
    }
}

impl<D: TxDialect> Deref for OpenTx<D> {
    type Target = D::Connection;
    fn deref(&self) -> &D::Connection {
        &self.connection
    }
}

impl<D: TxDialect> DerefMut for OpenTx<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        &mut self.connection
    }
}

impl<D: TxDialect> Drop for OpenTx<D> {
    fn drop(&mut self) {
        if self.interrupted {
            self.connection.close_on_drop();
        } else if self.open {
            D::TransactionManager::start_rollback(&mut self.connection);
        }
    }
}
