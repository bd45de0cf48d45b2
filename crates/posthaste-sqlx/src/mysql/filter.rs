//! The SQL of MySQL for filters.

use std::time::Duration;

use posthaste::Status;
use posthaste::admin::Filter;
use sqlx::MySql;

use super::value;
use crate::filter::{FilterDialect, pattern};
use crate::queries::SqlQuery;

impl FilterDialect for MySql {
    const ERROR_CONTAINS: &'static str = "o.last_error LIKE ?";
    const OLDER_THAN: &'static str =
        "TIMESTAMPDIFF(MICROSECOND, COALESCE(o.done_at, o.inserted_at), UTC_TIMESTAMP(6)) >= ?";

    fn from(filter: &Filter) -> (&'static str, Option<&'static str>) {
        match filter.status {
            Some(Status::Archived) => ("`{table}_archive` AS o", None),
            Some(Status::New | Status::Retry) => ("`{table}` AS o", Some("o.phase = 0")),
            Some(Status::Dead) => ("`{table}` AS o", Some("o.phase = 3")),
            Some(Status::Done) => ("`{table}` AS o", Some("o.phase = 1")),
            None => ("`{table}` AS o", None),
        }
    }

    fn contained(text: &str) -> String {
        pattern(text)
    }

    fn bind_age(query: SqlQuery<Self>, age: Duration) -> SqlQuery<Self> {
        query.bind(value::delay(age))
    }
}
