//! What looks wrong with the rows.

use posthaste::admin::{Finding, LostLeases, Tolerance};
use posthaste::{StoreError, Timestamp, decode_headers};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Postgres, Row as _};

use super::super::PgStore;
use super::super::value::Time;
use crate::sql::Sql;
use crate::store::diagnose::DiagnoseDialect;

/// The oldest rows only: a sign that something is wrong, not a census.
pub(in super::super) const DOUBTFUL: &str = r#"SELECT attempts < 0, headers, event_id, lost_leases FROM (
  SELECT event_id, headers, attempts, lost_leases FROM "{table}" WHERE status IN (0, 2)
  ORDER BY seq LIMIT 10000) AS oldest
WHERE attempts < 0 OR lost_leases > 0 OR trim(headers) NOT IN ('', 'null', '{}')"#;

impl DiagnoseDialect for Postgres {
    /// The first route behind this one for which events wait, and how many do: up to one more than a finding
    /// names.
    const PARKED: &'static str = r#"SELECT coalesce(min(parked), ''), count(*) FROM (
  SELECT parked FROM "{table}" WHERE parked = (
    SELECT parked FROM "{table}" WHERE parked > $1 ORDER BY parked LIMIT 1) LIMIT 100001) AS waiting"#;
    /// Age and reason of the oldest of them.
    const PARKED_ROWS: &'static str = r#"SELECT inserted_at, left(last_error, 201) FROM "{table}"
WHERE parked = $1 ORDER BY parked, seq LIMIT 100"#;
    const PAUSED_BY: &'static str = r#"SELECT route, paused_at, paused_by FROM "{table}_control" LIMIT 1000"#;
    const NEWEST: &'static str =
        r#"SELECT created_at, inserted_at FROM "{table}" ORDER BY seq DESC LIMIT 1000"#;

    async fn diagnose(store: &PgStore, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        super::findings(store, tolerance).await
    }

    async fn read_doubtful(sql: &Sql, connection: &mut PgConnection) -> sqlx::Result<(u64, LostLeases)> {
        let rows = sql.fresh::<Postgres>(DOUBTFUL).fetch_all(connection).await?;
        let mut lost = LostLeases::default();
        for row in &rows {
            lost.add(row.try_get(2)?, row.try_get::<i32, _>(3)?.try_into().unwrap_or(0));
        }
        Ok((rows.iter().filter(|row| is_unreadable(row)).count() as u64, lost))
    }

    async fn read_clock(connection: &mut PgConnection) -> sqlx::Result<Timestamp> {
        let query = sqlx::query("SELECT clock_timestamp()").persistent(false);
        Ok(query.fetch_one(connection).await?.try_get::<Time, _>(0)?.0)
    }
}

fn is_unreadable(row: &PgRow) -> bool {
    let negative = row.try_get(0).unwrap_or(true);
    negative || row.try_get(1).map_or(true, |headers| decode_headers(headers).is_err())
}
