//! Rows that other programs write to MySQL and MariaDB: with the classic 15 columns or fewer, through the `mariadb`
//! shell, with parameters of every text type, at any time and in any time zone, and rows that cannot be read.

use std::process::Command;
use std::time::Duration;

use posthaste::store::{Owner, Renew, Settle, Settlement, Store as _, Verdict};
use posthaste::writer::NewRow;
use posthaste::{Admin as _, Event, EventId, EventRow, Timestamp};
use posthaste_sqlx::MySqlStore;
use sqlx::mysql::MySqlPoolOptions;

use crate::cases::client_row_times::{CLASSIC_COLUMNS, MALFORMED_ON_SERVERS, ODD_JSON, assert_classic_rows};
use crate::cases::client_rows::{assert_recent, deliver_all};
use crate::support::*;

crate::cases::client_rows::row_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);
crate::cases::client_row_times::server_row_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);

pub(crate) const NOW_SQL: &str = "UTC_TIMESTAMP(6)";
pub(crate) const IN_AN_HOUR_SQL: &str = "UTC_TIMESTAMP(6) + INTERVAL 1 HOUR";
pub(crate) const NEVER_SQL: &str = "'9999-12-31 23:59:59.999999'";

/// A FROM clause with the numbers from 1 on, as `n`.
pub(crate) fn numbers_sql(count: u32) -> String {
    format!("(SELECT seq AS n FROM seq_1_to_{count}) AS numbers")
}

pub(crate) const MALFORMED_COLUMNS: &[(&str, &str, &str)] = MALFORMED_ON_SERVERS;
/// Every id can be read here.
pub(crate) const UNNAMED_ROW_SQL: Option<&str> = None;

/// Columns, their values, and the error of the table.
pub(crate) const REFUSED_ROWS: &[(&str, &str, &str)] = &[
    ("event_id, event_type, payload", "NULL, 'T', '{}'", "event_id"),
    ("event_id, event_type, payload", "'', 'T', '{}'", "outbox_event_has_id"),
    ("event_id, event_type, payload", "REPEAT('x', 37), 'T', '{}'", "event_id"),
    ("event_id, event_type, payload", "'a', '', '{}'", "outbox_event_has_type"),
    ("event_id, event_type, payload", "'a', NULL, '{}'", "event_type"),
    ("event_id, event_type, payload", "'a', 'T', NULL", "outbox_event_one_payload"),
    ("event_id, event_type, payload, payload_bytes", "'a', 'T', '{}', ''", "outbox_event_one_payload"),
    ("event_id, event_type, payload, status", "'a', 'T', '{}', 4", "outbox_event_status"),
    ("event_id, event_type, payload, available_at", "'a', 'T', '{}', NULL", "available_at"),
    ("event_id, event_type, payload, available_at", "'a', 'T', '{}', 'soon'", "soon"),
];

/// Inserts rows `time0`, `time1` and so on with unusual times, as a session without strict mode writes them, and
/// `due_for_ever` rows with the earliest time. Returns the number of unusual times.
pub(crate) async fn insert_odd_times(db: &Db, due_for_ever: usize) -> usize {
    let times = [
        "0000-00-00",
        "0000-00-00 00:00:01",
        "0001-01-01",
        "0999-12-31 23:59:59.999999",
        "1000-01-01",
        "1969-12-31 23:59:59.250",
        "2026-00-00",
        "9999-12-31 23:59:59.999999",
    ];
    let mut sql = "SET SESSION sql_mode = '';".to_owned();
    for (n, time) in times.iter().enumerate() {
        let available_at = if time.starts_with('9') { "2026-01-01" } else { time };
        sql += &format!(
            "INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at, inserted_at, done_at, \
             locked_at) VALUES ('time{n}', 'T', '{{}}', '{available_at}', '{time}', '{time}', '{time}', '{time}');"
        );
    }
    for n in 1..=due_for_ever {
        sql += &format!(
            "INSERT INTO outbox_event (event_id, event_type, payload, available_at) VALUES ('ever{n}', 'T', '{{}}', '');"
        );
    }
    db.shell(&sql);
    times.len()
}

