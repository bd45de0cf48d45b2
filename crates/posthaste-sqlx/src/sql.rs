//! SQL texts: the only place where SQL is put together at run time. The name of the table and numbers of rows are
//! inserted into constant texts of this crate or of `posthaste-sql-writer`. Values are always bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use posthaste_sql_writer::TableRef;
use sqlx::database::HasStatementCache;
use sqlx::query::{Query, QueryScalar};
use sqlx::{AssertSqlSafe, Database};

use crate::{SchemaName, TableName};

/// The statements about one outbox table, made from texts into which [`TableRef`] inserts its name.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    table_ref: TableRef,
    persistent: bool,
    /// Texts that were put together before, keyed by the address and length of their template. Clones share them.
    known: Arc<Mutex<Known>>,
}

type Known = HashMap<(usize, usize), Arc<str>>;

impl Sql {
    pub(crate) fn new(table: TableName) -> Self {
        Self { table_ref: TableRef::new(table), persistent: true, known: Arc::default() }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn in_schema(self, schema: SchemaName) -> Self {
        Self { table_ref: self.table_ref.in_schema(schema), known: Arc::default(), ..self }
    }

    /// Statements that are not kept prepared, because the next one may reach another server connection.
    #[cfg(feature = "postgres")]
    pub(crate) fn uncacheable(self) -> Self {
        Self { persistent: false, ..self }
    }

    pub(crate) fn table_ref(&self) -> &TableRef {
        &self.table_ref
    }

    pub(crate) fn table(&self) -> &TableName {
        self.table_ref.table()
    }

    /// The options that name this table on the command line.
    pub(crate) fn options(&self) -> String {
        match self.table_ref.schema() {
            Some(schema) if *schema != SchemaName::default() => {
                format!("--table {} --schema {schema}", self.table())
            }
            _ => format!("--table {}", self.table()),
        }
    }

    /// A statement about the table.
    pub(crate) fn query<DB: Database + HasStatementCache>(
        &self,
        template: &'static str,
    ) -> Query<'static, DB, DB::Arguments> {
        sqlx::query(AssertSqlSafe(self.known(template))).persistent(self.persistent)
    }

    /// A statement that is planned each time. A cached plan may have been made when the table was empty.
    #[cfg(feature = "postgres")]
    pub(crate) fn fresh<DB: Database + HasStatementCache>(
        &self,
        template: &'static str,
    ) -> Query<'static, DB, DB::Arguments> {
        self.query(template).persistent(false)
    }

    /// A statement in several parts, with a number for `{limit}`: a planner that knows the number does not read the
    /// whole table for a few rows.
    #[cfg(feature = "postgres")]
    pub(crate) fn limited<DB: Database + HasStatementCache>(
        &self,
        parts: &[&'static str],
        limit: usize,
    ) -> Query<'static, DB, DB::Arguments> {
        let text = self.text(&parts.concat()).replace("{limit}", &self::limit(limit).to_string());
        sqlx::query(AssertSqlSafe(text)).persistent(self.persistent)
    }

    /// A statement that takes samples at several positions: the template once per position, with the position for
    /// `{place}`. The positions are part of the text, so a cached plan would be for other positions.
    pub(crate) fn at_positions<DB: Database + HasStatementCache>(
        &self,
        template: &str,
        positions: &[i64],
    ) -> Query<'static, DB, DB::Arguments> {
        let template =
            self.text(template).replace("{rows}", &crate::row_estimate::ROWS_PER_SAMPLE.to_string());
        let samples: Vec<String> =
            positions.iter().map(|position| template.replace("{place}", &position.to_string())).collect();
        sqlx::query(AssertSqlSafe(samples.join(" UNION ALL "))).persistent(false)
    }

    /// A statement about a list: `{keys}` becomes this many placeholders.
    #[cfg(feature = "mysql")]
    pub(crate) fn listed(
        &self,
        template: &'static str,
        placeholders: usize,
    ) -> Query<'static, sqlx::MySql, sqlx::mysql::MySqlArguments> {
        let keys = vec!["?"; placeholders].join(", ");
        sqlx::query(AssertSqlSafe(self.text(template).replace("{keys}", &keys)))
    }

    /// Like [`query`](Self::query), for one value.
    pub(crate) fn scalar<DB: Database + HasStatementCache, T>(
        &self,
        template: &'static str,
    ) -> QueryScalar<'static, DB, T, DB::Arguments>
    where
        (T,): for<'r> sqlx::FromRow<'r, DB::Row>,
    {
        sqlx::query_scalar(AssertSqlSafe(self.text(template))).persistent(self.persistent)
    }

    /// A statement made of several texts.
    pub(crate) fn query_of<DB: Database + HasStatementCache>(
        &self,
        parts: &[&str],
    ) -> Query<'static, DB, DB::Arguments> {
        sqlx::query(AssertSqlSafe(self.text(&parts.concat()))).persistent(self.persistent)
    }

    /// Several statements in one text, without values.
    pub(crate) fn script(&self, template: &str) -> sqlx::RawSql {
        sqlx::raw_sql(AssertSqlSafe(self.text(template)))
    }

    fn known(&self, template: &'static str) -> Arc<str> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            known.entry((template.as_ptr().addr(), template.len())).or_insert_with(|| self.text(template)),
        )
    }

    /// The text with the name of the table.
    pub(crate) fn text(&self, template: &str) -> Arc<str> {
        self.table_ref.text(template).into()
    }
}

/// A limit within the range of SQL integers.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A statement of `posthaste-sql-writer`, which already contains the name of the table.
pub(crate) fn ready<DB: Database + HasStatementCache>(text: &Arc<str>) -> Query<'static, DB, DB::Arguments> {
    sqlx::query(AssertSqlSafe(Arc::clone(text)))
}
