//! A connection to the database of a foreign table, and statements with their values, whatever the database.

use async_trait::async_trait;
use posthaste::EventId;

use crate::row::ReadColumns;

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

/// A statement and what is bound to it.
#[derive(Clone, Debug)]
pub(crate) struct BoundQuery {
    pub(crate) text: String,
    pub(crate) values: Vec<BindValue>,
    /// Whether the same text is sent again and again, so that a connection may keep it prepared.
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

/// A row that a query returned, whatever the database.
pub(crate) type QueryRow = dyn ReadColumns + Send + Sync;

/// What is done with each row of a query.
pub(crate) type EachRow<'a> = dyn FnMut(&QueryRow) -> Result<(), sqlx::Error> + Send + 'a;

/// A text that a row must have.
pub(crate) fn text(row: &QueryRow, column: &str) -> Result<String, sqlx::Error> {
    let text = row.text(column).map_err(|wanted| unreadable(column, wanted))?;
    text.map(str::to_owned).ok_or_else(|| unreadable(column, "there"))
}

/// A number that a row must have.
pub(crate) fn number(row: &QueryRow, column: &str) -> Result<i64, sqlx::Error> {
    let number = row.number(column).map_err(|wanted| unreadable(column, wanted))?;
    number.ok_or_else(|| unreadable(column, "there"))
}

pub(crate) fn unreadable(column: &str, wanted: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("{column} is not {wanted}").into())
}

/// The ids of rows, in the column `event_id`.
pub(crate) fn id(row: &QueryRow) -> Result<EventId, sqlx::Error> {
    Ok(text(row, "event_id")?.into())
}

/// An open connection, whatever the database.
#[async_trait]
pub(crate) trait Session: Send {
    /// Runs a query and reads one row after the other, so that none is in memory twice.
    async fn each_row(&mut self, query: &BoundQuery, each: &mut EachRow<'_>) -> Result<(), sqlx::Error>;

    /// Runs a statement; returns how many rows it changed.
    async fn execute(&mut self, query: &BoundQuery) -> Result<u64, sqlx::Error>;

    /// Runs a text that is not prepared.
    async fn execute_raw(&mut self, text: &'static str) -> Result<(), sqlx::Error>;

    async fn ping(&mut self) -> Result<(), sqlx::Error>;

    async fn close(self: Box<Self>) -> Result<(), sqlx::Error>;
}

impl dyn Session + '_ {
    /// What a query returns, read row by row.
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

    /// The number of a query's one row, in this column.
    pub(crate) async fn number(&mut self, query: &BoundQuery, column: &str) -> Result<i64, sqlx::Error> {
        let numbers: Vec<i64> = self.rows(query, |row| number(row, column)).await?;
        numbers.first().copied().ok_or(sqlx::Error::RowNotFound)
    }
}
