//! Diagnosis of a PostgreSQL server: what holds back vacuum, and limits that are nearly reached.

use std::time::Duration;

use posthaste::Timestamp;
use posthaste::admin::{Finding, Tolerance};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Postgres, Row as _};

use super::super::PgStore;
use super::super::value::interval;
use super::heap_only;
use crate::row::ReadValues as _;
use crate::store::diagnose::clock_skew;

/// Sessions that hold back vacuum in this database. Sessions of other users are visible with `pg_read_all_stats` only.
/// A long VACUUM is left out, because no statement waits for it.
const SESSIONS: &str = "SELECT pid, coalesce(usename::text, ''), coalesce(application_name, ''),
  coalesce(state, ''), extract(epoch FROM clock_timestamp() - xact_start)::float8
FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND datname = current_database() AND xact_start <= clock_timestamp() - $1
  AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
  AND backend_type <> 'autovacuum worker' AND query !~* '^\\s*vacuum'
ORDER BY xact_start LIMIT 3";

/// Prepared transactions hold back vacuum until they are committed or rolled back, also after a restart.
const PREPARED: &str = "SELECT gid, owner::text, extract(epoch FROM clock_timestamp() - prepared)::float8
FROM pg_prepared_xacts
WHERE database = current_database() AND prepared <= clock_timestamp() - $1 ORDER BY prepared LIMIT 3";

/// Replication slots without a replica hold back vacuum.
const SLOTS: &str = "SELECT slot_name::text, age(xmin)::int8 FROM pg_replication_slots
WHERE xmin IS NOT NULL AND NOT active ORDER BY age(xmin) DESC LIMIT 3";

