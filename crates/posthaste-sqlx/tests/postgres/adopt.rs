//! Adoption of a classic 15-column outbox table on PostgreSQL, in place.

use crate::cases::adopt::ClassicTable;
use crate::support::*;

crate::cases::adopt::adopt_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);

/// Column types that are common in such tables.
#[derive(Clone, Copy)]
pub(crate) struct ColumnTypes {
    pub(crate) payload: &'static str,
    headers: &'static str,
    pub(crate) time: &'static str,
    status: &'static str,
}

pub(crate) const COLUMN_TYPES: [ColumnTypes; 3] = [
    ColumnTypes { payload: "jsonb", headers: "jsonb", time: "timestamp(6)", status: "smallint" },
    ColumnTypes { payload: "json", headers: "text", time: "timestamptz", status: "int" },
    ColumnTypes { payload: "text", headers: "json", time: "timestamptz", status: "bigint" },
];

/// How many rows `INSERT_ROWS_SQL` inserts: enough for many in every state.
pub(crate) const ROWS: u32 = 10_000;

/// Inserts rows in every state: new, done, retry and dead. Some are leased, and some are due in a thousand years.
pub(crate) const INSERT_ROWS_SQL: &str = r#"INSERT INTO outbox_event
SELECT 'event' || n, 'OrderPlaced', CASE WHEN n % 5 <> 0 THEN 'Order' END, 'Ä' || n, 'acme',
  ('{"n": ' || n || ',  "a": 1.50, "text": "é ''"}')::{payload}, '{"region":"eu"}', n % 4, n % 3,
  CASE WHEN n % 100 = 2 THEN '2999-01-01'::{time} ELSE '2026-01-01 12:00:00.123456'::{time} END,
  '2026-01-01'::{time} + n * 7919 % 10007 * interval '1 second',
  CASE WHEN n % 4 IN (1, 3) THEN '2026-01-02 00:00:00.000001'::{time} END,
  CASE WHEN n % 4 IN (2, 3) THEN 'it failed: é' END,
  CASE WHEN n % 8 = 4 THEN 'worker-7' END, CASE WHEN n % 8 = 4 THEN '2026-01-01'::{time} END
FROM generate_series(1, 10000) AS n;"#;

/// All columns that an adoption must not change, as one text.
pub(crate) const FINGERPRINT_SQL: &str = "SELECT count(*) || ' ' || md5(string_agg(concat_ws('|', event_id, event_type,
  aggregate_id, tenant_id, payload::text, headers::text, status, attempts, extract(epoch FROM available_at),
  extract(epoch FROM created_at), extract(epoch FROM done_at), last_error), E'\n' ORDER BY event_id)) FROM outbox_event";

/// A hash of all columns except `inserted_at`, after an adoption.
pub(crate) const FULL_FINGERPRINT_SQL: &str =
    "SELECT md5(string_agg((to_jsonb(o) - 'inserted_at')::text, E'\n' ORDER BY seq)) FROM outbox_event AS o";

/// Counts the rows whose `seq` is not in the order of creation, or whose `inserted_at` is not recent.
pub(crate) const MISPLACED_SQL: &str = "SELECT count(*) FROM (SELECT *,
  row_number() OVER (ORDER BY created_at, event_id) AS n FROM outbox_event) AS o
  WHERE seq <> n OR inserted_at <= now() - interval '10 min'";

pub(crate) fn create_table_sql(types: ColumnTypes) -> String {
    let ColumnTypes { payload, headers, time, status } = types;
    format!(
        "CREATE TABLE outbox_event (event_id varchar(36) PRIMARY KEY, event_type varchar(128) NOT NULL,
           aggregate_type varchar(64), aggregate_id varchar(128), tenant_id varchar(64), payload {payload} NOT NULL,
           headers {headers}, status {status} NOT NULL, attempts int NOT NULL DEFAULT 0, available_at {time} NOT NULL,
           created_at {time} NOT NULL, done_at {time}, last_error text, locked_by varchar(128), locked_at {time});
         CREATE INDEX idx_status_available ON outbox_event (status, available_at, created_at);
         SET TimeZone = 'UTC';"
    )
}

