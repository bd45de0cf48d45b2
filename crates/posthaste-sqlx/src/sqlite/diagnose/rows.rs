//! What looks wrong with the rows.

use posthaste::Timestamp;
use posthaste::admin::{LostLeases, ParkedRoute, PausedRoute, RowObservations};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite, SqliteConnection};

use super::super::value::lossy;
use crate::findings::ParkedRoutes;
use crate::row_estimate::count;
use crate::sql::Sql;

/// The oldest rows only: a sign that something is wrong, not a census.
const UNREADABLE: &str = r#"SELECT count(*) FROM (
  SELECT headers, attempts, available_at FROM "{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2) ORDER BY seq LIMIT 10000)
WHERE attempts < 0 OR typeof(attempts) <> 'integer' OR typeof(available_at) NOT IN ('integer', 'real')
   OR CASE WHEN trim(coalesce(headers, '')) IN ('', 'null') THEN 0 WHEN json_valid(headers)
        THEN json_type(headers) <> 'object' OR EXISTS (SELECT 1 FROM json_each(headers) WHERE type <> 'text')
        ELSE 1 END"#;

const LOST: &str = r#"SELECT event_id, lost_leases FROM (
  SELECT event_id, lost_leases FROM "{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2) ORDER BY seq LIMIT 10000)
WHERE typeof(lost_leases) = 'integer' AND lost_leases > 0"#;

/// The first route behind this one for which events wait, and how many do: up to one more than a finding
/// names.
pub(in super::super) const PARKED: &str = r#"SELECT coalesce(min(parked), ''), count(*) FROM (
  SELECT parked FROM "{table}" INDEXED BY "{table}_parked" WHERE parked = (
    SELECT parked FROM "{table}" INDEXED BY "{table}_parked" WHERE parked > ?1 ORDER BY parked LIMIT 1)
  LIMIT 100001)"#;

/// Age and reason of the oldest of them.
pub(in super::super) const PARKED_ROWS: &str = r#"SELECT inserted_at, substr(CAST(last_error AS TEXT), 1, 201)
FROM "{table}" INDEXED BY "{table}_parked" WHERE parked = ?1 ORDER BY seq LIMIT 100"#;

const PAUSED: &str = r#"SELECT route, paused_at, paused_by FROM "{table}_control" LIMIT 1000"#;

const NEWEST: &str = r#"SELECT created_at, inserted_at FROM "{table}" ORDER BY seq DESC LIMIT 1000"#;

pub(super) async fn read(
    sql: &Sql,
    connection: &mut SqliteConnection,
) -> Result<RowObservations, sqlx::Error> {
    let unreadable: i64 = sql.scalar(UNREADABLE).fetch_one(&mut *connection).await?;
    let newest = sql.query::<Sqlite>(NEWEST).fetch_all(&mut *connection).await?;
    let mut lost_leases = LostLeases::default();
    for row in sql.query::<Sqlite>(LOST).fetch_all(&mut *connection).await? {
        lost_leases.add(&lossy(&row, 0)?, row.try_get::<i64, _>(1)?.try_into().unwrap_or(u32::MAX));
    }
    let mut observed = RowObservations::default();
    observed.now = Timestamp::now();
    observed.unreadable = unreadable.unsigned_abs();
    observed.lost_leases = lost_leases;
    observed.parked = read_parked(sql, connection).await?;
    observed.paused = read_paused(sql, connection).await?;
    observed.written = newest.iter().filter_map(|row| Some((time(row, 0)?, time(row, 1)?))).collect();
    Ok(observed)
}

/// A foreign program may have left anything there.
fn time(row: &SqliteRow, index: usize) -> Option<Timestamp> {
    row.try_get(index).ok().flatten().map(Timestamp::from_micros)
}

async fn read_parked(sql: &Sql, connection: &mut SqliteConnection) -> Result<Vec<ParkedRoute>, sqlx::Error> {
    let mut routes = ParkedRoutes::default();
    while let Some(last) = routes.last() {
        let row = sql.query::<Sqlite>(PARKED).bind(last).fetch_one(&mut *connection).await?;
        let (route, waiting) = (lossy(&row, 0)?, count(&row, 1)?);
        let mut parked = ParkedRoute::new(route, waiting);
        let query = sql.query::<Sqlite>(PARKED_ROWS).bind(parked.route.clone());
        for row in query.fetch_all(&mut *connection).await? {
            if let Some(inserted_at) = time(&row, 0) {
                let error: Option<&[u8]> = row.try_get(1)?;
                parked.see(inserted_at, error.map(String::from_utf8_lossy).as_deref());
            }
        }
        routes.add(parked);
    }
    Ok(routes.into_found())
}

async fn read_paused(sql: &Sql, connection: &mut SqliteConnection) -> Result<Vec<PausedRoute>, sqlx::Error> {
    let rows = sql.query::<Sqlite>(PAUSED).fetch_all(connection).await?;
    let paused = |row: &SqliteRow| Ok(PausedRoute::new(lossy(row, 0)?, time(row, 1), Some(lossy(row, 2)?)));
    rows.iter().map(paused).collect()
}
