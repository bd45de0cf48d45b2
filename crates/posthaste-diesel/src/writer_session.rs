//! Runs the statements of every Writer on a connection of diesel.

use diesel::QueryResult;
use diesel::query_builder::QueryFragment;
use diesel::result::Error;
use posthaste_sql_writer::{Database, RowValue, Session};

use crate::connection::{BackendOf, DieselConnection};
use crate::statement::{Statement, Value};

/// A database that reports the number of an inserted row in a query of its own.
pub(crate) trait NumbersRows: Database {
    /// Returns the number of the row inserted last. Diesel does not expose what its driver knows.
    const LAST_INSERT_ID: &'static str;
}

/// A connection with an open transaction.
pub(crate) struct WriterSession<'c, C>(pub(crate) &'c mut C);

impl<C> Session for WriterSession<'_, C>
where
    C: DieselConnection<Database: NumbersRows>,
    for<'v> Value<'v>: QueryFragment<BackendOf<C>>,
{
    type Error = Error;

    async fn texts(&mut self, text: &str) -> QueryResult<Vec<String>> {
        self.0.texts(Statement::<Value<'_>>::new(text, Vec::new())).await
    }

    async fn numbers(&mut self, text: &str, values: Vec<RowValue<'_>>) -> QueryResult<Vec<i64>> {
        self.0.numbers(Statement::new(text, bound(values))).await
    }

    async fn pairs(&mut self, text: &str, values: Vec<RowValue<'_>>) -> QueryResult<Vec<(i64, String)>> {
        self.0.pairs(Statement::new(text, bound(values))).await
    }

    async fn execute(&mut self, text: &str, values: Vec<RowValue<'_>>) -> QueryResult<u64> {
        Ok(self.0.execute(Statement::new(text, bound(values))).await? as u64)
    }

    async fn last_insert_id(&mut self) -> QueryResult<Option<i64>> {
        Ok(self.numbers(C::Database::LAST_INSERT_ID, Vec::new()).await?.first().copied())
    }
}

fn bound(values: Vec<RowValue<'_>>) -> Vec<Value<'_>> {
    values.into_iter().map(Value).collect()
}
