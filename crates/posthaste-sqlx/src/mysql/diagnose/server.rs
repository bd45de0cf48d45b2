//! Diagnosis of a MySQL server: open transactions that delay its clean-up, and limits that are nearly reached.

use std::time::Duration;

use posthaste::Timestamp;
use posthaste::admin::{Finding, Tolerance};
use sqlx::mysql::MySqlRow;
use sqlx::{MySql, MySqlConnection, Row as _};

use super::super::MySqlStore;
use crate::row::ReadValues as _;
use crate::store::diagnose::clock_skew;

/// Open transactions of all users, visible with the PROCESS privilege. Their start is in the time zone of the server's
/// host.
const SESSIONS: &str =
    "SELECT CAST(t.trx_mysql_thread_id AS SIGNED), COALESCE(p.user, ''), COALESCE(p.host, ''),
  COALESCE(p.command, ''),
  TIMESTAMPDIFF(MICROSECOND, CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP(6)) AS age
FROM information_schema.innodb_trx AS t
  LEFT JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id
WHERE t.trx_mysql_thread_id NOT IN (0, CONNECTION_ID())
HAVING age >= ? ORDER BY age DESC LIMIT 3";

const LIMITS: &str = "SELECT
  (SELECT COUNT(*) FROM information_schema.processlist WHERE user = SUBSTRING_INDEX(USER(), '@', 1)),
  CAST(@@GLOBAL.max_connections AS SIGNED), CAST(@@SESSION.max_user_connections AS SIGNED)";

const CONNECTED: &str = "SHOW GLOBAL STATUS LIKE 'Threads_connected'";

/// The length of the history list. MariaDB shows it to every user; MySQL shows it in another table, with the PROCESS
/// privilege.
const HISTORY: &str = "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'";
const HISTORY_ON_MYSQL: &str =
    "SELECT CAST(count AS SIGNED) FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'";

/// Runs every check. A check that the server refuses is left out.
pub(super) async fn findings(store: &MySqlStore, tolerance: &Tolerance) -> Vec<Finding> {
    let clock = async |connection: &mut MySqlConnection| {
        clock_skew::<MySql>(store.sql(), connection, tolerance).await
    };
    let sessions = async |connection: &mut MySqlConnection| sessions(connection, tolerance).await;
    let history = async |connection: &mut MySqlConnection| history(connection, tolerance).await;
    let connections = async |connection: &mut MySqlConnection| connections(connection, tolerance).await;
    let found = [
        store.check_server(clock).await,
        store.check_server(sessions).await,
        store.check_server(history).await,
        store.check_server(connections).await,
    ];
    found.concat()
}

async fn sessions(connection: &mut MySqlConnection, tolerance: &Tolerance) -> sqlx::Result<Vec<Finding>> {
    let least = i64::try_from(tolerance.transaction.as_micros()).unwrap_or(i64::MAX);
    let rows = sqlx::query(SESSIONS).bind(least).fetch_all(connection).await?;
    let session = |row: &MySqlRow| {
        let (id, user, host, command) = (
            row.try_get::<i64, _>(0)?,
            row.try_get::<&str, _>(1)?,
            row.try_get::<&str, _>(2)?,
            row.try_get::<&str, _>(3)?,
        );
        let who = format!("the connection {id} (user {user:?} from {host:?}, {command})");
        let age = Duration::from_micros(row.try_get::<i64, _>(4)?.unsigned_abs());
        let advice = format!("end it in the program that began it, or with KILL {id}");
        Ok(Finding::open_transaction(&who, age, Timestamp::now(), tolerance, advice))
    };
    rows.iter().map(session).filter_map(Result::transpose).collect()
}

async fn history(connection: &mut MySqlConnection, tolerance: &Tolerance) -> sqlx::Result<Vec<Finding>> {
    let waiting = match status(connection, HISTORY).await? {
        Some(waiting) => waiting,
        None => sqlx::query(HISTORY_ON_MYSQL).fetch_one(connection).await?.count_at(0)?,
    };
    if waiting <= tolerance.dead_rows.saturating_mul(10) {
        return Ok(Vec::new());
    }
    Ok(vec![Finding::warning(
        "purge-lag",
        format!(
            "the server has yet to clean up after {waiting} transactions (its history list length), and claims \
             step over what they left"
        ),
        "end transactions that stay open, the oldest first: SELECT * FROM information_schema.innodb_trx \
         ORDER BY trx_started; if there are none, raise innodb_purge_threads",
    )])
}

async fn connections(connection: &mut MySqlConnection, tolerance: &Tolerance) -> sqlx::Result<Vec<Finding>> {
    let taken = status(connection, CONNECTED).await?.unwrap_or_default();
    let row = sqlx::query(LIMITS).fetch_one(connection).await?;
    let advice = "raise max_connections, or use smaller pools";
    let of_server = Finding::connection_limit("the server", taken, row.count_at(1)?, tolerance, advice);
    let advice = "raise max_user_connections, of the server or of the user, or use smaller pools";
    let of_user =
        Finding::connection_limit("the user", row.count_at(0)?, row.count_at(2)?, tolerance, advice);
    Ok(of_server.into_iter().chain(of_user).collect())
}

/// A number of the server's status, if the server has one of this name.
async fn status(connection: &mut MySqlConnection, statement: &'static str) -> sqlx::Result<Option<u64>> {
    let row = sqlx::raw_sql(statement).fetch_optional(connection).await?;
    let value = row.map(|row| row.try_get::<String, _>(1)).transpose()?;
    Ok(value.and_then(|value| value.parse().ok()))
}
