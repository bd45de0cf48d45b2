//! Query plans of the engine's statements on SQLite: each finds its rows by the index made for it, on a table with many
//! rows that are done, with and without statistics.

use sqlx::{AssertSqlSafe, Row as _, Sqlite, SqliteConnection};

use super::{SqliteStore, claim, lease, purge, settle, stats};
use crate::sql::Sql;
use crate::store::backlog::BacklogDialect as _;
use crate::store::diagnose::DiagnoseDialect as _;
use crate::store::stats::StatsDialect as _;

/// What a plan must show, and whether it may sort.
struct Expected<'s> {
    name: &'static str,
    statement: &'s str,
    /// A part of one step. With statistics, SQLite may use a small index instead of the key.
    way: &'static str,
    sorts: bool,
}

const fn by<'s>(name: &'static str, statement: &'s str, way: &'static str) -> Expected<'s> {
    Expected { name, statement, way, sorts: false }
}

const BY_KEY: &str = "USING INTEGER PRIMARY KEY (rowid=?)";
const BY_PENDING: &str = "USING INDEX outbox_event_pending (seq=?";

const EXPECTED: [Expected<'static>; 24] = [
    // One search per name, and nothing that reads all parked rows.
    by(
        "parked names",
        claim::PARKED_NAMES,
        "SEARCH outbox_event USING COVERING INDEX outbox_event_parked (parked>?)",
    ),
    by(
        "anything due",
        claim::ANYTHING_DUE,
        "SEARCH outbox_event USING INDEX outbox_event_due (available_at>? AND available_at<?)",
    ),
    by(
        "claim by due time",
        claim::BY_DUE,
        "SEARCH outbox_event USING INDEX outbox_event_due (available_at>? AND available_at<?)",
    ),
    by("claim by insertion", claim::BY_SEQ, "SEARCH outbox_event USING INDEX outbox_event_pending (seq<?)"),
    by("lease", claim::LEASE, BY_KEY),
    by("rows that are leased", claim::ROWS, BY_KEY),
    by("settle, lean", settle::DONE, BY_KEY),
    by("settle, lean, what became of it", settle::DONE_BY, BY_KEY),
    by("settle, lean, delete", settle::DELETE, BY_KEY),
    by("settle, general", settle::GENERAL, BY_KEY),
    by("renew", lease::RENEW, BY_KEY),
    by("release", lease::RELEASE, BY_KEY),
    by("park", lease::PARK, BY_KEY),
    by("unpark", lease::UNPARK, "SEARCH outbox_event USING INDEX outbox_event_parked (parked=?)"),
    by("purge the done", purge::OLD_DONE, "SEARCH outbox_event USING INDEX outbox_event_done (<expr><?)"),
    // There are few dead rows: an operator looks at each of them.
    Expected { sorts: true, ..by("purge the dead", purge::OLD_DEAD, "USING INDEX outbox_event_dead") },
    by("archive", purge::ARCHIVE, BY_KEY),
    by("lag", stats::OLDEST_PENDING, "SCAN outbox_event USING INDEX outbox_event_pending"),
    by("bounded counts", Sqlite::BOUNDED, "SCAN outbox_event USING INDEX outbox_event_pending"),
    by("bounded counts", Sqlite::BOUNDED, "SCAN outbox_event USING COVERING INDEX outbox_event_done"),
    by("more than the backlog shows", Sqlite::MORE, "SCAN outbox_event USING INDEX outbox_event_pending"),
    // It sorts its groups.
    Expected {
        sorts: true,
        ..by("backlog", Sqlite::BY_TYPE, "SCAN outbox_event USING INDEX outbox_event_pending")
    },
    by(
        "parked for a route",
        Sqlite::PARKED,
        "SEARCH outbox_event USING COVERING INDEX outbox_event_parked (parked=?)",
    ),
    by(
        "the oldest of them",
        Sqlite::PARKED_ROWS,
        "SEARCH outbox_event USING INDEX outbox_event_parked (parked=?)",
    ),
];

