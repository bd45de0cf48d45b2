//! The transaction depth that the driver counts on a connection, and connections on which it is zero.

use sqlx::pool::PoolConnection;
use sqlx::{Database, Pool};
use sqlx_core::transaction::TransactionManager as _;

/// A connection that can begin a transaction.
///
/// A server or SQLite may roll back by itself, when a disk is full for example, and the driver goes on to
/// count a transaction that no longer is: such a connection can begin none ever again, so another takes its
/// place.
pub(crate) async fn acquire<DB: Database>(pool: &Pool<DB>) -> sqlx::Result<PoolConnection<DB>> {
    loop {
        let connection = pool.acquire().await?;
        if transaction_depth::<DB>(&connection) == 0 {
            return Ok(connection);
        }
        connection.close().await?;
    }
}

/// How many transactions and savepoints the driver counts on this connection.
pub(crate) fn transaction_depth<DB: Database>(connection: &DB::Connection) -> usize {
    DB::TransactionManager::get_transaction_depth(connection)
}
