//! The SQL of PostgreSQL for the backlog.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{Postgres, Row as _};

use super::value::Time;
use crate::store::backlog::BacklogDialect;

impl BacklogDialect for Postgres {
    /// $1 is the name for events without an aggregate type.
    const BY_TYPE: &'static str = r#"SELECT coalesce(aggregate_type, $1) || ':' || event_type AS key, count(*) AS total,
  min(inserted_at), statement_timestamp()
FROM (SELECT * FROM "{table}" WHERE status IN (0, 2) ORDER BY seq LIMIT 20000) AS oldest
GROUP BY 1 ORDER BY total DESC, key LIMIT {limit}"#;
    const BY_TENANT: &'static str = r#"SELECT tenant_id AS key, count(*) AS total, min(inserted_at), statement_timestamp()
FROM (SELECT * FROM "{table}" WHERE status IN (0, 2) ORDER BY seq LIMIT 20000) AS oldest
GROUP BY 1 ORDER BY total DESC, key LIMIT {limit}"#;
    const MORE: &'static str = r#"SELECT count(*) FROM (SELECT FROM "{table}" WHERE status IN (0, 2) ORDER BY seq OFFSET 20000 LIMIT 1) AS next"#;

    fn age(row: &PgRow) -> sqlx::Result<Option<Duration>> {
        let (oldest, now): (Time, Time) = (row.try_get(2)?, row.try_get(3)?);
        Ok(Some(now.0.since(oldest.0)))
    }
}
