//! Statements with their values, as diesel executes them.

use std::marker::PhantomData;

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::serialize::ToSql;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use posthaste_sql_writer::RowValue;

/// An SQL text that contains its placeholders, and a value for each of them. `A` is the SQL type of the rows that it
/// returns.
///
/// Unlike diesel's `sql_query`, the connection can keep it prepared, which saves a round trip.
#[derive(Debug)]
pub struct Statement<'s, V, A = ()> {
    text: &'s str,
    values: Vec<V>,
    is_cacheable: bool,
    row_type: PhantomData<A>,
}

impl<'s, V> Statement<'s, V> {
    pub(crate) fn new(text: &'s str, values: Vec<V>) -> Self {
        Self { text, values, is_cacheable: true, row_type: PhantomData }
    }

    /// Whether the connection may keep the statement prepared. Default: `true`.
    pub(crate) fn cacheable(self, is_cacheable: bool) -> Self {
        Self { is_cacheable, ..self }
    }

    pub(crate) fn returning<A>(self) -> Statement<'s, V, A> {
        let Self { text, values, is_cacheable, .. } = self;
        Statement { text, values, is_cacheable, row_type: PhantomData }
    }
}

impl<DB: Backend, V: QueryFragment<DB>, A> QueryFragment<DB> for Statement<'_, V, A> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        if !self.is_cacheable {
            out.unsafe_to_cache_prepared();
        }
        out.push_sql(self.text);
        self.values.iter().try_for_each(|value| value.walk_ast(out.reborrow()))
    }
}

/// Identified by its text and not by its type, because the text contains the name of the table.
impl<V, A> QueryId for Statement<'_, V, A> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<V, A> Query for Statement<'_, V, A> {
    type SqlType = A;
}

impl<V, A, C> diesel::RunQueryDsl<C> for Statement<'_, V, A> {}

/// A value that diesel can bind.
#[derive(Debug)]
pub(crate) struct Value<'v>(pub(crate) RowValue<'v>);

impl<DB: Backend> QueryFragment<DB> for Value<'_>
where
    str: ToSql<Text, DB>,
    i64: ToSql<BigInt, DB>,
    [u8]: ToSql<Binary, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        match &self.0 {
            RowValue::Text(Some(text)) => out.push_bind_param_value_only::<Text, str>(text),
            RowValue::Text(None) => out.push_bind_param_value_only::<Nullable<Text>, _>(&None::<&str>),
            RowValue::Int(int) => out.push_bind_param_value_only::<Nullable<BigInt>, _>(int),
            RowValue::Bytes(bytes) => out.push_bind_param_value_only::<Nullable<Binary>, _>(bytes),
        }
    }
}

impl<'v> Value<'v> {
    pub(crate) fn of(value: impl Into<RowValue<'v>>) -> Self {
        Self(value.into())
    }
}
