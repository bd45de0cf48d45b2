//! Purges: old rows are deleted or moved to the archive.

use posthaste::store::{OnDone, Purge, Settle};
use posthaste::{StoreError, Timestamp};

use super::settle::SettledRow;
use super::{SqlStore, StoreDialect};
use crate::sql::Sql;

/// The SQL of one database for purges.
pub(crate) trait PurgeDialect: StoreDialect {
    fn purge(store: &SqlStore<Self>, purge: &Purge) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Purges on a connection that is already in a transaction.
    fn purge_in(
        sql: &Sql,
        connection: &mut Self::Connection,
        purge: &Purge,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    fn delete(
        sql: &Sql,
        connection: &mut Self::Connection,
        seqs: &[i64],
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Moves rows to the archive. `at` is the time of archiving; `None` means the clock of the store. Runs in a
    /// transaction.
    fn archive(
        sql: &Sql,
        connection: &mut Self::Connection,
        seqs: &[i64],
        at: Option<Timestamp>,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Makes sure that the archive has room for new rows.
    fn prepare_archive(_store: &SqlStore<Self>) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// Deletes or archives the settled rows that are DONE, as the settlement says. This transaction has locked them.
pub(crate) async fn move_done<D: PurgeDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
    settle: &Settle<'_>,
    changed: impl Iterator<Item = (i64, SettledRow)>,
) -> sqlx::Result<()> {
    let mut done: Vec<i64> = changed.filter(|(_, row)| row.is_done()).map(|(seq, _)| seq).collect();
    if done.is_empty() {
        return Ok(());
    }
    // Every transaction takes row locks in the order of `seq`, so that two of them cannot deadlock.
    done.sort_unstable();
    match settle.on_done {
        OnDone::Keep => Ok(()),
        OnDone::Delete => D::delete(sql, connection, &done).await,
        OnDone::Archive => D::archive(sql, connection, &done, settle.now).await,
    }
}
