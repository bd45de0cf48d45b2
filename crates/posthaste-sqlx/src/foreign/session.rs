//! Database sessions and bound statements, independent of the database.

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use posthaste::EventId;
use sqlx::Connection;

use crate::queries::SqlQuery;
use crate::row::ReadColumns;
use crate::store::admin::AdminDialect;

/// A value to bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BindValue {
    Text(Option<String>),
    Int(i64),
    #[cfg(feature = "postgres")]
    Texts(Vec<Option<String>>),
    #[cfg(feature = "postgres")]
    Ints(Vec<i64>),
}

impl From<&str> for BindValue {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}

/// A statement with its values.
#[derive(Clone, Debug)]
pub(crate) struct BoundQuery {
    pub(crate) text: String,
    pub(crate) values: Vec<BindValue>,
    /// True if the same text is sent often, so that the connection may keep it as a prepared statement.
    pub(crate) is_repeated: bool,
}

impl BoundQuery {
    pub(crate) fn new(text: impl Into<String>, values: Vec<BindValue>) -> Self {
        Self { text: text.into(), values, is_repeated: false }
    }

    #[cfg(feature = "mysql")]
    pub(crate) fn repeated(self) -> Self {
        Self { is_repeated: true, ..self }
    }
}

/// A row of a query, of any database.
pub(crate) type QueryRow = dyn ReadColumns + Send + Sync;

/// Runs for each row of a query.
pub(crate) type EachRow<'a> = dyn FnMut(&QueryRow) -> Result<(), sqlx::Error> + Send + 'a;

/// A text that must not be NULL.
pub(crate) fn text(row: &QueryRow, column: &str) -> Result<String, sqlx::Error> {
    let text = row.text(column).map_err(|wanted| unreadable(column, wanted))?;
    text.map(str::to_owned).ok_or_else(|| unreadable(column, "there"))
}

/// A number that must not be NULL.
pub(crate) fn number(row: &QueryRow, column: &str) -> Result<i64, sqlx::Error> {
    let number = row.number(column).map_err(|wanted| unreadable(column, wanted))?;
    number.ok_or_else(|| unreadable(column, "there"))
}

pub(crate) fn unreadable(column: &str, wanted: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("{column} is not {wanted}").into())
}

/// The event id in the column `event_id`.
pub(crate) fn id(row: &QueryRow) -> Result<EventId, sqlx::Error> {
    Ok(text(row, "event_id")?.into())
}

/// An open connection, of any database.
#[async_trait]
pub(crate) trait Session: Send {
    /// Runs a query and passes on one row at a time, so that each is in memory only once.
    async fn each_row(&mut self, query: &BoundQuery, each: &mut EachRow<'_>) -> Result<(), sqlx::Error>;

    /// Runs a statement. Returns the number of rows that it changed.
    async fn execute(&mut self, query: &BoundQuery) -> Result<u64, sqlx::Error>;

    /// Runs a text without preparing it.
    async fn execute_raw(&mut self, text: &'static str) -> Result<(), sqlx::Error>;

    async fn ping(&mut self) -> Result<(), sqlx::Error>;

    async fn close(self: Box<Self>) -> Result<(), sqlx::Error>;
}

/// A database whose connections are [`Session`]s.
pub(crate) trait SessionDialect: AdminDialect {
    /// A query with its values.
    fn bound(query: &BoundQuery) -> SqlQuery<Self>;
}

#[async_trait]
impl<C, D> Session for C
where
    C: Connection<Database = D> + Send,
    D: SessionDialect<Connection = C>,
{
    async fn each_row(&mut self, query: &BoundQuery, each: &mut EachRow<'_>) -> Result<(), sqlx::Error> {
        let mut rows = D::fetch(D::bound(query), self);
        while let Some(row) = rows.try_next().await? {
            each(&row)?;
        }
        Ok(())
    }

    async fn execute(&mut self, query: &BoundQuery) -> Result<u64, sqlx::Error> {
        Ok(D::rows_affected(&D::execute(D::bound(query), self).await?))
    }

    async fn execute_raw(&mut self, text: &'static str) -> Result<(), sqlx::Error> {
        D::run_script(sqlx::raw_sql(text), self).await
    }

    async fn ping(&mut self) -> Result<(), sqlx::Error> {
        Connection::ping(self).await
    }

    async fn close(self: Box<Self>) -> Result<(), sqlx::Error> {
        Connection::close(*self).await
    }
}

impl dyn Session + '_ {
    /// Runs a query and collects what `read` makes of each row.
    pub(crate) async fn rows<T: Send, All: Default + Extend<T> + Send>(
        &mut self,
        query: &BoundQuery,
        mut read: impl FnMut(&QueryRow) -> Result<T, sqlx::Error> + Send,
    ) -> Result<All, sqlx::Error> {
        let mut all = All::default();
        let mut each = |row: &QueryRow| read(row).map(|row| all.extend([row]));
        self.each_row(query, &mut each).await?;
        Ok(all)
    }

    /// The number in this column of the only row of a query.
    pub(crate) async fn number(&mut self, query: &BoundQuery, column: &str) -> Result<i64, sqlx::Error> {
        let numbers: Vec<i64> = self.rows(query, |row| number(row, column)).await?;
        numbers.first().copied().ok_or(sqlx::Error::RowNotFound)
    }
}