/// Dead and live rows of the table, when it was last vacuumed, and whether autovacuum is off.
const DEAD_ROWS: &str = r#"SELECT s.n_dead_tup, s.n_live_tup,
  to_char(greatest(s.last_vacuum, s.last_autovacuum) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
  current_setting('autovacuum') = 'off',
  EXISTS (SELECT FROM pg_options_to_table(c.reloptions)
    WHERE option_name = 'autovacuum_enabled' AND NOT option_value::bool),
  coalesce(greatest(s.last_vacuum, s.last_autovacuum) > clock_timestamp() - interval '10 min', false)
FROM pg_stat_all_tables AS s JOIN pg_class AS c ON c.oid = s.relid WHERE s.relid = to_regclass('"{table}"')"#;

/// Every user sees the number of connections and their users, although not what they do.
const CONNECTIONS: &str = "SELECT count(*), count(*) FILTER (WHERE datname = current_database()),
  count(*) FILTER (WHERE usename = current_user),
  current_setting('max_connections')::int8 - current_setting('superuser_reserved_connections')::int8
    - coalesce(current_setting('reserved_connections', true), '0')::int8,
  (SELECT greatest(datconnlimit, 0)::int8 FROM pg_database WHERE datname = current_database()),
  (SELECT greatest(rolconnlimit, 0)::int8 FROM pg_roles WHERE rolname = current_user)
FROM pg_stat_activity WHERE datname IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'";

const NOTIFY_QUEUE: &str = "SELECT pg_notification_queue_usage()";

/// Runs every check. A check that the server refuses is left out.
pub(super) async fn findings(store: &PgStore, tolerance: &Tolerance) -> Vec<Finding> {
    let found = [
        store.check_server(async |on| clock_skew::<Postgres>(store.sql(), on, tolerance).await).await,
        store.check_server(async |on| sessions(on, tolerance).await).await,
        store.check_server(async |on| prepared(on, tolerance).await).await,
        store.check_server(async |on| slots(on).await).await,
        store.check_server(async |on| dead_rows(store, on, tolerance).await).await,
        store.check_server(async |on| connections(on, tolerance).await).await,
        store.check_server(async |on| notify_queue(on, tolerance).await).await,
        store.check_server(async |on| heap_only::findings(store.sql(), on).await).await,
    ];
    found.concat()
}

async fn sessions(connection: &mut PgConnection, tolerance: &Tolerance) -> sqlx::Result<Vec<Finding>> {
    let rows = fetch(connection, SESSIONS, tolerance.transaction).await?;
    let session = |row: &PgRow| {
        let (pid, user, application, state) = (
            row.try_get::<i32, _>(0)?,
            row.try_get::<&str, _>(1)?,
            row.try_get::<&str, _>(2)?,
            row.try_get::<&str, _>(3)?,
        );
        let who =
            format!("the process {pid} of PostgreSQL (user {user:?}, application {application:?}, {state})");
        let advice = format!(
            "end it in the program that began it, or with SELECT pg_terminate_backend({pid}); \
             idle_in_transaction_session_timeout ends those that are forgotten"
        );
        open_transaction(&who, row, 4, tolerance, advice)
    };
    flatten(rows.iter().map(session))
}

async fn prepared(connection: &mut PgConnection, tolerance: &Tolerance) -> sqlx::Result<Vec<Finding>> {
    let rows = fetch(connection, PREPARED, tolerance.transaction).await?;
    let transaction = |row: &PgRow| {
        let (gid, owner) = (row.try_get::<&str, _>(0)?, row.try_get::<&str, _>(1)?);
        let who = format!("PREPARE TRANSACTION {gid:?} of the user {owner:?}");
        let advice = format!("COMMIT PREPARED or ROLLBACK PREPARED '{}'", gid.replace('\'', "''"));
        open_transaction(&who, row, 2, tolerance, advice)
    };
    flatten(rows.iter().map(transaction))
}

async fn slots(connection: &mut PgConnection) -> sqlx::Result<Vec<Finding>> {
    let rows = sqlx::query(SLOTS).persistent(false).fetch_all(connection).await?;
    let slot = |row: &PgRow| {
        let (name, age) = (row.try_get::<&str, _>(0)?, row.count_at(1)?);
        Ok(Finding::warning(
            "replication-slot",
            format!(
                "the replication slot {name:?}, to which no replica is connected, holds back vacuum by {age} \
                 transactions"
            ),
            format!(
                "start the replica that it belongs to; if that no longer exists: SELECT \
                 pg_drop_replication_slot('{name}')"
            ),
        ))
    };
    rows.iter().map(slot).collect()
}

async fn dead_rows(
    store: &PgStore,
    connection: &mut PgConnection,
    tolerance: &Tolerance,
) -> sqlx::Result<Vec<Finding>> {
    let Some(row) = store.sql().fresh::<Postgres>(DEAD_ROWS).fetch_optional(connection).await? else {
        return Ok(Vec::new());
    };
    let (dead, live) = (row.count_at(0)?, row.count_at(1)?);
    if dead < tolerance.dead_rows || dead <= live {
        return Ok(Vec::new());
    }
    let table = store.sql().text("\"{table}\"");
    let (vacuum, advice) = match (row.try_get(3)?, row.try_get(4)?) {
        (true, _) => (
            "autovacuum is off on this server".to_owned(),
            format!("set autovacuum = on, then VACUUM {table}"),
        ),
        (_, true) => (
            "autovacuum is off for this table".to_owned(),
            format!("ALTER TABLE {table} RESET (autovacuum_enabled), then VACUUM {table}"),
        ),
        _ => (
            match row.try_get::<Option<&str>, _>(2)? {
                Some(last) => format!("it was last vacuumed at {last}"),
                None => "it was never vacuumed".to_owned(),
            },
            format!(
                "end transactions that have been open for long, then VACUUM (VERBOSE) {table} and see what \
                 it says"
            ),
        ),
    };
    let what = format!(
        "{table} has {dead} dead rows and {live} live ones, and claims step over the dead ones; {vacuum}"
    );
    // A busy queue leaves this many dead rows between two vacuums. If vacuum cannot remove them, another finding says
    // why.
    let is_cleaned_up = row.try_get(5)?;
    let finding = if is_cleaned_up { Finding::note } else { Finding::warning };
    Ok(vec![finding("dead-tuples", what, advice)])
}

async fn connections(connection: &mut PgConnection, tolerance: &Tolerance) -> sqlx::Result<Vec<Finding>> {
    let row = sqlx::query(CONNECTIONS).persistent(false).fetch_one(connection).await?;
    let limits = [
        ("the server", "raise max_connections, use smaller pools, or put a PgBouncer before it"),
        ("the database", "raise its limit: ALTER DATABASE … CONNECTION LIMIT …; or use smaller pools"),
        ("the user", "raise its limit: ALTER ROLE … CONNECTION LIMIT …; or use smaller pools"),
    ];
    let limit = |(n, (whose, advice)): (usize, (&str, &str))| {
        Ok(Finding::connection_limit(whose, row.count_at(n)?, row.count_at(n + 3)?, tolerance, advice))
    };
    flatten(limits.into_iter().enumerate().map(limit))
}

async fn notify_queue(connection: &mut PgConnection, tolerance: &Tolerance) -> sqlx::Result<Vec<Finding>> {
    const SCALE: f64 = 1e9;
    let row = sqlx::query(NOTIFY_QUEUE).persistent(false).fetch_one(connection).await?;
    let used: f64 = row.try_get(0)?;
    if !tolerance.is_used_up((used * SCALE) as u64, SCALE as u64) {
        return Ok(Vec::new());
    }
    Ok(vec![Finding::problem(
        "notify-queue",
        format!(
            "the queue of NOTIFY is used up to {:.1} %; when it is full, every NOTIFY on this server fails, and \
             with it the transaction that contains it",
            used * 100.0
        ),
        "a listening session stays in a transaction: find it with SELECT pid, state, xact_start, query FROM \
         pg_stat_activity WHERE xact_start IS NOT NULL ORDER BY xact_start, and end it",
    )])
}

/// Runs a statement that takes a minimum age.
async fn fetch(
    connection: &mut PgConnection,
    statement: &'static str,
    age: Duration,
) -> sqlx::Result<Vec<PgRow>> {
    sqlx::query(statement).persistent(false).bind(interval(age)).fetch_all(connection).await
}

/// The finding of an open transaction, whose age in seconds is in this column.
fn open_transaction(
    who: &str,
    row: &PgRow,
    age: usize,
    tolerance: &Tolerance,
    advice: String,
) -> sqlx::Result<Option<Finding>> {
    let age = Duration::try_from_secs_f64(row.try_get(age)?).unwrap_or_default();
    Ok(Finding::open_transaction(who, age, Timestamp::now(), tolerance, advice))
}

fn flatten(findings: impl Iterator<Item = sqlx::Result<Option<Finding>>>) -> sqlx::Result<Vec<Finding>> {
    findings.filter_map(Result::transpose).collect()
}