/// As a client with typed parameters sends them.
// S3-28, S3-62, S2-16
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn row_with_exactly_the_classic_columns_is_delivered_whatever_its_parameters_are() {
    let db = Db::new().await;
    let payload_text = ODD_JSON.replace('\\', "\\\\").replace('\'', "''");
    let kinds = [
        ("text", "?"),
        ("json", "JSON_EXTRACT(?, '$')"),
        ("binary", "CAST(? AS BINARY)"),
        ("latin1", "CONVERT(? USING latin1)"),
    ];
    for (id, payload) in kinds {
        db.shell(&format!(
            r#"SET @id = '{id}', @payload = '{payload_text}', @headers = '{{"region":"eu"}}', @zero = 0, @none = NULL,
               @type = 'OrderPlaced', @aggregate = 'Order', @number = '17', @tenant = 'acme',
               @at = '2026-01-01 12:00:00.123456';
             PREPARE put FROM "INSERT INTO outbox_event ({CLASSIC_COLUMNS})
               VALUES (?, ?, ?, ?, ?, {payload}, {payload}, ?, ?, ?, ?, ?, ?, ?, ?)";
             EXECUTE put USING @id, @type, @aggregate, @number, @tenant, @payload, @headers, @zero, @zero, @at, @at,
               @none, @none, @none, @none"#
        ));
    }
    // As a program with this driver does it.
    let sql = sqlx::AssertSqlSafe(format!(
        "INSERT INTO outbox_event ({CLASSIC_COLUMNS}) VALUES ('driver', 'OrderPlaced', 'Order', '17', 'acme', ?, ?, \
         0, 0, ?, ?, NULL, NULL, NULL, NULL)"
    ));
    let query = sqlx::query(sql).bind(ODD_JSON.as_bytes()).bind(r#"{"region":"eu"}"#);
    let query = query.bind("2026-01-01 12:00:00.123456").bind("2026-01-01 12:00:00.123456");
    query.execute(&db.pool).await.expect("inserted");

    let deliveries = deliver_all(&db).await.deliveries();
    assert_eq!(deliveries.len(), kinds.len() + 1);
    assert_classic_rows(&deliveries, "json", 1_767_268_800_123_456);
    db.close().await;
}

/// The server reads all columns of a CHECK for every UPDATE of a row, also a payload that is stored outside of the row.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn no_constraint_reads_payloads() {
    let db = Db::new().await;
    let checks = |clause: &str| {
        format!(
            "SELECT COUNT(*) FROM information_schema.check_constraints \
             WHERE constraint_schema = '{}' AND check_clause LIKE '%{clause}%'",
            db.name
        )
    };
    assert_eq!((db.int(&checks("size")).await, db.int(&checks("payload")).await), (1, 0));
    db.close().await;
}

/// The server, the session and the process are in three different zones.
#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn times_are_right_to_the_microsecond_in_a_process_and_a_session_of_other_time_zones() {
    let this = std::env::current_exe().expect("this program");
    let child = Command::new(this)
        .args(["--exact", "mysql::client_rows::process_in_newfoundland", "--include-ignored", "--nocapture"])
        .env("TZ", "America/St_Johns")
        .output()
        .expect("it runs");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

#[tokio::test]
#[ignore = "a process, which another test of this file starts"]
async fn process_in_newfoundland() {
    if std::env::var("TZ").as_deref() != Ok("America/St_Johns") {
        return;
    }
    let db = Db::new().await;
    let options = db.options.clone().timezone(Some("-09:30".to_owned()));
    let store = MySqlStore::connect(&options).await.expect("the store opens");
    let pool = MySqlPoolOptions::new().max_connections(1).connect_with(options).await.expect("a pool");
    assert_eq!(text_of(&pool, "SELECT @@session.time_zone").await.as_deref(), Some("-09:30"));

    let occurred_at = Timestamp::from_micros(1_700_000_000_123_456);
    let builder = |id: &str| Event::builder("Tested").id(id).json_text("{}").occurred_at(occurred_at);
    write(&plain_writer(&store), &pool, vec![builder("plain").build().unwrap()]).await;
    let delay = Some(Duration::from_micros(90_000_001));
    let after = NewRow::new(builder("after").build().unwrap()).with_delay(delay);
    let mut tx = pool.begin().await.unwrap();
    store.insert_rows(&mut tx, &[after]).await.unwrap();
    tx.commit().await.unwrap();
    let row =
        async |id: &str| -> EventRow { store.get(&EventId::from(id)).await.unwrap().expect("a row").row };
    for id in ["plain", "after"] {
        let row = row(id).await;
        assert_eq!(row.created_at, occurred_at);
        assert_recent(row.inserted_at);
        let delay = row.available_at.as_micros() - row.inserted_at.as_micros();
        assert_eq!(delay, if id == "plain" { 0 } else { 90_000_001 }, "{id}");
        let text = format!("SELECT created_at FROM outbox_event WHERE event_id = '{id}'");
        assert_eq!(text_of(&pool, &text).await.as_deref(), Some("2023-11-14 22:13:20.123456"), "in UTC");
    }

    let (owner, lease) = (Owner::random("me"), Duration::from_micros(30_000_007));
    let claim = async |now| store.claim(&claim_for(&owner).with_lease(lease).at(now)).await.unwrap().events;
    let claimed = claim(None).await;
    assert_eq!(claimed.iter().map(|leased| leased.lease.id.as_str()).collect::<Vec<_>>(), ["plain"]);
    assert_eq!(claimed[0].event.occurred_at(), occurred_at);
    assert!(claimed[0].age < Duration::from_secs(60), "{:?}", claimed[0].age);
    let held = row("plain").await;
    let locked_at = held.locked_at.expect("a time");
    assert_recent(locked_at);
    assert_eq!(held.lease_until, Some(locked_at + lease));

    // With a clock of the caller, all times are exact.
    let now = Timestamp::from_micros(locked_at.as_micros() + 1_000_003);
    let leases = [claimed[0].lease.clone()];
    store.renew(&Renew::new(&owner, &leases, lease).at(now)).await.unwrap();
    assert_eq!(row("plain").await.lease_until, Some(now + lease));
    let settlements = [Settlement::new(leases[0].clone(), Verdict::Done)];
    store.settle(&Settle::new(&owner, &settlements).at(now)).await.unwrap();
    assert_eq!(row("plain").await.done_at, Some(now));
    let due = row("after").await.available_at;
    assert!(claim(Some(Timestamp::from_micros(due.as_micros() - 1))).await.is_empty(), "not yet");
    assert_eq!(claim(Some(due)).await.first().expect("now").lease.id.as_str(), "after");

    store.close().await;
    pool.close().await;
    db.close().await;
}