/// The INSERT of a program that knows the old types.
pub(crate) fn insert_of_an_old_program(types: ColumnTypes) -> String {
    let time = format!("'2026-01-01'::{}", types.time);
    format!(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers,
           status, attempts, available_at, created_at, done_at, last_error, locked_by, locked_at)
         VALUES ('afterwards', 'T', 'Order', '1', NULL, '{{}}'::{}, NULL, 0, 0, {time}, {time}, NULL, NULL, NULL, NULL)",
        types.payload
    )
}

/// All definitions and the rows.
async fn state(old: &ClassicTable) -> (Vec<String>, Option<String>) {
    (old.place.contents().await, old.text(FINGERPRINT_SQL).await)
}

impl Place {
    /// A schema for a table of these types.
    pub(crate) async fn for_classic_table(_: ColumnTypes) -> Self {
        Self::with("SELECT 1").await
    }

    pub(crate) fn builder_far_from_utc(&self) -> StoreBuilder {
        self.builder_on(&server().options([("TimeZone", "Asia/Kathmandu")]))
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn grants_and_foreign_keys_stay() {
    let old = ClassicTable::with_rows(COLUMN_TYPES[0]).await;
    let role = format!("{}_reader", old.place.schema);
    let sql = format!(
        "CREATE ROLE {role}; GRANT SELECT, INSERT ON outbox_event TO {role};
         CREATE TABLE notes (event_id varchar(36) REFERENCES outbox_event (event_id), text text);
         INSERT INTO notes VALUES ('event1', 'remember')"
    );
    run(&old.pool, &sql).await.unwrap();
    old.adopt().await.expect("an outbox").close().await;
    let may = format!("SELECT has_table_privilege('{role}', 'outbox_event', 'SELECT, INSERT')");
    assert_eq!(old.text(&may).await.as_deref(), Some("true"));
    run(&old.pool, "INSERT INTO notes VALUES ('event2', 'again')")
        .await
        .expect("it refers to a row that exists");
    let refused =
        run(&old.pool, "INSERT INTO notes VALUES ('missing', 'x')").await.expect_err("no such event");
    assert!(refused.to_string().contains("foreign key"), "{refused}");
    run(&old.pool, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
    old.close().await;
}

/// PostgreSQL does not change the type of a column that a view uses. The owner of the view has to decide what to do.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn view_on_the_table_is_named_and_nothing_is_changed() {
    let old = ClassicTable::with_rows(COLUMN_TYPES[0]).await;
    run(&old.pool, "CREATE VIEW waiting AS SELECT event_id, payload FROM outbox_event WHERE status = 0")
        .await
        .unwrap();
    let before = state(&old).await;
    let error = old.adopt().await.expect_err("the view prevents it");
    assert!(error.to_string().contains("view"), "{error}");
    assert_eq!(state(&old).await, before);
    run(&old.pool, "DROP VIEW waiting").await.unwrap();
    old.adopt().await.expect("an outbox").close().await;
    old.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn adoption_that_fails_changes_nothing() {
    let bad = "INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at)
        VALUES ('good', 'T', '{}', 0, now(), now()), ('bad', 'T', '{}', 99999, now(), now());";
    let old = ClassicTable::new(ColumnTypes { status: "bigint", ..COLUMN_TYPES[1] }, bad).await;
    let before = state(&old).await;
    let error = old.adopt().await.expect_err("no smallint");
    assert!(error.to_string().contains("smallint"), "{error}");
    assert_eq!(state(&old).await, before);
    old.close().await;
}

/// A row with an unknown status would never be claimed.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn row_that_cannot_be_adopted_is_not_adopted_silently() {
    let bad = "INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at)
        VALUES ('a', 'T', '{}', 9, now(), now());";
    let old = ClassicTable::new(COLUMN_TYPES[0], bad).await;
    let before = old.place.contents().await;
    let error = old.adopt().await.expect_err("an unknown status");
    assert!(error.to_string().contains("status is 0 NEW"), "{error}");
    assert_eq!(old.place.contents().await, before);
    old.close().await;
}