/// Ten thousand rows that are done, and some in every other state.
const ROWS: &str = r#"
WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 11000)
INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, done_at, parked, locked_by)
SELECT 'event' || n, 'Tested', '{}', CASE WHEN n <= 10000 THEN 1 WHEN n % 20 = 0 THEN 3 ELSE n % 2 * 2 END,
  1000000 + n, iif(n <= 10000 OR n % 20 = 0, 1000000 + n, NULL), iif(n > 10000 AND n % 7 = 0, 'route', NULL),
  iif(n > 10000 AND n % 11 = 0, 'owner', NULL)
FROM n"#;

async fn plan(connection: &mut SqliteConnection, sql: &Sql, statement: &str) -> Vec<String> {
    let text = format!("EXPLAIN QUERY PLAN {}", sql.text(statement));
    let rows = sqlx::query(AssertSqlSafe(text)).fetch_all(connection).await.expect("a plan");
    rows.iter().map(|row| row.get("detail")).collect()
}

/// A step that reads all rows of the table.
fn reads_the_whole_table(step: &str) -> bool {
    ["SCAN outbox_event", "SCAN o"].contains(&step)
}

async fn check_all(connection: &mut SqliteConnection, store: &SqliteStore) {
    let statements = &store.0.statements;
    let placed = |look: &str| look.replace("{place}", "10500").replace("{rows}", "100");
    let (pending, all) = (placed(stats::SAMPLE_OF_PENDING), placed(stats::SAMPLE_OF_ALL));
    let proofs = [
        by(
            "sample of pending rows",
            &pending,
            "SEARCH outbox_event USING INDEX outbox_event_pending (seq>?)",
        ),
        by("sample of all rows", &all, "SEARCH outbox_event USING INTEGER PRIMARY KEY (rowid>?)"),
        by("proof before commit", &statements.missing, BY_KEY),
        by("proof before commit, of one row", &statements.present, BY_KEY),
    ];
    for expected in EXPECTED.into_iter().chain(proofs) {
        let (name, plan) = (expected.name, plan(connection, store.sql(), expected.statement).await);
        let is_good = |step: &String| {
            step.contains(expected.way) || (expected.way == BY_KEY && step.contains(BY_PENDING))
        };
        assert!(plan.iter().any(is_good), "{name}: {plan:#?}");
        assert!(!plan.iter().any(|step| reads_the_whole_table(step)), "{name}: {plan:#?}");
        let sorts = plan.iter().any(|step| step.contains("TEMP B-TREE FOR"));
        assert_eq!(sorts, expected.sorts, "{name}: {plan:#?}");
    }
}

// S0-09, S2-17, S3-29
#[tokio::test]
async fn every_statement_finds_its_rows_by_its_index() {
    let options = "sqlite::memory:".parse().expect("a good URL");
    let store = SqliteStore::builder(&options).migrate().connect().await.expect("the store opens");
    let mut connection = store.connections().write.acquire().await.expect("a connection");
    check_all(&mut connection, &store).await;
    sqlx::query(ROWS).execute(&mut *connection).await.expect("rows");
    check_all(&mut connection, &store).await;
    sqlx::query("ANALYZE").execute(&mut *connection).await.expect("statistics");
    check_all(&mut connection, &store).await;
}

/// A writer-only outbox purges by age in the order of the table, so a batch stops when it is full.
#[tokio::test]
async fn purge_by_age_does_not_sort() {
    let options = "sqlite::memory:".parse().expect("a good URL");
    let store = SqliteStore::builder(&options).migrate().connect().await.expect("the store opens");
    let mut connection = store.connections().write.acquire().await.expect("a connection");
    assert_eq!(
        plan(&mut connection, store.sql(), purge::OLD).await,
        ["SEARCH outbox_event USING INTEGER PRIMARY KEY (rowid<?)", "SCALAR SUBQUERY 1", "SCAN outbox_event"]
    );
}
