//! What waits, by type or by tenant.

use posthaste::GLOBAL;
use posthaste::admin::{Backlog, BacklogBy, BacklogGroup, PageRequest};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Postgres, Row as _};

use super::stats::read_in_order;
use super::value::Time;
use crate::row_estimate::count;
use crate::sql::Sql;

/// $1 stands for no aggregate type.
pub(super) const BY_TYPE: &str = r#"SELECT coalesce(aggregate_type, $1) || ':' || event_type AS key, count(*) AS total,
  min(inserted_at), statement_timestamp()
FROM (SELECT * FROM "{table}" WHERE status IN (0, 2) ORDER BY seq LIMIT 20000) AS oldest
GROUP BY 1 ORDER BY total DESC, key LIMIT {limit}"#;

pub(super) const BY_TENANT: &str = r#"SELECT tenant_id AS key, count(*) AS total, min(inserted_at), statement_timestamp()
FROM (SELECT * FROM "{table}" WHERE status IN (0, 2) ORDER BY seq LIMIT 20000) AS oldest
GROUP BY 1 ORDER BY total DESC, key LIMIT {limit}"#;

pub(super) const MORE: &str =
    r#"SELECT EXISTS (SELECT FROM "{table}" WHERE status IN (0, 2) ORDER BY seq OFFSET 20000 LIMIT 1)"#;

pub(super) async fn read(
    sql: &Sql,
    connection: &mut PgConnection,
    by: BacklogBy,
    limit: usize,
) -> Result<Backlog, sqlx::Error> {
    read_in_order(connection).await?;
    // One more than asked for shows whether there are more.
    let limit = limit.min(PageRequest::MAX_LIMIT);
    let query = match by {
        BacklogBy::Type => sql.limited::<Postgres>(&[BY_TYPE], limit + 1).bind(GLOBAL),
        BacklogBy::Tenant => sql.limited::<Postgres>(&[BY_TENANT], limit + 1),
    };
    let rows = query.persistent(false).fetch_all(&mut *connection).await?;
    let groups = rows.iter().map(group).collect::<Result<Vec<_>, _>>()?;
    let more = sql.fresh::<Postgres>(MORE).fetch_one(connection).await?.try_get(0)?;
    Ok(Backlog::largest(groups, limit, more))
}

fn group(row: &PgRow) -> Result<BacklogGroup, sqlx::Error> {
    let (oldest, now): (Time, Time) = (row.try_get(2)?, row.try_get(3)?);
    Ok(BacklogGroup::new(row.try_get(0)?, count(row, 1)?, Some(now.0.since(oldest.0))))
}
