//! The transaction depth that sqlx counts on a connection.

use sqlx::pool::PoolConnection;
use sqlx::{Database, Pool};
use sqlx_core::transaction::TransactionManager as _;

/// Takes a connection on which a transaction can begin.
///
/// A server or SQLite may roll back by itself, when a disk is full for example. The driver then still counts the
/// transaction and can never begin another one on that connection, so another connection takes its place.
pub(crate) async fn acquire<DB: Database>(pool: &Pool<DB>) -> sqlx::Result<PoolConnection<DB>> {
    loop {
        let connection = pool.acquire().await?;
        if transaction_depth::<DB>(&connection) == 0 {
            return Ok(connection);
        }
        connection.close().await?;
    }
}

/// The number of transactions and savepoints that the driver counts on this connection.
pub(crate) fn transaction_depth<DB: Database>(connection: &DB::Connection) -> usize {
    DB::TransactionManager::get_transaction_depth(connection)
}
