//! Asynchronous connections (diesel-async). A caller may drop a call before it returns.

use diesel::QueryResult;
use diesel::connection::TransactionManagerStatus;
use diesel::query_builder::QueryFragment;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncConnection, RunQueryDsl as _, SimpleAsyncConnection as _, TransactionManager};

use super::{BackendOf, DieselConnection};
use crate::statement::Statement;

type Manager<C> = <C as AsyncConnection>::TransactionManager;

fn status<C: AsyncConnection>(connection: &mut C) -> &mut TransactionManagerStatus {
    Manager::<C>::transaction_manager_status_mut(connection)
}

/// Implements `DieselConnection`. `$begin` is a function that begins a transaction with a given statement.
macro_rules! diesel_connection {
    ($connection:ty, $database:ty, $begin:expr) => {
        impl DieselConnection for $connection {
            type Database = $database;
            const READS_INSERTS: bool = true;

            fn depth(&mut self) -> QueryResult<u32> {
                Ok(status(self).transaction_depth()?.map_or(0, u32::from))
            }

            fn give_up(&mut self) {
                status(self).set_in_error();
            }

            fn is_free(&mut self) -> bool {
                matches!(self.depth(), Ok(0)) && !Manager::<Self>::is_broken_transaction_manager(self)
            }

            async fn begin(&mut self, statement: &'static str) -> QueryResult<()> {
                $begin(self, statement).await
            }

            async fn savepoint(&mut self) -> QueryResult<()> {
                Manager::<Self>::begin_transaction(self).await
            }

            async fn commit(&mut self) -> QueryResult<()> {
                Manager::<Self>::commit_transaction(self).await
            }

            async fn rollback(&mut self) -> QueryResult<()> {
                Manager::<Self>::rollback_transaction(self).await
            }

            async fn execute_text(&mut self, text: &str) -> QueryResult<()> {
                self.batch_execute(text).await
            }

            async fn execute<V: QueryFragment<BackendOf<Self>> + Send>(
                &mut self,
                statement: Statement<'_, V>,
            ) -> QueryResult<usize> {
                statement.execute(self).await
            }

            async fn numbers<V: QueryFragment<BackendOf<Self>> + Send>(
                &mut self,
                statement: Statement<'_, V>,
            ) -> QueryResult<Vec<i64>> {
                statement.returning::<BigInt>().load(self).await
            }

            async fn texts<V: QueryFragment<BackendOf<Self>> + Send>(
                &mut self,
                statement: Statement<'_, V>,
            ) -> QueryResult<Vec<String>> {
                statement.returning::<Text>().load(self).await
            }

            async fn pairs<V: QueryFragment<BackendOf<Self>> + Send>(
                &mut self,
                statement: Statement<'_, V>,
            ) -> QueryResult<Vec<(i64, String)>> {
                statement.returning::<(BigInt, Text)>().load(self).await
            }

            async fn triples<V: QueryFragment<BackendOf<Self>> + Send>(
                &mut self,
                statement: Statement<'_, V>,
            ) -> QueryResult<Vec<(i64, String, String)>> {
                statement.returning::<(BigInt, Text, Text)>().load(self).await
            }
        }
    };
}

#[cfg(feature = "async-mysql")]
diesel_connection!(
    diesel_async::AsyncMysqlConnection,
    posthaste_sql_writer::MySql,
    diesel_async::AnsiTransactionManager::begin_transaction_sql
);
#[cfg(feature = "async-postgres")]
diesel_connection!(
    diesel_async::AsyncPgConnection,
    posthaste_sql_writer::Postgres,
    diesel_async::AnsiTransactionManager::begin_transaction_sql
);
#[cfg(feature = "async-sqlite")]
diesel_connection!(crate::AsyncSqliteConnection, posthaste_sql_writer::Sqlite, begin_on_its_thread);

/// The inner connection counts the transactions of a wrapped connection.
#[cfg(feature = "async-sqlite")]
async fn begin_on_its_thread(
    connection: &mut crate::AsyncSqliteConnection,
    statement: &'static str,
) -> QueryResult<()> {
    use diesel::connection::AnsiTransactionManager as Inside;
    connection.spawn_blocking(|connection| Inside::begin_transaction_sql(connection, statement)).await
}
