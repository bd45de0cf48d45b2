//! The SQL of PostgreSQL for the diagnosis of rows.

use posthaste::StoreError;
use posthaste::admin::{Finding, LostLeases, Tolerance};
use sqlx::{PgConnection, Postgres};

use super::super::PgStore;
use crate::sql::Sql;
use crate::store::diagnose::{DiagnoseDialect, read_doubtful};

/// Examines the oldest pending rows only, as a sign that something is wrong and not as a complete count.
pub(in super::super) const DOUBTFUL: &str = r#"SELECT (attempts < 0 OR is_invalid)::int::int8, headers, event_id, lost_leases::int8 FROM (
  SELECT event_id, headers, attempts, lost_leases,
    event_id = '' OR event_type = '' OR num_nonnulls(payload, payload_bytes) <> 1 AS is_invalid
  FROM "{table}" WHERE status IN (0, 2) ORDER BY seq LIMIT 10000) AS oldest
WHERE attempts < 0 OR is_invalid OR lost_leases > 0 OR trim(headers) NOT IN ('', 'null', '{}')"#;

impl DiagnoseDialect for Postgres {
    /// The inner query finds the next route, so that each call reads the rows of one route only.
    const PARKED: &'static str = r#"SELECT coalesce(min(parked), ''), count(*) FROM (
  SELECT parked FROM "{table}" WHERE parked = (
    SELECT parked FROM "{table}" WHERE parked > $1 ORDER BY parked LIMIT 1) LIMIT 100001) AS waiting"#;
    /// `left` keeps long errors from being sent.
    const PARKED_ROWS: &'static str = r#"SELECT inserted_at, left(last_error, 201) FROM "{table}"
WHERE parked = $1 ORDER BY parked, seq LIMIT 100"#;
    const PAUSED_BY: &'static str = r#"SELECT route, paused_at, paused_by FROM "{table}_control" LIMIT 1000"#;
    const NEWEST: &'static str =
        r#"SELECT created_at, inserted_at FROM "{table}" ORDER BY seq DESC LIMIT 1000"#;

    const CLOCK: Option<&'static str> = Some("SELECT clock_timestamp()");

    async fn diagnose(store: &PgStore, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        super::findings(store, tolerance).await
    }

    async fn read_doubtful(sql: &Sql, connection: &mut PgConnection) -> sqlx::Result<(u64, LostLeases)> {
        read_doubtful::<Self>(sql, connection, DOUBTFUL).await
    }
}
