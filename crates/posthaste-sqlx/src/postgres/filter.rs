//! The SQL of PostgreSQL for filters.

use std::time::Duration;

use posthaste::Status;
use posthaste::admin::Filter;
use sqlx::Postgres;

use super::value;
use crate::filter::{FilterDialect, pattern};
use crate::queries::SqlQuery;

impl FilterDialect for Postgres {
    const ERROR_CONTAINS: &'static str = "o.last_error LIKE ?";
    const OLDER_THAN: &'static str = "coalesce(o.done_at, o.inserted_at) <= statement_timestamp() - ?";

    fn from(filter: &Filter) -> (&'static str, Option<&'static str>) {
        match filter.status {
            Some(Status::Archived) => (r#""{table}_archive" AS o"#, None),
            Some(Status::New | Status::Retry) => (r#""{table}" AS o"#, Some("o.status IN (0, 2)")),
            Some(Status::Dead) => (r#""{table}" AS o"#, Some("o.status = 3")),
            Some(Status::Done) => (r#""{table}" AS o"#, Some("o.status = 1")),
            None => (r#""{table}" AS o"#, None),
        }
    }

    fn contained(text: &str) -> String {
        pattern(text)
    }

    /// Text of PostgreSQL cannot contain NUL, so each NUL is replaced as when a text is stored.
    fn text(text: &str) -> String {
        value::text(text).into_owned()
    }

    fn placeholder(n: usize) -> String {
        format!("${n}")
    }

    fn bind_age(query: SqlQuery<Self>, age: Duration) -> SqlQuery<Self> {
        query.bind(value::interval(age))
    }
}
