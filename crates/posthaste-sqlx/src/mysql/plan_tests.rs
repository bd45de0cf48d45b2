//! Query plans of the engine's statements on MySQL: each finds its rows by the index made for it, in the order of that
//! index. A sort would lock every sorted row (F40).

use std::time::Duration;

use posthaste::store::{Claim, ClaimOrder, Owner, Store as _};
use posthaste_sql_writer::mysql::Flavour;
use sqlx::{AssertSqlSafe, Connection as _, MySql, MySqlConnection, Row as _};

use super::{MySqlStore, claim, lease, purge, settle, stats, wake_up};
use crate::sql::Sql;
use crate::store::backlog::BacklogDialect as _;
use crate::store::diagnose::DiagnoseDialect as _;
use crate::store::stats::StatsDialect as _;

/// What a plan must show.
struct Expected {
    name: &'static str,
    statement: String,
    /// The index that finds the rows.
    index: &'static str,
}

const BY_SEQ: &str = "PRIMARY";

/// `values` replace the placeholders, in their order.
fn by(name: &'static str, template: &str, values: &[&str], index: &'static str) -> Expected {
    let mut parts = template.split('?');
    let mut statement = parts.next().unwrap_or_default().to_owned();
    let mut values = values.iter();
    for part in parts {
        statement.push_str(values.next().expect("a value for every placeholder"));
        statement.push_str(part);
    }
    assert!(values.next().is_none(), "{name}: a placeholder for every value");
    Expected { name, statement: statement.replace("{keys}", "1, 50001, 50002, 50003"), index }
}

fn all() -> Vec<Expected> {
    let with_ids = |text: &str| text.replace("event_id IN ({keys})", "event_id IN ('event1', 'event2')");
    let (held, settled) = (
        "'[[50001, \"event50001\", 7]]'",
        "'[[50001, \"event1\", 7, \"failed\", \"no\", null, null, 3, \"5\", null, null]]'",
    );
    let old = |what: &str| [purge::DELETE, what, purge::DELETE_END].concat();
    let archived = |what: &str| format!("{what} FOR UPDATE SKIP LOCKED");
    let age = ["NULL", "1000", "100"];
    let placed = |look: &str| look.replace("{place}", "50000").replace("{rows}", "100");
    vec![
        by(
            "claim by due time",
            claim::BY_DUE.locking,
            &["NULL", "0", "0", "0", "2000000000000000", "0", "0", "100"],
            "outbox_event_due",
        ),
        by("claim by insertion", claim::BY_SEQ.locking, &["NULL", "0", "0", "100"], "outbox_event_phase"),
        by("next name that is parked for", claim::NEXT_PARKED, &["'a'"], "outbox_event_parked"),
        by("lease", claim::LEASE, &["'me'", "10", "'me'", "0", "7", "0"], BY_SEQ),
        by("rows that are leased", claim::ROWS, &[], BY_SEQ),
        by("settle, lean", &with_ids(settle::DONE), &["NULL", "7"], BY_SEQ),
        by("settle, lean, delete", &with_ids(settle::DELETE), &[], BY_SEQ),
        by("settle, general", settle::GENERAL, &["NULL", "7", settled, "'me'"], BY_SEQ),
        by("what was settled", settle::SETTLED, &["7"], BY_SEQ),
        by("lock what is held", lease::LOCK, &[held, "'me'"], BY_SEQ),
        by("still held", lease::HELD, &[held, "'me'"], BY_SEQ),
        by("renew", lease::RENEW, &["NULL", "1000", "0"], BY_SEQ),
        by("release", lease::RELEASE, &["NULL"], BY_SEQ),
        by("park", lease::PARK, &["NULL", "1000", "'route'"], BY_SEQ),
        by("parked", lease::PARKED, &["'route'", "100"], "outbox_event_parked"),
        by("unpark", lease::UNPARK, &["NULL"], BY_SEQ),
        by("purge the done", &old(purge::OLD_DONE), &age, "outbox_event_due"),
        by("purge the dead", &old(purge::OLD_DEAD), &age, "outbox_event_due"),
        by("purge by age", &old(purge::OLD), &age, BY_SEQ),
        by("archive the done", &archived(purge::OLD_DONE), &age, "outbox_event_due"),
        by("archive by age", &archived(purge::OLD), &age, BY_SEQ),
        by("lag", stats::OLDEST_PENDING, &["NULL", "NULL"], "outbox_event_phase"),
        by("bounded counts", MySql::BOUNDED, &[], "outbox_event_phase"),
        by("sample of pending rows", &placed(stats::SAMPLE_OF_PENDING), &[], "outbox_event_phase"),
        by("sample of done rows", &placed(stats::SAMPLE_OF_DONE), &[], "outbox_event_phase"),
        by("more than the backlog shows", MySql::MORE, &[], "outbox_event_phase"),
        by("parked for a route", MySql::PARKED, &["'a'"], "outbox_event_parked"),
        by("the oldest of them", MySql::PARKED_ROWS, &["'a'"], "outbox_event_parked"),
        by("anything due", wake_up::ANYTHING_DUE, &["0"], "outbox_event_due"),
    ]
}

