//! A classic 15-column outbox table becomes an outbox, with all its rows: the cases of every database, and what only
//! SQLite has.

use posthaste::{Admin as _, EventDetail, EventId};
use posthaste_sqlx::OpenError;

use crate::cases::adopt::ClassicTable;
use crate::support::*;

crate::cases::adopt::adopt_tests!();

/// The types of the columns. Only their affinity matters to SQLite.
#[derive(Clone, Copy)]
pub(crate) struct ColumnTypes {
    pub(crate) payload: &'static str,
    pub(crate) time: &'static str,
}

pub(crate) const COLUMN_TYPES: [ColumnTypes; 2] =
    [ColumnTypes { payload: "JSON", time: "DATETIME(6)" }, ColumnTypes { payload: "TEXT", time: "INTEGER" }];

pub(crate) const ROWS: u32 = 1000;

/// Rows in every state: new, done, retry and dead, leased, and due in many years.
pub(crate) const INSERT_ROWS_SQL: &str = r#"INSERT INTO outbox_event
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000)
SELECT 'event' || n, 'OrderPlaced', iif(n % 5 <> 0, 'Order', NULL), 'Ä' || n, 'acme',
  '{"n": ' || n || ', "text": "é ''"}', '{"region": "eu"}', n % 4, n % 3,
  iif(n % 100 = 2, 2114380800000000, 1767268800123456),
  1767225600500000 + n * 7919 % 10007 * 1000000,
  iif(n % 4 IN (1, 3), 1767312000000001, NULL), iif(n % 4 IN (2, 3), 'it failed: é', NULL),
  iif(n % 8 = 4, 'worker-7', NULL), iif(n % 8 = 4, 1767225600000000, NULL)
FROM numbers;"#;

/// All columns that an adoption must not change, as one text.
pub(crate) const FINGERPRINT_SQL: &str = "SELECT group_concat(fields) FROM (
  SELECT concat_ws('|', event_id, event_type, aggregate_id, tenant_id, payload, headers, status, attempts, available_at,
    created_at, quote(done_at), quote(last_error)) AS fields FROM outbox_event ORDER BY event_id)";

/// All columns that do not depend on the time of the adoption.
pub(crate) const FULL_FINGERPRINT_SQL: &str = "SELECT group_concat(fields) FROM (
  SELECT concat_ws('|', seq, event_id, aggregate_type, typeof(payload), payload, headers, status, attempts, available_at,
    created_at, quote(done_at), quote(last_error), quote(locked_by), quote(locked_at), lease_token) AS fields
  FROM outbox_event ORDER BY seq)";

/// How many rows are not in the order of their creation.
pub(crate) const MISPLACED_SQL: &str = "SELECT count(*) FROM (
  SELECT seq, row_number() OVER (ORDER BY created_at) AS n FROM outbox_event) WHERE seq <> n";

pub(crate) fn create_table_sql(types: ColumnTypes) -> String {
    let ColumnTypes { payload, time } = types;
    format!(
        "CREATE TABLE outbox_event (event_id VARCHAR(36) PRIMARY KEY, event_type VARCHAR(128) NOT NULL,
           aggregate_type VARCHAR(64), aggregate_id VARCHAR(128), tenant_id VARCHAR(64), payload {payload} NOT NULL,
           headers JSON, status TINYINT NOT NULL, attempts INT NOT NULL DEFAULT 0, available_at {time} NOT NULL,
           created_at {time} NOT NULL, done_at {time}, last_error TEXT, locked_by VARCHAR(128), locked_at {time});
         CREATE INDEX idx_status_available ON outbox_event (status, available_at, created_at);"
    )
}

/// The INSERT of a program that knows the old table.
pub(crate) fn insert_of_an_old_program(_: ColumnTypes) -> String {
    "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload,
       headers, status, attempts, available_at, created_at, done_at, last_error, locked_by, locked_at)
     VALUES ('afterwards', 'T', 'Order', '1', NULL, '{}', NULL, 0, 0, '2026-01-01', '2026-01-01', NULL, NULL,
       NULL, NULL)"
        .to_owned()
}

impl Place {
    pub(crate) async fn for_classic_table(_: ColumnTypes) -> Self {
        Self::new().await
    }

    /// SQLite has no time zone of a session.
    pub(crate) fn builder_far_from_utc(&self) -> StoreBuilder {
        self.builder()
    }
}

/// 2026-01-01 12:00:00 UTC, in microseconds.
const NOON_MICROS: i64 = 1_767_268_800_000_000;

async fn old_table(sql: &str) -> ClassicTable {
    ClassicTable::new(COLUMN_TYPES[0], sql).await
}

fn row(id: &str, status: i64, time: &str, rest: &str) -> String {
    format!(
        "INSERT INTO outbox_event VALUES ('{id}', 'OrderPlaced', 'Order', '17', 'acme', '{{\"n\": 1}}', \
         '{{\"region\":\"eu\"}}', {status}, 3, {time}, {time}, {rest});"
    )
}

