//! Blocking connections (diesel).

use std::future::ready;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use diesel::connection::{AnsiTransactionManager as Manager, Connection, SimpleConnection as _};
use diesel::connection::{TransactionManager as _, TransactionManagerStatus};
use diesel::query_builder::QueryFragment;
use diesel::sql_types::{BigInt, Text};
use diesel::{QueryResult, RunQueryDsl as _};

use super::{BackendOf, DieselConnection};
use crate::statement::Statement;

/// The output of a future that awaits only calls of blocking connections. Such a future is ready when it is first
/// polled.
pub(crate) fn expect_ready<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a call of a blocking connection is ready when it is first polled"),
    }
}

fn status<C: Connection<TransactionManager = Manager>>(connection: &mut C) -> &mut TransactionManagerStatus {
    Manager::transaction_manager_status_mut(connection)
}

macro_rules! diesel_connection {
    ($connection:ty, $database:ty, $reads_inserts:expr) => {
        impl DieselConnection for $connection {
            type Database = $database;
            const READS_INSERTS: bool = $reads_inserts;

            fn depth(&mut self) -> QueryResult<u32> {
                Ok(status(self).transaction_depth()?.map_or(0, u32::from))
            }

            fn give_up(&mut self) {
                status(self).set_in_error();
            }

            fn is_free(&mut self) -> bool {
                matches!(self.depth(), Ok(0))
            }

            fn begin(&mut self, statement: &'static str) -> impl Future<Output = QueryResult<()>> + Send {
                ready(Manager::begin_transaction_sql(self, statement))
            }

            fn savepoint(&mut self) -> impl Future<Output = QueryResult<()>> + Send {
                ready(Manager::begin_transaction(self))
            }

            fn commit(&mut self) -> impl Future<Output = QueryResult<()>> + Send {
                ready(Manager::commit_transaction(self))
            }

            fn rollback(&mut self) -> impl Future<Output = QueryResult<()>> + Send {
                ready(Manager::rollback_transaction(self))
            }

            fn execute_text(&mut self, text: &str) -> impl Future<Output = QueryResult<()>> + Send {
                ready(self.batch_execute(text))
            }

            fn execute<V: QueryFragment<BackendOf<Self>> + Send>(
                &mut self,
                statement: Statement<'_, V>,
            ) -> impl Future<Output = QueryResult<usize>> + Send {
                ready(statement.execute(self))
            }

            fn numbers<V: QueryFragment<BackendOf<Self>> + Send>(
                &mut self,
                statement: Statement<'_, V>,
            ) -> impl Future<Output = QueryResult<Vec<i64>>> + Send {
                ready(statement.returning::<BigInt>().load(self))
            }

            fn texts<V: QueryFragment<BackendOf<Self>> + Send>(
                &mut self,
                statement: Statement<'_, V>,
            ) -> impl Future<Output = QueryResult<Vec<String>>> + Send {
                ready(statement.returning::<Text>().load(self))
            }

            fn pairs<V: QueryFragment<BackendOf<Self>> + Send>(
                &mut self,
                statement: Statement<'_, V>,
            ) -> impl Future<Output = QueryResult<Vec<(i64, String)>>> + Send {
                ready(statement.returning::<(BigInt, Text)>().load(self))
            }

            fn triples<V: QueryFragment<BackendOf<Self>> + Send>(
                &mut self,
                statement: Statement<'_, V>,
            ) -> impl Future<Output = QueryResult<Vec<(i64, String, String)>>> + Send {
                ready(statement.returning::<(BigInt, Text, Text)>().load(self))
            }
        }
    };
}

#[cfg(feature = "mysql")]
diesel_connection!(diesel::MysqlConnection, posthaste_sql_writer::MySql, false);
#[cfg(feature = "postgres")]
diesel_connection!(diesel::PgConnection, posthaste_sql_writer::Postgres, true);
#[cfg(feature = "sqlite")]
diesel_connection!(diesel::SqliteConnection, posthaste_sql_writer::Sqlite, true);
