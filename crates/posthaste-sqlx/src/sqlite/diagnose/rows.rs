//! The SQL of SQLite for the diagnosis of rows.

use posthaste::StoreError;
use posthaste::admin::{Finding, LostLeases, Tolerance};
use sqlx::{Row as _, Sqlite, SqliteConnection};

use super::super::SqliteStore;
use crate::row::ReadValues as _;
use crate::sql::Sql;
use crate::store::diagnose::DiagnoseDialect;

/// Examines the oldest pending rows only, as a sign that something is wrong and not as a complete count. SQL checks the
/// headers, because columns can contain values of any type.
const UNREADABLE: &str = r#"SELECT count(*) FROM (
  SELECT headers, attempts, available_at FROM "{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2) ORDER BY seq LIMIT 10000)
WHERE attempts < 0 OR typeof(attempts) <> 'integer' OR typeof(available_at) NOT IN ('integer', 'real')
   OR CASE WHEN trim(coalesce(headers, '')) IN ('', 'null') THEN 0 WHEN json_valid(headers)
        THEN json_type(headers) <> 'object' OR EXISTS (SELECT 1 FROM json_each(headers) WHERE type <> 'text')
        ELSE 1 END"#;

const LOST: &str = r#"SELECT event_id, lost_leases FROM (
  SELECT event_id, lost_leases FROM "{table}" INDEXED BY "{table}_pending" WHERE status IN (0, 2) ORDER BY seq LIMIT 10000)
WHERE typeof(lost_leases) = 'integer' AND lost_leases > 0"#;

impl DiagnoseDialect for Sqlite {
    /// The inner query finds the next route, so that each call reads the rows of one route only.
    const PARKED: &'static str = r#"SELECT coalesce(min(parked), ''), count(*) FROM (
  SELECT parked FROM "{table}" INDEXED BY "{table}_parked" WHERE parked = (
    SELECT parked FROM "{table}" INDEXED BY "{table}_parked" WHERE parked > ?1 ORDER BY parked LIMIT 1)
  LIMIT 100001)"#;
    /// `substr` keeps long errors from being sent.
    const PARKED_ROWS: &'static str = r#"SELECT inserted_at, substr(CAST(last_error AS TEXT), 1, 201)
FROM "{table}" INDEXED BY "{table}_parked" WHERE parked = ?1 ORDER BY seq LIMIT 100"#;
    const PAUSED_BY: &'static str = r#"SELECT route, paused_at, paused_by FROM "{table}_control" LIMIT 1000"#;
    const NEWEST: &'static str =
        r#"SELECT created_at, inserted_at FROM "{table}" ORDER BY seq DESC LIMIT 1000"#;

    const CLOCK: Option<&'static str> = None;

    async fn diagnose(store: &SqliteStore, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        super::findings(store, tolerance).await
    }

    async fn read_doubtful(sql: &Sql, connection: &mut SqliteConnection) -> sqlx::Result<(u64, LostLeases)> {
        let unreadable = sql.query::<Sqlite>(UNREADABLE).fetch_one(&mut *connection).await?.count_at(0)?;
        let mut lost = LostLeases::default();
        for row in sql.query::<Sqlite>(LOST).fetch_all(connection).await? {
            let id = row.text_at(0)?.unwrap_or_default();
            lost.add(&id, row.try_get::<i64, _>(1)?.try_into().unwrap_or(u32::MAX));
        }
        Ok((unreadable, lost))
    }
}
