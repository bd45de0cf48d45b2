//! SQL statements for operator calls on MySQL.

use sqlx::mysql::MySqlQueryResult;
use sqlx::{MySql, MySqlConnection};

use super::MySqlStore;
use super::connection::{BEGIN, Connections};
use super::row::{content_columns, row_columns};
use super::value::{MAX_KEYS, bind_all, micros, placeholder_count};
use crate::queries::SqlQuery;
use crate::sql::Sql;
use crate::store::admin::{Access, AdminDialect};
use crate::store_pool::Lent;

const GET: &str =
    concat!("SELECT ", row_columns!(), ", ", content_columns!(), " FROM `{table}` AS o WHERE event_id = ?");

const GET_ARCHIVED: &str = concat!(
    "SELECT ",
    row_columns!(),
    ", ",
    content_columns!(),
    " FROM `{table}_archive` AS o WHERE event_id = ? ORDER BY seq DESC LIMIT 1"
);

/// Makes a DEAD row NEW, as if it had just been inserted, and counts the replay. LEAST keeps the count within its
/// column.
const REVIVE: &str = "UPDATE `{table}` SET status = 0, available_at = UTC_TIMESTAMP(6), attempts = 0,
  deferrals = 0, lost_leases = 0, replays = LEAST(replays, 2147483646) + 1, last_error = NULL, done_at = NULL,
  parked = NULL, put_off_since = NULL, put_off_limit = NULL, locked_by = NULL, locked_at = NULL,
  lease_until = NULL, lease_token = 0,
  progress = IF(?, NULL, progress)
WHERE seq IN ({keys}) AND phase = 3";

/// If the route is already paused, the time and the operator of that pause stay.
const PAUSE: &str = "INSERT INTO `{table}_control` (route, paused_at, paused_by)
SELECT ?, UTC_TIMESTAMP(6), ? FROM (SELECT 1) AS one
WHERE NOT EXISTS (SELECT 1 FROM `{table}_control` WHERE route = ?)";

impl AdminDialect for MySql {
    const ROW_COLUMNS: &'static str = row_columns!();
    const GET: [&'static str; 2] = [GET, GET_ARCHIVED];
    /// Groups the newest DEAD rows only, so that the number of rows it reads is bounded.
    const DEAD_GROUPS: &'static str = concat!(
        "SELECT aggregate, event_type, reason, COUNT(*) AS total, ",
        micros!("MIN(done_at)"),
        ", ",
        micros!("MAX(done_at)"),
        " FROM (SELECT COALESCE(aggregate_type, ?) AS aggregate, event_type,
    COALESCE(LEFT(last_error, 200), '') AS reason, done_at
  FROM `{table}` WHERE phase = 3 ORDER BY seq DESC LIMIT 10000) AS dead
GROUP BY aggregate, event_type, reason ORDER BY total DESC, event_type, reason LIMIT ?"
    );
    const NOTE: &'static str = "INSERT INTO `{table}_audit` (at, actor, action, target, `rows`)
VALUES (UTC_TIMESTAMP(6), ?, ?, ?, ?)";
    const RESUME: &'static str = "DELETE FROM `{table}_control` WHERE route = ?";
    const AUDIT: &'static str = concat!(
        "SELECT seq, ",
        micros!("at"),
        " AS at, actor, action, target, `rows` FROM `{table}_audit` WHERE seq < ? ORDER BY seq DESC LIMIT ?"
    );
    const FOR_UPDATE: &'static str = " FOR UPDATE SKIP LOCKED";

    fn rows_affected(result: &MySqlQueryResult) -> u64 {
        result.rows_affected()
    }

    fn pause(sql: &Sql, route: &str, actor: &str) -> SqlQuery<Self> {
        sql.query(PAUSE).bind(route).bind(actor).bind(route)
    }

    async fn revive(
        store: &MySqlStore,
        connection: &mut MySqlConnection,
        seqs: &[i64],
        forget_progress: bool,
    ) -> sqlx::Result<u64> {
        let mut revived = 0;
        for seqs in seqs.chunks(MAX_KEYS) {
            let query = store.sql().listed(REVIVE, placeholder_count(seqs.len())).bind(forget_progress);
            revived += bind_all(query, seqs).execute(&mut *connection).await?.rows_affected();
        }
        Ok(revived)
    }

    type Session = Lent<MySql>;

    async fn open_session(connections: &Connections, access: Access) -> sqlx::Result<Lent<Self>> {
        match access {
            Access::Read => connections.viewer.begin(BEGIN).await,
            Access::Write => connections.operator.begin(BEGIN).await,
        }
    }

    async fn close_session<T: Send>(session: Lent<Self>, result: sqlx::Result<T>) -> sqlx::Result<T> {
        session.end_transaction(result).await
    }

    async fn wait_before_retry(connections: &Connections, error: &sqlx::Error, tries: u32) -> bool {
        connections.wait_before_retry(error, tries).await
    }
}
