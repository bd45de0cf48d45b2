//! The SQL of SQLite for filters.

use std::time::Duration;

use posthaste::admin::Filter;
use posthaste::{Status, Timestamp};
use sqlx::Sqlite;

use crate::filter::FilterDialect;
use crate::queries::SqlQuery;

impl FilterDialect for Sqlite {
    const ERROR_CONTAINS: &'static str = "instr(o.last_error, ?) > 0";
    const OLDER_THAN: &'static str = "coalesce(o.done_at, o.inserted_at) <= ?";

    /// The smallest index that contains all matching rows.
    fn from(filter: &Filter) -> (&'static str, Option<&'static str>) {
        match filter.status {
            Some(Status::Archived) => (r#""{table}_archive" AS o"#, None),
            _ if filter.id.is_some() => (r#""{table}" AS o"#, None),
            Some(Status::New | Status::Retry) => {
                (r#""{table}" AS o INDEXED BY "{table}_pending""#, Some("o.status IN (0, 2)"))
            }
            Some(Status::Dead) => (r#""{table}" AS o INDEXED BY "{table}_dead""#, Some("o.status = 3")),
            // No index contains all of them, and the table itself has the order of `seq`.
            Some(Status::Done) | None => (r#""{table}" AS o"#, None),
        }
    }

    fn bind_age(query: SqlQuery<Self>, age: Duration) -> SqlQuery<Self> {
        query.bind((Timestamp::now() - age).as_micros())
    }
}