async fn get(store: &Store, id: &str) -> EventDetail {
    store.get(&EventId::from(id)).await.expect("the store works").unwrap_or_else(|| panic!("no row {id}"))
}

#[tokio::test]
async fn times_in_every_unit_become_the_same_instant() {
    let forms = [
        ("text", "'2026-01-01 12:00:00'"),
        ("fraction", "'2026-01-01 12:00:00.000000'"),
        ("iso", "'2026-01-01T12:00:00Z'"),
        ("seconds", "1767268800"),
        ("float-seconds", "1767268800.0"),
        ("millis", "1767268800000"),
        ("micros", "1767268800000000"),
        ("number-as-text", "'1767268800'"),
    ];
    let sql: String =
        forms.iter().map(|(id, time)| row(id, 1, time, &format!("{time}, NULL, NULL, NULL"))).collect();
    let old = old_table(&sql).await;
    let store = old.adopt().await.expect("an outbox");
    for (id, _) in forms {
        let row = get(&store, id).await.row;
        assert_eq!(row.malformed, None, "{id}");
        for time in [Some(row.available_at), Some(row.created_at), row.done_at] {
            assert_eq!(time.map(posthaste::Timestamp::as_micros), Some(NOON_MICROS), "{id}: {row:?}");
        }
    }
}

#[tokio::test]
async fn row_without_an_aggregate_or_with_a_payload_that_is_no_text_is_adopted() {
    let rows = "
        INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at)
        VALUES ('number', 'T', 7, 0, 1, 1), ('blob', 'T', x'00ff', 0, 1, 1), ('text', 'T', 'null', 0, 1, 1);";
    let old = old_table(rows).await;
    let store = old.adopt().await.expect("an outbox");
    for (id, payload) in [("number", &b"7"[..]), ("blob", &[0, 255]), ("text", b"null")] {
        let detail = get(&store, id).await;
        assert_eq!(&detail.event.payload()[..], payload, "{id}");
        assert_eq!(detail.event.aggregate_type(), posthaste::GLOBAL);
    }
}

#[tokio::test]
async fn table_with_a_generated_column_is_refused_and_left_alone() {
    let column = "upper_type TEXT GENERATED ALWAYS AS (upper(event_type)) VIRTUAL";
    let old = old_table(&format!("ALTER TABLE outbox_event ADD COLUMN {column};")).await;
    let before = old.place.contents().await;
    let error = old.adopt().await.expect_err("its column would be lost");
    assert!(matches!(error, OpenError::ForeignTable { .. }), "{error:?}");
    assert!(error.to_string().contains("upper_type"), "{error}");
    assert!(error.to_string().contains("another table name"), "{error}");
    assert_eq!(old.place.contents().await, before);
}

#[tokio::test]
async fn adoption_that_fails_changes_nothing() {
    for (bad, why) in [
        (row("bad", 0, "'some day'", "NULL, NULL, NULL, NULL"), "available_at"),
        (row("bad", 9, "1", "NULL, NULL, NULL, NULL"), "status"),
        (row(&"x".repeat(40), 0, "1", "NULL, NULL, NULL, NULL"), "event_id"),
    ] {
        let old = old_table(&(row("good", 0, "1", "NULL, NULL, NULL, NULL") + &bad)).await;
        let before = old.place.contents().await;
        let error = old.adopt().await.expect_err(why);
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(old.place.contents().await, before);
        assert_eq!(text_of(&old.pool, "SELECT count(*) FROM outbox_event").await.as_deref(), Some("2"));
    }
}

#[tokio::test]
async fn adopted_schema_is_the_same_as_a_new_one() {
    let old = old_table(&row("a", 0, "1", "NULL, NULL, NULL, NULL")).await;
    old.adopt().await.expect("an outbox");
    assert_eq!(old.place.contents().await, Place::migrated().await.contents().await);
}

/// Views of the service on its table continue to work.
#[tokio::test]
async fn view_on_the_table_shows_the_new_one_afterwards() {
    let view = "CREATE VIEW waiting AS SELECT event_id FROM outbox_event WHERE status = 0;";
    let old = old_table(&(row("a", 0, "1", "NULL, NULL, NULL, NULL") + view)).await;
    old.adopt().await.expect("an outbox");
    assert_eq!(texts_of(&old.pool, "SELECT event_id FROM waiting").await, ["a"]);
}

#[tokio::test]
async fn foreign_key_to_the_table_refers_to_the_new_one_afterwards() {
    let child = "CREATE TABLE notes (event_id TEXT REFERENCES outbox_event (event_id), text TEXT);
        INSERT INTO notes VALUES ('a', 'remember');";
    let old = old_table(&(row("a", 0, "1", "NULL, NULL, NULL, NULL") + child)).await;
    old.adopt().await.expect("an outbox");
    run(&old.pool, "INSERT INTO notes VALUES ('a', 'again')").await.expect("it refers to a row that exists");
    let refused =
        run(&old.pool, "INSERT INTO notes VALUES ('missing', 'x')").await.expect_err("no such event");
    assert!(refused.to_string().contains("FOREIGN KEY"), "{refused}");
}
