//! The backlog: pending events, grouped by type or by tenant.

use std::time::Duration;

use posthaste::GLOBAL;
use posthaste::admin::{Backlog, BacklogBy, BacklogGroup};

use super::stats::StatsDialect;
use crate::row::ReadValues;
use crate::sql::Sql;

/// The SQL of one database for the backlog. The statements return the type or the tenant, the number of pending events,
/// and the columns that [`age`](Self::age) reads.
pub(crate) trait BacklogDialect: StatsDialect {
    /// Binds the name for events without an aggregate type, and a limit.
    const BY_TYPE: &'static str;
    /// Binds a limit.
    const BY_TENANT: &'static str;
    /// The number of rows after those that were grouped, at most one.
    const MORE: &'static str;

    /// The age of the oldest event of a group.
    fn age(row: &Self::Row) -> sqlx::Result<Option<Duration>>;
}

pub(crate) async fn read_backlog<D: BacklogDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
    by: BacklogBy,
    limit: usize,
) -> sqlx::Result<Backlog> {
    D::read_in_order(connection).await?;
    // One more than the limit shows whether there are more groups.
    let query = match by {
        BacklogBy::Type => {
            D::limited(sql, D::BY_TYPE, |query| D::bind_text(query, GLOBAL.to_owned()), limit + 1)
        }
        BacklogBy::Tenant => D::limited(sql, D::BY_TENANT, |query| query, limit + 1),
    };
    let rows = D::fetch_all(query, connection).await?;
    let groups = rows.iter().map(group::<D>).collect::<Result<Vec<_>, _>>()?;
    let more = D::fetch_one(D::fresh(sql, D::MORE), connection).await?.count_at(0)? > 0;
    Ok(Backlog::largest(groups, limit, more))
}

fn group<D: BacklogDialect>(row: &D::Row) -> sqlx::Result<BacklogGroup> {
    Ok(BacklogGroup::new(row.text_at(0)?, row.count_at(1)?, D::age(row)?))
}
