//! The SQL of MySQL for the diagnosis of rows.

use posthaste::StoreError;
use posthaste::admin::{Finding, LostLeases, Tolerance};
use sqlx::{MySql, MySqlConnection};

use super::super::MySqlStore;
use super::super::value::micros;
use crate::sql::Sql;
use crate::store::diagnose::{DiagnoseDialect, read_doubtful};

/// Examines the oldest pending rows only, as a sign that something is wrong and not as a complete count.
const DOUBTFUL: &str = "SELECT attempts < 0, headers, event_id, lost_leases FROM (
  SELECT event_id, headers, attempts, lost_leases FROM `{table}` FORCE INDEX (`{table}_phase`) WHERE phase = 0
  ORDER BY seq LIMIT 10000) AS oldest
WHERE attempts < 0 OR lost_leases > 0 OR TRIM(headers) NOT IN ('', 'null', '{}')";

impl DiagnoseDialect for MySql {
    /// The inner query finds the next route, so that each call reads the rows of one route only.
    const PARKED: &'static str = "SELECT COALESCE(MIN(parked), ''), COUNT(*) FROM (
  SELECT parked FROM `{table}` FORCE INDEX (`{table}_parked`) WHERE parked = (
    SELECT parked FROM `{table}` FORCE INDEX (`{table}_parked`) WHERE parked > ? ORDER BY parked LIMIT 1)
  LIMIT 100001) AS waiting";
    /// LEFT keeps long errors from being sent.
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

    const CLOCK: Option<&'static str> = Some(concat!("SELECT ", micros!("UTC_TIMESTAMP(6)")));

    async fn diagnose(store: &MySqlStore, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        super::findings(store, tolerance).await
    }

    async fn read_doubtful(sql: &Sql, connection: &mut MySqlConnection) -> sqlx::Result<(u64, LostLeases)> {
        read_doubtful::<Self>(sql, connection, DOUBTFUL).await
    }
}
