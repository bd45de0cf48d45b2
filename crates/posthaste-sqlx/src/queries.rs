//! Queries of any database.
//!
//! sqlx states the abilities of a database in `where` clauses, which every generic function would have to repeat. The
//! only implementation of [`Queries`] contains them once.

#[cfg(any(feature = "mysql", feature = "sqlite"))]
use std::borrow::Cow;

#[cfg(any(feature = "mysql", feature = "postgres"))]
use futures_util::stream::BoxStream;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
use posthaste_sql_writer::RowValue;
use sqlx::database::HasStatementCache;
use sqlx::query::Query;
use sqlx::{Database, Encode, Executor, IntoArguments, RawSql, Type};

use crate::row::{ReadColumns, ReadValues};

/// A query that owns its values.
pub(crate) type SqlQuery<DB> = Query<'static, DB, <DB as Database>::Arguments>;

/// Binds values and runs queries.
pub(crate) trait Queries: Database<Row: ReadColumns + ReadValues> + HasStatementCache {
    fn bind_int(query: SqlQuery<Self>, value: i64) -> SqlQuery<Self>;

    fn bind_text(query: SqlQuery<Self>, value: String) -> SqlQuery<Self>;

    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    fn bind_value(query: SqlQuery<Self>, value: RowValue<'_>) -> SqlQuery<Self>;

    fn fetch_all(
        query: SqlQuery<Self>,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Vec<Self::Row>>> + Send;

    /// Streams the rows, so that only one is in memory at a time.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    fn fetch(
        query: SqlQuery<Self>,
        connection: &mut Self::Connection,
    ) -> BoxStream<'_, sqlx::Result<Self::Row>>;

    fn fetch_one(
        query: SqlQuery<Self>,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Self::Row>> + Send;

    fn fetch_optional(
        query: SqlQuery<Self>,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Option<Self::Row>>> + Send;

    fn execute(
        query: SqlQuery<Self>,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Self::QueryResult>> + Send;

    /// Runs several statements without values.
    fn run_script(
        script: RawSql,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;
}

impl<DB: HasStatementCache> Queries for DB
where
    DB: Database<Row: ReadColumns + ReadValues>,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'t> i64: Encode<'t, DB> + Type<DB>,
    for<'t> String: Encode<'t, DB> + Type<DB>,
    Vec<u8>: Type<DB>,
    for<'t> Option<i64>: Encode<'t, DB>,
    for<'t> Option<String>: Encode<'t, DB>,
    for<'t> Option<Vec<u8>>: Encode<'t, DB>,
{
    fn bind_int(query: SqlQuery<Self>, value: i64) -> SqlQuery<Self> {
        query.bind(value)
    }

    fn bind_text(query: SqlQuery<Self>, value: String) -> SqlQuery<Self> {
        query.bind(value)
    }

    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    fn bind_value(query: SqlQuery<Self>, value: RowValue<'_>) -> SqlQuery<Self> {
        match value {
            RowValue::Text(text) => query.bind(text.map(Cow::into_owned)),
            RowValue::Int(int) => query.bind(int),
            RowValue::Bytes(bytes) => query.bind(bytes.map(<[u8]>::to_vec)),
        }
    }

    async fn fetch_all(
        query: SqlQuery<Self>,
        connection: &mut Self::Connection,
    ) -> sqlx::Result<Vec<Self::Row>> {
        query.fetch_all(connection).await
    }

    #[cfg(any(feature = "mysql", feature = "postgres"))]
    fn fetch(
        query: SqlQuery<Self>,
        connection: &mut Self::Connection,
    ) -> BoxStream<'_, sqlx::Result<Self::Row>> {
        query.fetch(connection)
    }

    async fn fetch_one(query: SqlQuery<Self>, connection: &mut Self::Connection) -> sqlx::Result<Self::Row> {
        query.fetch_one(connection).await
    }

    async fn fetch_optional(
        query: SqlQuery<Self>,
        connection: &mut Self::Connection,
    ) -> sqlx::Result<Option<Self::Row>> {
        query.fetch_optional(connection).await
    }

    async fn execute(
        query: SqlQuery<Self>,
        connection: &mut Self::Connection,
    ) -> sqlx::Result<Self::QueryResult> {
        query.execute(connection).await
    }

    async fn run_script(script: RawSql, connection: &mut Self::Connection) -> sqlx::Result<()> {
        script.execute(connection).await.map(drop)
    }
}