/// Rows that are done, and some in every other state.
const ROWS: &str = "INSERT INTO `{table}` (event_id, event_type, payload, status, available_at, done_at, parked, locked_by)
SELECT CONCAT('event', n), 'Tested', '{}', CASE WHEN n <= 50000 THEN 1 WHEN n % 20 = 0 THEN 3 ELSE n % 2 * 2 END,
  UTC_TIMESTAMP(6) - INTERVAL 1 HOUR + INTERVAL n * 1000 MICROSECOND, UTC_TIMESTAMP(6),
  IF(n > 50000 AND n % 7 = 0, 'route', NULL), IF(n > 50000 AND n % 11 = 0, 'owner', NULL)
FROM (WITH RECURSIVE d (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM d WHERE i < 244)
  SELECT 1 + a.i * 245 + b.i AS n FROM d AS a, d AS b) AS numbers WHERE n <= 60000";

pub(super) async fn run(connection: &mut MySqlConnection, sql: &Sql, text: &str) {
    let done = sqlx::raw_sql(AssertSqlSafe(&*sql.text(text))).execute(connection).await;
    done.unwrap_or_else(|error| panic!("{text}: {error}"));
}

/// One line per table of a plan: its name, the access type, the index, and the extra information.
async fn explain(connection: &mut MySqlConnection, sql: &Sql, statement: &str) -> Vec<String> {
    let text = sql.text(&format!("EXPLAIN {statement}"));
    let rows = sqlx::raw_sql(AssertSqlSafe(&*text)).fetch_all(connection).await;
    let rows = rows.unwrap_or_else(|error| panic!("{text}: {error}"));
    let column = |row: &sqlx::mysql::MySqlRow, name: &str| {
        row.try_get_unchecked::<Option<String>, _>(name).ok().flatten().unwrap_or_default()
    };
    let columns = ["table", "type", "key", "Extra"];
    rows.iter().map(|row| columns.map(|name| column(row, name)).join(" | ")).collect()
}

async fn check(connection: &mut MySqlConnection, store: &MySqlStore, when: &str) {
    let sql = store.sql();
    // Only MariaDB returns deleted rows.
    let is_said = |expected: &Expected| {
        store.0.state.flavour == Flavour::MariaDb || !expected.statement.contains("RETURNING")
    };
    for expected in all().into_iter().filter(is_said) {
        let plan = explain(connection, sql, &expected.statement).await;
        let shown = format!("{}, {when}: {plan:#?}", expected.name);
        let finds_rows = |line: &String| line.contains(&format!(" | {} | ", expected.index));
        assert!(plan.iter().any(finds_rows), "{shown}");
        assert!(!plan.iter().any(|line| line.contains("filesort")), "{shown}");
        let reads_all = |line: &String| line.starts_with("o | ALL") || line.starts_with("outbox_event | ALL");
        assert!(!plan.iter().any(reads_all), "{shown}");
    }
}

