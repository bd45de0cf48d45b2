//! The SQL of SQLite for the backlog.

use std::time::Duration;

use posthaste::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite};

use crate::store::backlog::BacklogDialect;

/// Groups the oldest 20,000 pending rows, so that the number of rows it reads is bounded.
macro_rules! groups {
    ($key:literal) => {
        concat!(
            "SELECT ",
            $key,
            r#" AS key, count(*) AS total,
  min(CASE WHEN typeof(inserted_at) IN ('integer', 'real') THEN CAST(inserted_at AS INTEGER) END)
FROM (SELECT * FROM "{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2) ORDER BY seq LIMIT 20000)
GROUP BY 1 ORDER BY total DESC, key LIMIT ?"#
        )
    };
}

impl BacklogDialect for Sqlite {
    const BY_TYPE: &'static str = groups!("coalesce(aggregate_type, ?) || ':' || event_type");
    const BY_TENANT: &'static str = groups!("tenant_id");
    const MORE: &'static str = r#"SELECT count(*) FROM (
  SELECT 1 FROM "{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2) ORDER BY seq LIMIT 1 OFFSET 20000)"#;

    fn age(row: &SqliteRow) -> sqlx::Result<Option<Duration>> {
        let oldest: Option<i64> = row.try_get(2)?;
        Ok(oldest.map(|oldest| Timestamp::now().since(Timestamp::from_micros(oldest))))
    }
}
