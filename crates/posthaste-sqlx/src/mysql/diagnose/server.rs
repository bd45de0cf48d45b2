//! What looks wrong with the server: what holds back its cleaning up, and which limits are near.

use std::time::Duration;

use posthaste::admin::{Finding, Tolerance};
use posthaste::{StoreError, Timestamp};
use sqlx::mysql::MySqlRow;
use sqlx::{MySql, MySqlConnection, Row as _};

use super::super::MySqlStore;
use crate::row::ReadValues as _;
use crate::store::diagnose::DiagnoseDialect as _;

/// Transactions of everybody, for those who have PROCESS. They begin in the time zone of the server's machine.
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

/// MariaDB tells everybody; MySQL those who have PROCESS, in another place.
const HISTORY: &str = "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'";
const HISTORY_ON_MYSQL: &str =
    "SELECT CAST(count AS SIGNED) FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'";

/// Each question stands for itself: one that the server does not answer is left out.
pub(super) async fn findings(store: &MySqlStore, tolerance: &Tolerance) -> Vec<Finding> {
    let answers = [
        ask(store, async |connection: &mut MySqlConnection| clock(connection, tolerance).await).await,
        ask(store, async |connection: &mut MySqlConnection| sessions(connection, tolerance).await).await,
        ask(store, async |connection: &mut MySqlConnection| history(connection, tolerance).await).await,
        ask(store, async |connection: &mut MySqlConnection| connections(connection, tolerance).await).await,
    ];
    answers.into_iter().flat_map(Result::unwrap_or_default).collect()
}

async fn ask(
    store: &MySqlStore,
    question: impl AsyncFnOnce(&mut MySqlConnection) -> sqlx::Result<Vec<Finding>> + Clone,
) -> Result<Vec<Finding>, StoreError> {
    store.read(question).await
}

async fn clock(connection: &mut MySqlConnection, tolerance: &Tolerance) -> sqlx::Result<Vec<Finding>> {
    let before = Timestamp::now();
    let store = MySql::read_clock(connection).await?;
    Ok(Finding::clock_skew(before, store, Timestamp::now(), tolerance).into_iter().collect())
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
        let advice = format!("end it where it was begun, or with KILL {id}");
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
        "end transactions that stay open, the oldest first: SELECT * FROM information_schema.innodb_trx ORDER BY \
         trx_started; if there are none, raise innodb_purge_threads",
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

/// A number of the server's, if it has one of that name.
async fn status(connection: &mut MySqlConnection, statement: &'static str) -> sqlx::Result<Option<u64>> {
    let row = sqlx::raw_sql(statement).fetch_optional(connection).await?;
    let value = row.map(|row| row.try_get::<String, _>(1)).transpose()?;
    Ok(value.and_then(|value| value.parse().ok()))
}