/// InnoDB reads all of each row that it locks, so a claim must not lock more rows than fit.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn claim_reads_only_the_payloads_of_its_rows() {
    const ROW_BYTES: usize = 1024 * 1024;
    const PAGES_PER_ROW: u64 = ROW_BYTES as u64 / (16 * 1024);
    // A server of its own, because the counter is global to all connections.
    let server = posthaste_testkit::server::MariaDbServer::start().await;
    let (store, mut connection, _) = open_on(&server.url(), "large").await;
    let insert = format!(
        "INSERT INTO `{{table}}` (event_id, event_type, payload)
         SELECT CONCAT('e-', seq), 'Made', REPEAT('x', {ROW_BYTES}) FROM seq_1_to_60"
    );
    run(&mut connection, store.sql(), &insert).await;
    let owner = Owner::random("large");
    let claim = |max_bytes, order| {
        Claim::new(&owner, Duration::from_secs(60), 100).with_max_bytes(max_bytes).with_order(order)
    };
    for (order, max_bytes, rows) in [
        (ClaimOrder::Due, 10, 1),
        (ClaimOrder::Due, 4 * ROW_BYTES, 4),
        (ClaimOrder::Due, 4 * ROW_BYTES, 4),
        // Leased rows end a search in the order of insertion.
        (ClaimOrder::Seq, 4 * ROW_BYTES, 0),
    ] {
        let before = pages_read(&mut connection).await;
        let claimed = store.claim(&claim(max_bytes, order)).await.expect("a claim");
        assert_eq!((claimed.events.len(), claimed.cut), (rows, rows > 0));
        let pages = pages_read(&mut connection).await - before;
        assert!(pages < (rows as u64 + 2) * 6 * PAGES_PER_ROW, "{rows} rows: {pages} pages");
    }
}

async fn pages_read(connection: &mut MySqlConnection) -> u64 {
    let status = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'";
    let row = sqlx::query(status).fetch_one(connection).await.expect("a row");
    row.try_get_unchecked::<String, _>(1).expect("text").parse().expect("a number")
}

/// A store in a new database, a connection to it, and its name.
pub(super) async fn open(test: &str) -> (MySqlStore, MySqlConnection, String) {
    open_on(&posthaste_testkit::variable("POSTHASTE_TEST_MYSQL_URL"), test).await
}

async fn open_on(url: &str, test: &str) -> (MySqlStore, MySqlConnection, String) {
    let server: sqlx::mysql::MySqlConnectOptions = url.parse().expect("a good URL");
    let mut connection = MySqlConnection::connect_with(&server).await.expect("a connection");
    let database = format!("{test}_{}", std::process::id());
    let create = AssertSqlSafe(format!("CREATE DATABASE {database}"));
    sqlx::raw_sql(create).execute(&mut connection).await.expect("a database");
    let options = server.database(&database);
    let store = MySqlStore::builder(&options).migrate().connect().await.expect("the store opens");
    let connection = MySqlConnection::connect_with(&options).await.expect("a connection");
    (store, connection, database)
}

// S0-09, S2-17, S3-29
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn every_plan_uses_the_right_index_and_sorts_nothing() {
    let (store, mut connection, database) = open("plans").await;
    // MySQL would print a tree; MariaDB has only this format.
    let _ = sqlx::raw_sql("SET SESSION explain_format = 'TRADITIONAL'").execute(&mut connection).await;
    run(&mut connection, store.sql(), ROWS).await;
    check(&mut connection, &store, "without statistics").await;
    run(&mut connection, store.sql(), "ANALYZE TABLE `{table}`").await;
    check(&mut connection, &store, "with statistics").await;
    run(&mut connection, store.sql(), &format!("DROP DATABASE {database}")).await;
}

/// A gauge runs this query every few seconds. A temporary table with all columns would be created on disk, payloads
/// included.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn age_of_the_oldest_event_is_found_without_reading_payloads() {
    let (store, mut connection, database) = open("oldest").await;
    run(&mut connection, store.sql(), ROWS).await;
    let oldest = store.sql().query::<MySql>(stats::OLDEST_PENDING);
    let oldest = oldest.bind(None::<i64>).bind(None::<i64>).fetch_one(&mut connection).await.expect("a row");
    assert!(oldest.try_get::<Option<i64>, _>(0).expect("a number").is_some());
    let status = "SHOW SESSION STATUS LIKE 'Created_tmp_disk_tables'";
    let made = sqlx::query(status).fetch_one(&mut connection).await.expect("a row");
    assert_eq!(made.try_get_unchecked::<String, _>(1).expect("a number"), "0");
    run(&mut connection, store.sql(), &format!("DROP DATABASE {database}")).await;
}
