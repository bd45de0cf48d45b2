//! Old rows leave, some of them to the archive.

use posthaste::StoreError;
use posthaste::store::Purge;

use super::{SqlStore, StoreDialect};
use crate::sql::Sql;

/// How one database deletes rows.
pub(crate) trait PurgeDialect: StoreDialect {
    fn purge(store: &SqlStore<Self>, purge: &Purge) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Purges on a connection that is in a transaction already.
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

    /// Sees that there is room for what is about to be archived.
    fn prepare_archive(_store: &SqlStore<Self>) -> impl Future<Output = ()> + Send {
        async {}
    }
}
