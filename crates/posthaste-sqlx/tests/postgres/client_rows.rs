//! Rows that other programs write to PostgreSQL: with the classic 15 columns or fewer, through `psql`, with parameters
//! of every text type, and rows that cannot be read.

use posthaste::admin::Tolerance;
use posthaste::{Admin as _, EventId, Status};

use crate::cases::client_row_times::{CLASSIC_COLUMNS, MALFORMED_ON_SERVERS, ODD_JSON, assert_classic_rows};
use crate::cases::client_rows::deliver_all;
use crate::support::*;

crate::cases::client_rows::row_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);
crate::cases::client_row_times::server_row_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);

pub(crate) const NOW_SQL: &str = "now()";
pub(crate) const IN_AN_HOUR_SQL: &str = "now() + interval '1 hour'";
pub(crate) const NEVER_SQL: &str = "'infinity'";

/// A FROM clause with the numbers from 1 on, as `n`.
pub(crate) fn numbers_sql(count: u32) -> String {
    format!("generate_series(1, {count}) AS numbers (n)")
}

pub(crate) const MALFORMED_COLUMNS: &[(&str, &str, &str)] = MALFORMED_ON_SERVERS;
/// Every id can be read here.
pub(crate) const UNNAMED_ROW_SQL: Option<&str> = None;

/// Columns, their values, and the error of the table.
pub(crate) const REFUSED_ROWS: &[(&str, &str, &str)] = &[
    ("event_id, event_type, payload", "NULL, 'T', '{}'", "event_id"),
    ("event_id, event_type, payload", "repeat('x', 37), 'T', '{}'", "character varying(36)"),
    ("event_id, event_type, payload", "'a', NULL, '{}'", "event_type"),
    ("event_id, event_type, payload, status", "'a', 'T', '{}', 4", "status is 0 NEW"),
    ("event_id, event_type, payload, available_at", "'a', 'T', '{}', NULL", "available_at"),
    ("event_id, event_type, payload, available_at", "'a', 'T', '{}', 'soon'", "soon"),
];

/// The table accepts these rows, because a CHECK would cost every INSERT time: their ids, columns, values, and why they
/// become DEAD.
const DEFECTIVE_ROWS: &[(&str, &str, &str, &str)] = &[
    ("", "event_type, payload", "'T', '{}'", "event_id is empty"),
    ("no-type", "event_type, payload", "'', '{}'", "event_type is empty"),
    ("no-payload", "event_type, payload", "'T', NULL", "there is no payload"),
    ("two-payloads", "event_type, payload, payload_bytes", "'T', '{}', 'x'", "payload is not alone"),
];

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn defective_row_that_the_table_accepts_is_found_and_is_dead_with_the_reason() {
    for (id, columns, values, reason) in DEFECTIVE_ROWS {
        let db = Db::new().await;
        db.execute(&format!("INSERT INTO outbox_event (event_id, {columns}) VALUES ('{id}', {values})"))
            .await;
        db.write(&db.plain_writer(), &["good"]).await;
        let findings = db.store.diagnose(&Tolerance::default()).await.expect("a diagnosis");
        assert!(findings.iter().any(|finding| finding.code == "unreadable-rows"), "{reason}: {findings:?}");
        assert_eq!(delivered(&deliver_all(&db).await), ["good"], "{reason}");
        let row = db.store.get(&EventId::from(*id)).await.unwrap().expect("a row").row;
        let error = row.last_error.expect("a reason");
        assert_eq!(row.status, Status::Dead, "{reason}");
        assert!(error.contains("malformed") && error.contains(reason), "{reason}: {error}");
        db.close().await;
    }
}

/// Inserts rows `time0`, `time1` and so on with unusual times, and `due_for_ever` rows with the earliest time. Returns
/// the number of unusual times.
pub(crate) async fn insert_odd_times(db: &Db, due_for_ever: usize) -> usize {
    let times = [
        "-infinity",
        "4713-01-01 BC",
        "0001-01-01 BC",
        "1969-12-31 23:59:59.250",
        "294276-12-31",
        "infinity",
    ];
    for (n, time) in times.iter().enumerate() {
        db.execute(&format!(
            "INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at, inserted_at, done_at, \
             locked_at) VALUES ('time{n}', 'T', '{{}}', least('{time}', now()), '{time}', '{time}', '{time}', '{time}')"
        ))
        .await;
    }
    db.execute(&format!(
        "INSERT INTO outbox_event (event_id, event_type, payload, available_at)
         SELECT 'ever' || n, 'T', '{{}}', '-infinity' FROM generate_series(1, {due_for_ever}) AS n"
    ))
    .await;
    times.len()
}

/// As a client with typed parameters sends them.
// S3-28, S3-62, S2-16
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn row_with_exactly_the_classic_columns_is_delivered_whatever_its_parameters_are() {
    let db = Db::new().await;
    let payload = format!("'{}'", ODD_JSON.replace('\'', "''"));
    let kinds = [
        ("text", "text", "timestamptz", "int4"),
        ("varchar", "varchar", "timestamp", "int2"),
        ("json", "json", "timestamptz", "int8"),
        ("jsonb", "jsonb", "timestamptz", "int4"),
        ("unknown", "unknown", "timestamptz", "int2"),
    ];
    for (id, text, time, int) in kinds {
        let types = format!(
            "text, varchar, text, text, text, {text}, {text}, {int}, {int}, {time}, {time}, {time}, text, text, {time}"
        );
        db.shell(&format!(
            "SET TimeZone = 'UTC'; PREPARE put ({types}) AS INSERT INTO outbox_event ({CLASSIC_COLUMNS}) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15); \
             EXECUTE put ('{id}', 'OrderPlaced', 'Order', '17', 'acme', {payload}, '{{\"region\":\"eu\"}}', 0, 0, \
             '2026-01-01 12:00', '2026-01-01 12:00', NULL, NULL, NULL, NULL)"
        ));
    }
    let deliveries = deliver_all(&db).await.deliveries();
    assert_eq!(deliveries.len(), kinds.len());
    assert_classic_rows(&deliveries, "jsonb", 1_767_268_800_000_000);
    db.close().await;
}
