//! Runs the statements that the Writers of all drivers share on a connection of sqlx.

use posthaste_sql_writer::{RowValue, Session};

use crate::queries::{Queries, SqlQuery};
use crate::row::ReadValues as _;
use crate::sql::ready;

/// What a Writer's session needs to know of the result of an INSERT.
pub(crate) trait WriterSessionDialect: Queries {
    /// The number of inserted rows, and the `seq` that the last of them got.
    fn inserted(result: &Self::QueryResult) -> (u64, Option<i64>);
}

/// A connection, and the number of the row that it inserted last.
pub(crate) struct WriterSession<'c, D: WriterSessionDialect> {
    connection: &'c mut D::Connection,
    last_insert_id: Option<i64>,
}

impl<'c, D: WriterSessionDialect> WriterSession<'c, D> {
    pub(crate) fn new(connection: &'c mut D::Connection) -> Self {
        Self { connection, last_insert_id: None }
    }

    async fn rows(&mut self, text: &str, values: Vec<RowValue<'_>>) -> sqlx::Result<Vec<D::Row>> {
        D::fetch_all(query::<D>(text, values), self.connection).await
    }
}

fn query<D: Queries>(text: &str, values: Vec<RowValue<'_>>) -> SqlQuery<D> {
    values.into_iter().fold(ready(&text.into()), D::bind_value)
}

impl<D: WriterSessionDialect> Session for WriterSession<'_, D> {
    type Error = sqlx::Error;

    async fn texts(&mut self, text: &str) -> sqlx::Result<Vec<String>> {
        let rows = self.rows(text, Vec::new()).await?;
        rows.iter().map(|row| Ok(row.text_at(0)?.unwrap_or_default())).collect()
    }

    async fn numbers(&mut self, text: &str, values: Vec<RowValue<'_>>) -> sqlx::Result<Vec<i64>> {
        self.rows(text, values).await?.iter().map(|row| row.int_at(0)).collect()
    }

    async fn pairs(&mut self, text: &str, values: Vec<RowValue<'_>>) -> sqlx::Result<Vec<(i64, String)>> {
        let rows = self.rows(text, values).await?;
        rows.iter().map(|row| Ok((row.int_at(0)?, row.text_at(1)?.unwrap_or_default()))).collect()
    }

    async fn execute(&mut self, text: &str, values: Vec<RowValue<'_>>) -> sqlx::Result<u64> {
        let result = D::execute(query::<D>(text, values), self.connection).await?;
        let (rows, last) = D::inserted(&result);
        self.last_insert_id = last;
        Ok(rows)
    }

    async fn last_insert_id(&mut self) -> sqlx::Result<Option<i64>> {
        Ok(self.last_insert_id)
    }
}
