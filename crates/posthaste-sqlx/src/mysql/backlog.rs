//! What waits, by type or by tenant.

use std::time::Duration;

use posthaste::GLOBAL;
use posthaste::admin::{Backlog, BacklogBy, BacklogGroup, PageRequest};
use sqlx::mysql::MySqlRow;
use sqlx::{MySql, MySqlConnection, Row as _};

use super::value;
use crate::row_estimate::count;
use crate::sql::Sql;

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

/// The first value stands for no aggregate type.
pub(super) const BY_TYPE: &str = groups!("CONCAT(COALESCE(aggregate_type, ?), ':', event_type)");

pub(super) const BY_TENANT: &str = groups!("tenant_id");

pub(super) const MORE: &str = "SELECT COUNT(*) FROM (SELECT seq FROM `{table}` FORCE INDEX (`{table}_phase`)
  WHERE phase = 0 ORDER BY seq LIMIT 1 OFFSET 20000) AS next";

pub(super) async fn read(
    sql: &Sql,
    connection: &mut MySqlConnection,
    by: BacklogBy,
    limit: usize,
) -> Result<Backlog, sqlx::Error> {
    let limit = limit.min(PageRequest::MAX_LIMIT);
    let query = match by {
        BacklogBy::Type => sql.query::<MySql>(BY_TYPE).bind(GLOBAL),
        BacklogBy::Tenant => sql.query::<MySql>(BY_TENANT),
    };
    // One more than asked for shows whether there are more.
    let rows = query.bind(value::limit(limit + 1)).fetch_all(&mut *connection).await?;
    let groups = rows.iter().map(group).collect::<Result<Vec<_>, _>>()?;
    let next = sql.query::<MySql>(MORE).fetch_one(connection).await?;
    Ok(Backlog::largest(groups, limit, count(&next, 0)? > 0))
}

fn group(row: &MySqlRow) -> Result<BacklogGroup, sqlx::Error> {
    let age: i64 = row.try_get(2)?;
    let oldest = Some(Duration::from_micros(age.try_into().unwrap_or(0)));
    Ok(BacklogGroup::new(row.try_get(0)?, count(row, 1)?, oldest))
}
