//! The SQL of PostgreSQL for operator calls.

use sqlx::postgres::PgQueryResult;
use sqlx::{PgConnection, Postgres};

use super::PgStore;
use super::connection::{Connections, OPERATOR_BEGIN, VIEWER_BEGIN};
use super::row::{event_columns, row_columns};
use super::value;
use crate::queries::SqlQuery;
use crate::sql::Sql;
use crate::store::admin::{Access, AdminDialect};
use crate::store_pool::Lent;

const GET: &str =
    concat!("SELECT ", row_columns!(), ", ", event_columns!(), r#" FROM "{table}" AS o WHERE event_id = $1"#);

const GET_ARCHIVED: &str = concat!(
    "SELECT ",
    row_columns!(),
    ", ",
    event_columns!(),
    r#" FROM "{table}_archive" AS o WHERE event_id = $1 ORDER BY seq DESC LIMIT 1"#
);

/// Makes a DEAD row NEW, as if it had just been inserted, and counts the replay. `least` keeps the count within its
/// column.
const REVIVE: &str = r#"UPDATE "{table}" SET status = 0, available_at = statement_timestamp(), attempts = 0,
  deferrals = 0, lost_leases = 0, replays = least(replays, 2147483646) + 1, last_error = NULL, done_at = NULL,
  put_off_since = NULL, put_off_limit = NULL, parked = NULL, locked_by = NULL, locked_at = NULL,
  lease_until = NULL, lease_token = 0,
  progress = CASE WHEN $2 THEN NULL ELSE progress END
WHERE seq = ANY ($1) AND status = 3"#;

const PAUSE: &str = r#"INSERT INTO "{table}_control" (route, paused_at, paused_by)
VALUES ($1, statement_timestamp(), $2) ON CONFLICT (route) DO NOTHING"#;

impl AdminDialect for Postgres {
    const ROW_COLUMNS: &'static str = row_columns!();
    const GET: [&'static str; 2] = [GET, GET_ARCHIVED];
    /// Groups the newest DEAD rows only, so that the number of rows it reads is bounded.
    const DEAD_GROUPS: &'static str = r#"SELECT
  coalesce(aggregate_type, $1), event_type, coalesce(left(last_error, 200), ''),
  count(*) AS total, min(done_at), max(done_at)
FROM (SELECT * FROM "{table}" WHERE status = 3 ORDER BY seq DESC LIMIT 10000) AS dead
GROUP BY 1, 2, 3 ORDER BY total DESC, 2, 3 LIMIT {limit}"#;
    const NOTE: &'static str = r#"INSERT INTO "{table}_audit" (at, actor, action, target, rows)
VALUES (statement_timestamp(), $1, $2, $3, $4)"#;
    const RESUME: &'static str = r#"DELETE FROM "{table}_control" WHERE route = $1"#;
    const AUDIT: &'static str = r#"SELECT seq, at, actor, action, target, rows FROM "{table}_audit"
WHERE seq < $1 ORDER BY seq DESC LIMIT {limit}"#;
    const FOR_UPDATE: &'static str = " FOR UPDATE SKIP LOCKED";

    fn rows_affected(result: &PgQueryResult) -> u64 {
        result.rows_affected()
    }

    fn pause(sql: &Sql, route: &str, actor: &str) -> SqlQuery<Self> {
        sql.query(PAUSE).bind(value::text(route)).bind(value::text(actor))
    }

    /// The commit wakes other processes.
    async fn revive(
        store: &PgStore,
        connection: &mut PgConnection,
        seqs: &[i64],
        forget_progress: bool,
    ) -> sqlx::Result<u64> {
        let query = store.sql().query::<Postgres>(REVIVE).bind(seqs).bind(forget_progress);
        let revived = query.execute(&mut *connection).await?.rows_affected();
        if revived > 0 {
            store.notify(connection).await?;
        }
        Ok(revived)
    }

    type Session = Lent<Postgres>;

    async fn open_session(connections: &Connections, access: Access) -> sqlx::Result<Lent<Self>> {
        match access {
            Access::Read => connections.viewer.begin(VIEWER_BEGIN).await,
            Access::Write => connections.operator.begin(OPERATOR_BEGIN).await,
        }
    }

    async fn close_session<T: Send>(session: Lent<Self>, result: sqlx::Result<T>) -> sqlx::Result<T> {
        session.end_transaction(result).await
    }
}
