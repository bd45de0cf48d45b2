//! Rows that other programs write to SQLite: with the classic 15 columns or fewer, with times in common formats,
//! through the `sqlite3` shell, in any time zone, and rows that cannot be read.

use std::process::Command;
use std::time::Duration;

use posthaste::store::Store as _;
use posthaste::{Admin as _, EventId, Status, Timestamp};

use crate::cases::client_rows::deliver_all;
use crate::support::*;

crate::cases::client_rows::row_tests!();

pub(crate) const NOW_SQL: &str = "datetime('now')";
pub(crate) const IN_AN_HOUR_SQL: &str = "datetime('now', '+1 hour')";
pub(crate) const NEVER_SQL: &str = "9000000000000000";

/// A FROM clause with the numbers from 1 on, as `n`.
pub(crate) fn numbers_sql(count: u32) -> String {
    let more = format!("SELECT n + 1 FROM numbers WHERE n < {count}");
    format!("(WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL {more}) SELECT n FROM numbers) AS numbers")
}

/// Values that the table accepts and that cannot be read: a column, its value, and the reported defect.
pub(crate) const MALFORMED_COLUMNS: &[(&str, &str, &str)] = &[
    ("headers", "'[\"s3cret\"]'", "headers"),
    ("headers", "'{\"s3cret\": {\"a\": 1}}'", "headers"),
    ("headers", "'{\"a\": \"s3cret'", "headers"),
    ("headers", "CAST(x'7333637265742dff' AS TEXT)", "headers"),
    ("headers", "x'7b7d'", "headers"),
    ("attempts", "-1", "negative attempts: -1"),
    ("attempts", "'s3cret'", "attempts is not an integer"),
    ("attempts", "1.5", "attempts is not an integer"),
    ("replays", "'s3cret'", "replays"),
    ("progress", "'[\"s3cret'", "progress"),
    ("progress", "'{\"s3cret\": 1}'", "progress"),
    ("progress", "'[1, 2]'", "progress"),
    ("schema_version", "4294967296", "schema_version is out of range"),
    ("schema_version", "-1", "schema_version is out of range"),
    ("schema_version", "'s3cret'", "schema_version"),
    ("event_type", "CAST(x'7333637265742dff' AS TEXT)", "event_type is not text"),
    ("aggregate_type", "CAST(x'ff' AS TEXT)", "aggregate_type is not text"),
    ("aggregate_id", "x'733363726574'", "aggregate_id is not text"),
    ("tenant_id", "CAST(x'ff' AS TEXT)", "tenant_id is not text"),
    ("topic", "CAST(x'ff' AS TEXT)", "topic is not text"),
    ("content_type", "x'ff'", "content_type is not text"),
    ("inserted_at", "'s3cret'", "inserted_at"),
];
pub(crate) const UNNAMED_ROW_SQL: Option<&str> = Some(
    "INSERT INTO outbox_event (event_id, event_type, payload, parked, available_at, last_error, locked_by)
     VALUES (CAST(x'ff' AS TEXT), 'Tested', '{}', CAST(x'ff' AS TEXT), 9000000000000000, CAST(x'ff' AS TEXT),
             CAST(x'ff' AS TEXT))",
);

/// Columns, their values, and the error of the table.
pub(crate) const REFUSED_ROWS: &[(&str, &str, &str)] = &[
    ("event_id, event_type, payload", "NULL, 'T', '{}'", "event_id"),
    ("event_id, event_type, payload", "'', 'T', '{}'", "event_id is text of 1 to 36 characters"),
    ("event_id, event_type, payload", "substr(hex(zeroblob(19)), 2), 'T', '{}'", "1 to 36 characters"),
    ("event_id, event_type, payload", "x'41', 'T', '{}'", "event_id is text"),
    ("event_id, event_type, payload", "'a', '', '{}'", "event_type is text and not empty"),
    ("event_id, event_type, payload", "'a', NULL, '{}'", "event_type"),
    ("event_id, event_type, payload", "'a', 'T', NULL", "payload"),
    ("event_id, event_type, payload", "'a', 'T', 7", "payload is text or a blob"),
    ("event_id, event_type, payload, status", "'a', 'T', '{}', 4", "status is 0 NEW"),
    ("event_id, event_type, payload, status", "'a', 'T', '{}', 'x'", "status is 0 NEW"),
];

