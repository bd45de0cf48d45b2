//! What looks wrong with the rows.

use posthaste::admin::{Finding, LostLeases, Tolerance};
use posthaste::{StoreError, Timestamp, decode_headers};
use sqlx::mysql::MySqlRow;
use sqlx::{MySql, MySqlConnection, Row as _};

use super::super::MySqlStore;
use super::super::value::micros;
use crate::sql::Sql;
use crate::store::diagnose::DiagnoseDialect;

/// The oldest rows only: a sign that something is wrong, not a census.
const DOUBTFUL: &str = "SELECT attempts < 0, headers, event_id, lost_leases FROM (
  SELECT event_id, headers, attempts, lost_leases FROM `{table}` FORCE INDEX (`{table}_phase`) WHERE phase = 0
  ORDER BY seq LIMIT 10000) AS oldest
WHERE attempts < 0 OR lost_leases > 0 OR TRIM(headers) NOT IN ('', 'null', '{}')";

const CLOCK: &str = concat!("SELECT ", micros!("UTC_TIMESTAMP(6)"));

impl DiagnoseDialect for MySql {
    /// The first route behind this one for which events wait, and how many do: up to one more than a finding
    /// names.
    const PARKED: &'static str = "SELECT COALESCE(MIN(parked), ''), COUNT(*) FROM (
  SELECT parked FROM `{table}` FORCE INDEX (`{table}_parked`) WHERE parked = (
    SELECT parked FROM `{table}` FORCE INDEX (`{table}_parked`) WHERE parked > ? ORDER BY parked LIMIT 1)
  LIMIT 100001) AS waiting";
    /// Age and reason of the oldest of them.
    const PARKED_ROWS: &'static str = concat!(
        "SELECT ",
        micros!("inserted_at"),
        ", LEFT(last_error, 201) FROM `{table}` FORCE INDEX (`{table}_parked`)
WHERE parked = ? ORDER BY seq LIMIT 100"
    );
    const PAUSED_BY: &'static str =
        concat!("SELECT route, ", micros!("paused_at"), ", paused_by FROM `{table}_control` LIMIT 1000");
    const NEWEST: &'static str = concat!(
        "SELECT ",
        micros!("created_at"),
        ", ",
        micros!("inserted_at"),
        " FROM `{table}` ORDER BY seq DESC LIMIT 1000"
    );

    async fn diagnose(store: &MySqlStore, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        super::findings(store, tolerance).await
    }

    async fn read_doubtful(sql: &Sql, connection: &mut MySqlConnection) -> sqlx::Result<(u64, LostLeases)> {
        let rows = sql.query::<MySql>(DOUBTFUL).fetch_all(connection).await?;
        let mut lost = LostLeases::default();
        for row in &rows {
            lost.add(row.try_get(2)?, row.try_get::<i32, _>(3)?.try_into().unwrap_or(0));
        }
        Ok((rows.iter().filter(|row| is_unreadable(row)).count() as u64, lost))
    }

    async fn read_clock(connection: &mut MySqlConnection) -> sqlx::Result<Timestamp> {
        Ok(Timestamp::from_micros(sqlx::query(CLOCK).fetch_one(connection).await?.try_get(0)?))
    }
}

fn is_unreadable(row: &MySqlRow) -> bool {
    let negative = row.try_get::<i64, _>(0).map_or(true, |negative| negative != 0);
    negative || row.try_get(1).map_or(true, |headers| decode_headers(headers).is_err())
}
