//! What looks wrong with the rows.

use posthaste::admin::{LostLeases, ParkedRoute, PausedRoute, RowObservations};
use posthaste::{Timestamp, decode_headers};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Postgres, Row as _};

use super::super::stats::read_in_order;
use super::super::value::{self, Time};
use crate::findings::ParkedRoutes;
use crate::row_estimate::count;
use crate::sql::Sql;

/// The oldest rows only: a sign that something is wrong, not a census.
pub(in super::super) const DOUBTFUL: &str = r#"SELECT attempts < 0, headers, event_id, lost_leases FROM (
  SELECT event_id, headers, attempts, lost_leases FROM "{table}" WHERE status IN (0, 2)
  ORDER BY seq LIMIT 10000) AS oldest
WHERE attempts < 0 OR lost_leases > 0 OR trim(headers) NOT IN ('', 'null', '{}')"#;

/// The first route behind this one for which events wait, and how many do: up to one more than a finding
/// names.
pub(in super::super) const PARKED: &str = r#"SELECT coalesce(min(parked), ''), count(*) FROM (
  SELECT parked FROM "{table}" WHERE parked = (
    SELECT parked FROM "{table}" WHERE parked > $1 ORDER BY parked LIMIT 1) LIMIT 100001) AS waiting"#;

/// Age and reason of the oldest of them.
pub(in super::super) const PARKED_ROWS: &str = r#"SELECT inserted_at, left(last_error, 201) FROM "{table}"
WHERE parked = $1 ORDER BY parked, seq LIMIT 100"#;

const PAUSED: &str = r#"SELECT route, paused_at, paused_by FROM "{table}_control" LIMIT 1000"#;

pub(in super::super) const NEWEST: &str =
    r#"SELECT created_at, inserted_at FROM "{table}" ORDER BY seq DESC LIMIT 1000"#;

pub(super) async fn read(sql: &Sql, connection: &mut PgConnection) -> Result<RowObservations, sqlx::Error> {
    read_in_order(connection).await?;
    let doubtful = sql.fresh::<Postgres>(DOUBTFUL).fetch_all(&mut *connection).await?;
    let newest = sql.fresh::<Postgres>(NEWEST).fetch_all(&mut *connection).await?;
    let mut observed = RowObservations::default();
    observed.unreadable = doubtful.iter().filter(|row| is_unreadable(row)).count() as u64;
    observed.lost_leases = lost_leases(&doubtful)?;
    observed.parked = read_parked(sql, connection).await?;
    observed.paused = read_paused(sql, connection).await?;
    let written = newest.iter().map(|row| Ok((time(row, 0)?, time(row, 1)?)));
    observed.written = written.collect::<Result<_, sqlx::Error>>()?;
    observed.now = read_clock(connection).await?;
    Ok(observed)
}

pub(super) async fn read_clock(connection: &mut PgConnection) -> Result<Timestamp, sqlx::Error> {
    let row = sqlx::query("SELECT clock_timestamp()").persistent(false).fetch_one(connection).await?;
    time(&row, 0)
}

fn time(row: &PgRow, index: usize) -> Result<Timestamp, sqlx::Error> {
    Ok(row.try_get::<Time, _>(index)?.0)
}

fn is_unreadable(row: &PgRow) -> bool {
    let negative = row.try_get(0).unwrap_or(true);
    negative || row.try_get(1).map_or(true, |headers| decode_headers(headers).is_err())
}

fn lost_leases(rows: &[PgRow]) -> Result<LostLeases, sqlx::Error> {
    let mut lost = LostLeases::default();
    for row in rows {
        lost.add(row.try_get(2)?, row.try_get::<i32, _>(3)?.try_into().unwrap_or(0));
    }
    Ok(lost)
}

async fn read_parked(sql: &Sql, connection: &mut PgConnection) -> Result<Vec<ParkedRoute>, sqlx::Error> {
    let mut routes = ParkedRoutes::default();
    while let Some(last) = routes.last() {
        let query = sql.fresh::<Postgres>(PARKED).bind(value::text(&last).into_owned());
        let row = query.fetch_one(&mut *connection).await?;
        let (route, waiting) = (row.try_get::<String, _>(0)?, count(&row, 1)?);
        let mut parked = ParkedRoute::new(route, waiting);
        let query = sql.fresh::<Postgres>(PARKED_ROWS).bind(parked.route.clone());
        for row in query.fetch_all(&mut *connection).await? {
            parked.see(time(&row, 0)?, row.try_get(1)?);
        }
        routes.add(parked);
    }
    Ok(routes.into_found())
}

async fn read_paused(sql: &Sql, connection: &mut PgConnection) -> Result<Vec<PausedRoute>, sqlx::Error> {
    let rows = sql.fresh::<Postgres>(PAUSED).fetch_all(connection).await?;
    let paused = |row: &PgRow| Ok(PausedRoute::new(row.try_get(0)?, Some(time(row, 1)?), row.try_get(2)?));
    rows.iter().map(paused).collect()
}
