//! What looks wrong with the rows.

use posthaste::admin::{LostLeases, ParkedRoute, PausedRoute, RowObservations};
use posthaste::{Timestamp, decode_headers};
use sqlx::mysql::MySqlRow;
use sqlx::{MySql, MySqlConnection, Row as _};

use super::super::value::micros;
use crate::findings::ParkedRoutes;
use crate::row_estimate::count;
use crate::sql::Sql;

/// The oldest rows only: a sign that something is wrong, not a census.
const DOUBTFUL: &str = "SELECT attempts < 0, headers, event_id, lost_leases FROM (
  SELECT event_id, headers, attempts, lost_leases FROM `{table}` FORCE INDEX (`{table}_phase`) WHERE phase = 0
  ORDER BY seq LIMIT 10000) AS oldest
WHERE attempts < 0 OR lost_leases > 0 OR TRIM(headers) NOT IN ('', 'null', '{}')";

/// The first route behind this one for which events wait, and how many do: up to one more than a finding
/// names.
pub(in super::super) const PARKED: &str = "SELECT COALESCE(MIN(parked), ''), COUNT(*) FROM (
  SELECT parked FROM `{table}` FORCE INDEX (`{table}_parked`) WHERE parked = (
    SELECT parked FROM `{table}` FORCE INDEX (`{table}_parked`) WHERE parked > ? ORDER BY parked LIMIT 1)
  LIMIT 100001) AS waiting";

/// Age and reason of the oldest of them.
pub(in super::super) const PARKED_ROWS: &str = concat!(
    "SELECT ",
    micros!("inserted_at"),
    ", LEFT(last_error, 201) FROM `{table}` FORCE INDEX (`{table}_parked`)
WHERE parked = ? ORDER BY seq LIMIT 100"
);

const PAUSED: &str =
    concat!("SELECT route, ", micros!("paused_at"), ", paused_by FROM `{table}_control` LIMIT 1000");

const NEWEST: &str = concat!(
    "SELECT ",
    micros!("created_at"),
    ", ",
    micros!("inserted_at"),
    " FROM `{table}` ORDER BY seq DESC LIMIT 1000"
);

const CLOCK: &str = concat!("SELECT ", micros!("UTC_TIMESTAMP(6)"));

pub(super) async fn read(
    sql: &Sql,
    connection: &mut MySqlConnection,
) -> Result<RowObservations, sqlx::Error> {
    let doubtful = sql.query::<MySql>(DOUBTFUL).fetch_all(&mut *connection).await?;
    let newest = sql.query::<MySql>(NEWEST).fetch_all(&mut *connection).await?;
    let mut observed = RowObservations::default();
    observed.unreadable = doubtful.iter().filter(|row| is_unreadable(row)).count() as u64;
    observed.lost_leases = lost_leases(&doubtful)?;
    observed.parked = read_parked(sql, connection).await?;
    observed.paused = read_paused(sql, connection).await?;
    // A date of zeros is no time.
    observed.written = newest.iter().filter_map(|row| Some((time(row, 0)?, time(row, 1)?))).collect();
    observed.now = read_clock(connection).await?;
    Ok(observed)
}

pub(super) async fn read_clock(connection: &mut MySqlConnection) -> Result<Timestamp, sqlx::Error> {
    Ok(Timestamp::from_micros(sqlx::query(CLOCK).fetch_one(connection).await?.try_get(0)?))
}

fn time(row: &MySqlRow, index: usize) -> Option<Timestamp> {
    row.try_get(index).ok().flatten().map(Timestamp::from_micros)
}

fn is_unreadable(row: &MySqlRow) -> bool {
    let negative = row.try_get::<i64, _>(0).map_or(true, |negative| negative != 0);
    negative || row.try_get(1).map_or(true, |headers| decode_headers(headers).is_err())
}

fn lost_leases(rows: &[MySqlRow]) -> Result<LostLeases, sqlx::Error> {
    let mut lost = LostLeases::default();
    for row in rows {
        lost.add(row.try_get(2)?, row.try_get::<i32, _>(3)?.try_into().unwrap_or(0));
    }
    Ok(lost)
}

async fn read_parked(sql: &Sql, connection: &mut MySqlConnection) -> Result<Vec<ParkedRoute>, sqlx::Error> {
    let mut routes = ParkedRoutes::default();
    while let Some(last) = routes.last() {
        let row = sql.query::<MySql>(PARKED).bind(last).fetch_one(&mut *connection).await?;
        let (route, waiting) = (row.try_get::<String, _>(0)?, count(&row, 1)?);
        let mut parked = ParkedRoute::new(route, waiting);
        let query = sql.query::<MySql>(PARKED_ROWS).bind(parked.route.clone());
        for row in query.fetch_all(&mut *connection).await? {
            if let Some(inserted_at) = time(&row, 0) {
                parked.see(inserted_at, row.try_get(1)?);
            }
        }
        routes.add(parked);
    }
    Ok(routes.into_found())
}

async fn read_paused(sql: &Sql, connection: &mut MySqlConnection) -> Result<Vec<PausedRoute>, sqlx::Error> {
    let rows = sql.query::<MySql>(PAUSED).fetch_all(connection).await?;
    let paused = |row: &MySqlRow| Ok(PausedRoute::new(row.try_get(0)?, time(row, 1), row.try_get(2)?));
    rows.iter().map(paused).collect()
}