/// A row with the classic 15 columns and this time.
fn classic_row(id: &str, time: &str) -> String {
    format!(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, \
         status, attempts, available_at, created_at) \
         VALUES ('{id}', 'OrderPlaced', 'Order', '17', 'acme', '{{\"total\": 3}}', '{{\"region\":\"eu\"}}', \
         0, 0, {time}, {time});"
    )
}

// S3-28, S3-62, S2-16
#[tokio::test]
async fn row_with_exactly_the_classic_columns_is_delivered_whatever_its_times_are() {
    let db = Db::new().await;
    let micros = 1_767_268_800_000_000_i64; // 2026-01-01 12:00:00 UTC
    let good = [
        ("text", "'2026-01-01 12:00:00'".to_owned(), micros),
        ("text-t-z", "'2026-01-01T12:00:00Z'".to_owned(), micros),
        ("text-fraction", "'2026-01-01 12:00:00.250'".to_owned(), micros + 250_000),
        ("text-offset", "'2026-01-01 13:30:00+01:30'".to_owned(), micros),
        ("text-date", "'2026-01-01'".to_owned(), micros - 12 * 3_600_000_000),
        ("text-function", "datetime('2026-01-01 12:00:00')".to_owned(), micros),
        ("integer", micros.to_string(), micros),
        ("integer-as-text", format!("'{micros}'"), micros),
        ("float", format!("{micros}.5"), micros),
        ("float-whole", format!("{micros}.0"), micros),
        ("before-1970", "'1969-12-31 23:59:59.250'".to_owned(), -750_000),
    ];
    for (id, time, _) in &good {
        db.execute(&classic_row(id, time)).await;
    }
    let recorder = deliver_all(&db).await;
    for (id, time, micros) in good {
        let deliveries = recorder.deliveries();
        let delivery = deliveries.iter().find(|delivery| delivery.id().as_str() == id);
        let delivery = delivery.unwrap_or_else(|| panic!("{id} ({time}) was not delivered"));
        assert_eq!(delivery.occurred_at().as_micros(), micros, "{id}");
        assert_eq!((delivery.tenant_id(), delivery.headers()["region"].as_str()), (Some("acme"), "eu"));
        assert_eq!((delivery.aggregate_type(), delivery.aggregate_id()), ("Order", Some("17")));
        assert_eq!((delivery.event_type(), &delivery.payload()[..]), ("OrderPlaced", &b"{\"total\": 3}"[..]));
    }
}

/// `INSERT OR IGNORE` would skip the invalid rows too.
#[tokio::test]
async fn on_conflict_do_nothing_skips_a_repeated_id_and_refuses_an_invalid_row() {
    let db = Db::new().await;
    let insert = |columns: &str, values: &str| {
        format!("INSERT INTO outbox_event ({columns}) VALUES ({values}) ON CONFLICT (event_id) DO NOTHING")
    };
    for _ in 0..2 {
        db.execute(&insert("event_id, event_type, payload", "'twice', 'T', '{}'")).await;
    }
    for (columns, values, why) in REFUSED_ROWS {
        let message = run(&db.pool, &insert(columns, values)).await.expect_err(values).to_string();
        assert!(message.contains(why), "{values}: {message}");
    }
    assert_eq!(db.ids().await, ["twice"]);
}

#[tokio::test]
async fn garbage_in_place_of_a_time_is_refused_with_a_clear_message() {
    let db = Db::new().await;
    for garbage in ["'soon'", "''", "'2026-13-45 99:00'", "'12 o''clock'", "'01/02/2026'", "x'00'", "NULL"] {
        let refused = run(&db.pool, &classic_row("garbage", garbage)).await;
        let message = refused.expect_err(garbage).to_string();
        assert!(message.contains("available_at"), "{garbage}: {message}");
        if garbage.starts_with('\'') {
            assert!(message.contains("2026-01-31 12:00:00"), "it shows how: {message}");
        }
    }
    assert!(db.ids().await.is_empty());
}

