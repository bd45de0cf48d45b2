//! What waits, by type or by tenant.

use posthaste::admin::{Backlog, BacklogBy, BacklogGroup, PageRequest};
use posthaste::{GLOBAL, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use super::value;
use crate::row_estimate::count;
use crate::sql::Sql;

macro_rules! groups {
    ($key:literal) => {
        concat!(
            "SELECT ",
            $key,
            r#" AS key, count(*) AS total,
  min(CASE WHEN typeof(inserted_at) IN ('integer', 'real') THEN CAST(inserted_at AS INTEGER) END)
FROM (SELECT * FROM "{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2) ORDER BY seq LIMIT 20000)
GROUP BY 1 ORDER BY total DESC, key LIMIT ?1"#
        )
    };
}

/// ?2 stands for no aggregate type.
pub(super) const BY_TYPE: &str = groups!("coalesce(aggregate_type, ?2) || ':' || event_type");

pub(super) const BY_TENANT: &str = groups!("tenant_id");

pub(super) const MORE: &str = r#"SELECT count(*) FROM (
  SELECT 1 FROM "{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2) ORDER BY seq LIMIT 1 OFFSET 20000)"#;

pub(super) async fn read(
    sql: &Sql,
    connection: &mut SqliteConnection,
    by: BacklogBy,
    limit: usize,
) -> Result<Backlog, sqlx::Error> {
    let (limit, now) = (limit.min(PageRequest::MAX_LIMIT), Timestamp::now());
    // One more than asked for shows whether there are more.
    let rows = value::limit(limit + 1);
    let query = match by {
        BacklogBy::Type => sql.query(BY_TYPE).bind(rows).bind(GLOBAL),
        BacklogBy::Tenant => sql.query(BY_TENANT).bind(rows),
    };
    let rows = query.fetch_all(&mut *connection).await?;
    let groups = rows.iter().map(|row| group(row, now)).collect::<Result<Vec<_>, _>>()?;
    let next = sql.query(MORE).fetch_one(connection).await?;
    Ok(Backlog::largest(groups, limit, count(&next, 0)? > 0))
}

fn group(row: &SqliteRow, now: Timestamp) -> Result<BacklogGroup, sqlx::Error> {
    // A foreign program may have left anything there: what is not UTF-8 must not hide the others.
    let key = row.try_get_unchecked::<Option<&[u8]>, _>(0)?;
    let oldest = row.try_get::<Option<i64>, _>(2)?.map(|oldest| now.since(Timestamp::from_micros(oldest)));
    let key = key.map(|key| String::from_utf8_lossy(key).into_owned());
    Ok(BacklogGroup::new(key, count(row, 1)?, oldest))
}
