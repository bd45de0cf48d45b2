//! Query plans of the engine's statements on PostgreSQL: each finds its rows by the index made for it, whatever the
//! planner knows about the table.
//!
//! Statements that run often have a cached plan, so these are also checked with a plan made while the table was empty.
//! The other statements are planned each time.

use posthaste_sql_writer::postgres::Statements;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row as _};

use super::{PgStore, claim, diagnose, lease, purge, settle, stats};
use crate::SchemaName;
use crate::sql::Sql;
use crate::store::admin::AdminDialect as _;
use crate::store::backlog::BacklogDialect as _;
use crate::store::diagnose::DiagnoseDialect as _;
use crate::store::stats::StatsDialect as _;

/// What a plan must show.
struct Expected {
    name: &'static str,
    statement: String,
    types: &'static str,
    values: &'static str,
    /// The index that finds the rows.
    index: &'static str,
}

/// The primary key, or the smaller index of pending rows with the same order.
const BY_SEQ: &str = "outbox_event_seq_key or outbox_event_pending";

const SEQS: [&str; 2] = ["int8[]", "'{1, 50001, 50002, 50003}'"];
const MEANT: [&str; 2] = ["int8[], text[], timestamptz", "'{1, 50001}', '{event1, event50001}', NULL"];
const LEASES: [&str; 2] = [
    "int8[], text[], int8[], text, timestamptz, interval, text",
    "'{50001}', '{event50001}', '{7}', 'me', NULL, '5m', 'route'",
];
const RENEWED: [&str; 2] = [
    "int8[], text[], int8[], text, timestamptz, interval, int4",
    "'{50001}', '{event50001}', '{7}', 'me', NULL, '5m', 0",
];
const AGE: [&str; 2] = ["timestamptz, interval", "NULL, '7d'"];
const CLAIM: [&str; 2] = [
    "timestamptz, text, int8, interval, interval, int8, timestamptz, int8, timestamptz",
    "NULL, 'me', 7, '30s', '0', 1000000, '-infinity', 0, 'infinity'",
];

impl Expected {
    fn finds_rows(&self, line: &str) -> bool {
        self.index.split(" or ").any(|index| line.contains(&format!("using {index} ")))
    }
}

/// `values` contains the types and the values.
fn by(name: &'static str, statement: &str, values: [&'static str; 2], index: &'static str) -> Expected {
    let statement = statement.replace("{limit}", "100");
    Expected { name, statement, types: values[0], values: values[1], index }
}

/// Statements with a cached plan.
fn kept(writer: &Statements) -> Vec<Expected> {
    vec![
        by("claim by due time", claim::BY_DUE, CLAIM, "outbox_event_due"),
        by("parked names", claim::PARKED_NAMES, ["text", "''"], "outbox_event_parked"),
        by("settle, lean", settle::DONE, MEANT, "outbox_event_seq_key"),
        by("settle, lean, delete", settle::DELETE, MEANT, "outbox_event_seq_key"),
        by("proof before commit", &writer.present, SEQS, "outbox_event_seq_key"),
    ]
}