#[tokio::test]
async fn lag_is_known_although_the_oldest_row_has_no_time() {
    let db = Db::new().await;
    for time in ["'yesterday'", "1.5"] {
        db.execute("DELETE FROM outbox_event").await;
        let sql = format!(
            "INSERT INTO outbox_event (event_id, event_type, payload, inserted_at) VALUES ('a', 'T', '{{}}', {time})"
        );
        db.execute(&sql).await;
        db.store.oldest_pending(None).await.unwrap_or_else(|error| panic!("{time}: {error:?}"));
        db.store.stats().await.unwrap_or_else(|error| panic!("{time}: {error:?}"));
    }
}

/// An id that is not text cannot be shown, so several such rows have the same name.
#[tokio::test]
async fn every_row_whose_id_cannot_be_read_is_dead() {
    let db = Db::new().await;
    for byte in ["ff", "fe", "fd", "fc", "fb"] {
        let sql = format!(
            "INSERT INTO outbox_event (event_id, event_type, payload) VALUES (CAST(x'{byte}' AS TEXT), 'T', '{{}}')"
        );
        db.execute(&sql).await;
    }
    for id in ["good0", "good1", "good2"] {
        db.execute(&classic_row(id, "datetime('now')")).await;
    }
    let recorder = deliver_all(&db).await;
    assert_eq!(delivered(&recorder), ["good0", "good1", "good2"]);
    assert_eq!(db.count(Status::Dead).await, 5);
    let reasons = "SELECT count(*) FROM outbox_event WHERE last_error LIKE '%event_id is not text%'";
    assert_eq!(db.int(reasons).await, 5);
}

/// Another program whose SQLite library evaluates the defaults and triggers of the table.
#[tokio::test]
async fn rows_of_the_sqlite3_shell_are_delivered() {
    let db = Db::new().await;
    let sql = [
        classic_row("text", "datetime('now')"),
        classic_row("integer", "strftime('%s','now') * 1000000"),
        classic_row("float", "(julianday('now') - 2440587.5) * 86400000000.0"),
    ];
    if db.shell(&sql.concat()) {
        assert_eq!(delivered(&deliver_all(&db).await), ["float", "integer", "text"]);
    }
}

#[tokio::test]
async fn garbage_time_from_the_sqlite3_shell_is_refused() {
    let db = Db::new().await;
    let Some(mut shell) = db.shell_command() else { return };
    let output = shell.arg(classic_row("garbage", "'soon'")).output().unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("2026-01-31 12:00:00"), "{message}");
}

/// The row of a client far from UTC is due at the same instant as any other.
#[tokio::test]
async fn sqlite3_shell_in_another_time_zone_writes_the_same_instant() {
    let db = Db::new().await;
    for zone in ["Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati"] {
        let Some(mut shell) = db.shell_command() else { return };
        let id = zone.replace('/', "-");
        let sql = classic_row(&id, "datetime('now')").replace("NULL", "");
        let defaults = format!(
            "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('default-{id}', 'T', '{{}}');"
        );
        let before = Timestamp::now() - Duration::from_secs(1);
        assert!(shell.env("TZ", zone).arg(sql + &defaults).status().unwrap().success());
        for id in [id.clone(), format!("default-{id}")] {
            let row = db.store.get(&EventId::from(id.as_str())).await.unwrap().unwrap().row;
            for time in [row.available_at, row.created_at, row.inserted_at] {
                assert!(before <= time && time <= Timestamp::now(), "{zone}: {time:?}");
            }
        }
    }
    assert_eq!(deliver_all(&db).await.count(), 6);
}

/// F49: all other tests of this file again, in a process far from UTC.
#[test]
fn nothing_depends_on_the_time_zone() {
    const TIME_ZONE_VAR: &str = "POSTHASTE_TEST_TIME_ZONE";
    if std::env::var_os(TIME_ZONE_VAR).is_some() {
        return;
    }
    for zone in ["Asia/Kathmandu", "America/St_Johns"] {
        let program = std::env::current_exe().expect("this program");
        let output = Command::new(program)
            .arg("sqlite::client_rows::")
            .env("TZ", zone)
            .env(TIME_ZONE_VAR, "1")
            .output();
        let output = output.expect("it runs");
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{zone}: {report}");
        assert!(report.contains("test result: ok. 1"), "{zone}: {report}");
    }
}
