//! The one place where SQL is put together at run time: a table's name goes into a text that stands
//! in this crate. Values are always bound.

use std::sync::Arc;

use sqlx::query::{Query, QueryScalar};
use sqlx::{AssertSqlSafe, Database};

use crate::TableName;

/// Writes statements about one outbox table.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    table: TableName,
}

impl Sql {
    pub(crate) fn new(table: TableName) -> Self {
        Self { table }
    }

    pub(crate) fn table(&self) -> &TableName {
        &self.table
    }

    /// A statement in which every `{table}` stands for the table's name.
    pub(crate) fn query<DB: Database>(&self, template: &'static str) -> Query<'static, DB, DB::Arguments> {
        sqlx::query(AssertSqlSafe(self.text(template)))
    }

    /// The same, for one value.
    pub(crate) fn scalar<DB: Database, T>(
        &self,
        template: &'static str,
    ) -> QueryScalar<'static, DB, T, DB::Arguments>
    where
        (T,): for<'r> sqlx::FromRow<'r, DB::Row>,
    {
        sqlx::query_scalar(AssertSqlSafe(self.text(template)))
    }

    /// A statement made of several such texts.
    pub(crate) fn query_of<DB: Database>(&self, parts: &[&'static str]) -> Query<'static, DB, DB::Arguments> {
        sqlx::query(AssertSqlSafe(self.text(&parts.concat())))
    }

    /// Several statements in one text, without values.
    pub(crate) fn script(&self, template: &'static str) -> sqlx::RawSql {
        sqlx::raw_sql(AssertSqlSafe(self.text(template)))
    }

    /// The text itself, for people to read.
    pub(crate) fn text(&self, template: &str) -> Arc<str> {
        template.replace("{table}", self.table.as_str()).into()
    }
}