/// Statements that are planned each time.
fn fresh() -> Vec<Expected> {
    let purge = |old| format!(r#"DELETE FROM "{{table}}" WHERE seq = ANY ({old})"#);
    let general = [
        "text, timestamptz, interval[], text[], int8[], text[], int8[], text[], text[], interval[], interval[], \
         text[], int8[], int8[], int8[], int4[], int4[]",
        "'me', NULL, '{1s}', '{}', '{50001}', '{event50001}', '{7}', '{failed}', '{no}', '{NULL}', '{NULL}', \
         '{NULL}', '{3}', '{1}', '{1}', '{1}', '{0}'",
    ];
    vec![
        by("claim by insertion", claim::BY_SEQ, CLAIM, "outbox_event_pending"),
        by("settle, general", settle::GENERAL, general, BY_SEQ),
        by("renew", lease::RENEW, RENEWED, BY_SEQ),
        by("release", lease::RELEASE, LEASES, BY_SEQ),
        by("park", lease::PARK, LEASES, BY_SEQ),
        by("unpark", lease::UNPARK, ["text, timestamptz", "'route', NULL"], "outbox_event_parked"),
        by("purge the done", &purge(purge::OLD_DONE), AGE, "outbox_event_done"),
        by("purge the dead", &purge(purge::OLD_DEAD), AGE, "outbox_event_dead"),
        by("purge by age", &purge(purge::OLD), AGE, "outbox_event_seq_key"),
        by("lag", stats::OLDEST_PENDING, ["timestamptz", "NULL"], "outbox_event_pending"),
    ]
}

/// Rows that are done, and some in every other state.
const ROWS: &str = r#"INSERT INTO "{table}" (event_id, event_type, payload, status, available_at, done_at, parked, locked_by)
SELECT 'event' || n, 'Tested', '{}', CASE WHEN n <= 50000 THEN 1 WHEN n % 20 = 0 THEN 3 ELSE n % 2 * 2 END,
  now() - interval '1 hour' + n * interval '1 millisecond', now(),
  CASE WHEN n > 50000 AND n % 7 = 0 THEN 'route' END, CASE WHEN n > 50000 AND n % 11 = 0 THEN 'owner' END
FROM generate_series(1, 60000) AS n"#;

pub(super) async fn run(connection: &mut PgConnection, sql: &Sql, text: &str) -> Vec<String> {
    let rows = sqlx::raw_sql(AssertSqlSafe(&*sql.text(text))).fetch_all(connection).await;
    let rows = rows.unwrap_or_else(|error| panic!("{text}: {error}"));
    rows.iter().filter_map(|row| row.try_get(0).ok()).collect()
}

async fn prepare(connection: &mut PgConnection, sql: &Sql, statements: &[Expected]) {
    run(connection, sql, "DEALLOCATE ALL").await;
    for (number, expected) in statements.iter().enumerate() {
        run(
            connection,
            sql,
            &format!("PREPARE plan_{number} ({}) AS {}", expected.types, expected.statement),
        )
        .await;
    }
}

async fn check(connection: &mut PgConnection, sql: &Sql, statements: &[Expected], when: &str) {
    for (number, expected) in statements.iter().enumerate() {
        let text = format!("EXPLAIN EXECUTE plan_{number} ({})", expected.values);
        let plan = run(connection, sql, &text).await;
        let shown = format!("{}, {when}: {plan:#?}", expected.name);
        assert!(plan.iter().any(|line| expected.finds_rows(line)), "{shown}");
        assert!(!plan.iter().any(|line| line.contains("Sort")), "{shown}");
        assert!(!plan.iter().any(|line| line.contains("Seq Scan on outbox_event")), "{shown}");
    }
}

/// A store in a new schema.
pub(super) async fn store(test: &str) -> PgStore {
    let url = posthaste_testkit::variable("POSTHASTE_TEST_POSTGRES_URL");
    let schema: SchemaName = format!("{test}_{}", std::process::id()).parse().expect("a good name");
    let builder = PgStore::builder(&url.parse().expect("a good URL")).schema(schema);
    builder.migrate().connect().await.expect("the store opens")
}

// S0-09, S2-17, S3-29
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn cached_plans_use_the_right_index_even_if_made_for_an_empty_table() {
    let store = store("kept_plans").await;
    let (sql, kept) = (store.sql(), kept(&store.0.statements));
    let checked = store.connections().engine(async |connection| {
        run(connection, sql, "SET plan_cache_mode = force_generic_plan").await;
        for before in ["SELECT 1", r#"VACUUM ANALYZE "{table}""#] {
            // Autovacuum must not update the statistics while the test runs.
            run(connection, sql, r#"ALTER TABLE "{table}" SET (autovacuum_enabled = off)"#).await;
            run(connection, sql, before).await;
            prepare(connection, sql, &kept).await;
            check(connection, sql, &kept, "empty").await;
            run(connection, sql, ROWS).await;
            check(connection, sql, &kept, "full, planned when empty").await;
            prepare(connection, sql, &kept).await;
            check(connection, sql, &kept, "full").await;
            run(connection, sql, r#"ANALYZE "{table}""#).await;
            check(connection, sql, &kept, "full, with statistics").await;
            run(connection, sql, r#"TRUNCATE "{table}" RESTART IDENTITY"#).await;
        }
        run(connection, sql, r#"DROP SCHEMA "{schema}" CASCADE"#).await;
        Ok(())
    });
    checked.await.expect("a connection");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn fresh_plans_use_the_right_index() {
    let store = store("fresh_plans").await;
    let (sql, fresh) = (store.sql(), fresh());
    let checked = store.connections().engine(async |connection| {
        run(connection, sql, r#"ALTER TABLE "{table}" SET (autovacuum_enabled = off)"#).await;
        for (before, when) in [(ROWS, "without statistics"), (r#"ANALYZE "{table}""#, "with statistics")] {
            run(connection, sql, before).await;
            prepare(connection, sql, &fresh).await;
            check(connection, sql, &fresh, when).await;
        }
        run(connection, sql, r#"DROP SCHEMA "{schema}" CASCADE"#).await;
        Ok(())
    });
    checked.await.expect("a connection");
}

/// Statements of operators, on a table of which the planner knows nothing or too much.
fn bounded() -> [(&'static str, &'static [&'static str]); 10] {
    let pending: &[&str] = &["outbox_event_pending"];
    [
        (Postgres::BOUNDED, &["outbox_event_pending", "outbox_event_done", "outbox_event_dead"]),
        (stats::SAMPLE_OF_PENDING, pending),
        (Postgres::BY_TYPE, pending),
        (Postgres::BY_TENANT, pending),
        (Postgres::MORE, pending),
        (diagnose::rows::DOUBTFUL, pending),
        (Postgres::PARKED, &["outbox_event_parked"]),
        (Postgres::PARKED_ROWS, &["outbox_event_parked"]),
        (Postgres::NEWEST, &["outbox_event_seq_key"]),
        (Postgres::DEAD_GROUPS, &["outbox_event_dead"]),
    ]
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn operator_queries_read_in_the_order_of_an_index() {
    let store = store("bounded_plans").await;
    let sql = store.sql();
    let checked = store.read(async |connection| {
        run(connection, sql, r#"ALTER TABLE "{table}" SET (autovacuum_enabled = off)"#).await;
        // Makes the planner prefer to read everything and sort it.
        run(connection, sql, "SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off").await;
        Postgres::read_in_order(connection).await?;
        for before in [ROWS, r#"ANALYZE "{table}""#] {
            run(connection, sql, before).await;
            for (statement, indexes) in bounded() {
                let values = [("$1", "'a'"), ("{limit}", "10"), ("{place}", "50000"), ("{rows}", "100")];
                let text =
                    values.iter().fold(statement.to_owned(), |text, (name, value)| text.replace(name, value));
                let plan = run(connection, sql, &format!("EXPLAIN {text}")).await;
                let uses = |index: &&str| plan.iter().any(|line| line.contains(&format!("using {index} ")));
                assert!(indexes.iter().all(uses), "{statement}: {plan:#?}");
                let reads_all =
                    |line: &String| line.contains("Bitmap") || line.contains("Seq Scan on outbox_event ");
                assert!(!plan.iter().any(reads_all), "{statement}: {plan:#?}");
            }
        }
        run(connection, sql, r#"DROP SCHEMA "{schema}" CASCADE"#).await;
        Ok(())
    });
    checked.await.expect("a connection");
}
