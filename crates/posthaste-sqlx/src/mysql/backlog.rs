//! The SQL of MySQL for the backlog.

use std::time::Duration;

use sqlx::mysql::MySqlRow;
use sqlx::{MySql, Row as _};

use crate::store::backlog::BacklogDialect;

/// Groups the oldest 20,000 pending rows, so that the number of rows it reads is bounded.
macro_rules! groups {
    ($key:literal) => {
        concat!(
            "SELECT grouping, COUNT(*) AS total, TIMESTAMPDIFF(MICROSECOND, MIN(inserted_at), UTC_TIMESTAMP(6))
FROM (SELECT ",
            $key,
            " AS grouping, inserted_at FROM `{table}` FORCE INDEX (`{table}_phase`) WHERE phase = 0
  ORDER BY seq LIMIT 20000) AS oldest
GROUP BY grouping ORDER BY total DESC, grouping LIMIT ?"
        )
    };
}

impl BacklogDialect for MySql {
    /// The first value is the name for events without an aggregate type.
    const BY_TYPE: &'static str = groups!("CONCAT(COALESCE(aggregate_type, ?), ':', event_type)");
    const BY_TENANT: &'static str = groups!("tenant_id");
    const MORE: &'static str = "SELECT COUNT(*) FROM (SELECT seq FROM `{table}` FORCE INDEX (`{table}_phase`)
  WHERE phase = 0 ORDER BY seq LIMIT 1 OFFSET 20000) AS next";

    fn age(row: &MySqlRow) -> sqlx::Result<Option<Duration>> {
        let age: i64 = row.try_get(2)?;
        Ok(Some(Duration::from_micros(age.try_into().unwrap_or(0))))
    }
}
