//! Rows that other programs write: with the columns of document 003 or fewer, by `psql`, with parameters
//! of any type that holds text; and rows that nobody can read.

use std::process::Stdio;
use std::time::Duration;

use posthaste::admin::{Filter, PageRequest, Tolerance};
use posthaste::store::Store as _;
use posthaste::{Admin as _, EventId, Status, Timestamp};

use crate::cases::rows::{ODD_JSON, deliver_all};
use crate::support::*;

row_tests!("needs PostgreSQL: cargo xtask test");

/// Lets `psql` run this in the schema of the test.
fn shell(db: &Db, sql: &str) {
    let sql = format!(r#"SET search_path = "{}"; {sql}"#, db.schema);
    let answer = psql().arg("-c").arg(sql).stdout(Stdio::null()).output().expect("psql is there");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

// S3-62
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn row_of_id_type_and_payload_is_delivered() {
    let db = Db::new().await;
    shell(
        &db,
        r#"INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('minimal', 'Placed', '{"a": 3}')"#,
    );
    let deliveries = deliver_all(&db).await.deliveries();
    let [delivery] = deliveries.as_slice() else { panic!("{deliveries:?}") };
    assert_eq!((delivery.event_type(), delivery.aggregate_type()), ("Placed", "__GLOBAL__"));
    assert_eq!((delivery.aggregate_id(), &delivery.payload()[..]), (None, &b"{\"a\": 3}"[..]));
    assert_eq!(delivery.attempt, 1);
    let age = Timestamp::now().since(delivery.occurred_at());
    assert!(age < Duration::from_secs(60), "{age:?}");
    assert_eq!(db.status("minimal").await, Some(Status::Done));
    db.close().await;
}

/// Document 003's columns, all of them and no other, as a client with typed parameters sends them.
// S3-28, S3-62, S2-16
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn row_with_exactly_the_columns_of_the_document_is_delivered_whatever_its_parameters_are() {
    let db = Db::new().await;
    let columns = "event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, \
        available_at, created_at, done_at, last_error, locked_by, locked_at";
    let kinds = [
        ("text", "text", "timestamptz", "int4"),
        ("varchar", "varchar", "timestamp", "int2"),
        ("json", "json", "timestamptz", "int8"),
        ("jsonb", "jsonb", "timestamptz", "int4"),
        ("unknown", "unknown", "timestamptz", "int2"),
    ];
    for (id, payload, time, int) in kinds {
        let types = format!(
            "text, varchar, text, text, text, {payload}, {payload}, {int}, {int}, {time}, {time}, \
            {time}, text, text, {time}"
        );
        shell(
            &db,
            &format!(
                "SET TimeZone = 'UTC'; PREPARE put ({types}) AS INSERT INTO outbox_event ({columns}) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15); \
                 EXECUTE put ('{id}', 'OrderPlaced', 'Order', '17', 'acme', {}, '{{\"region\":\"eu\"}}', 0, 0, \
                 '2026-01-01 12:00', '2026-01-01 12:00', NULL, NULL, NULL, NULL)",
                quoted(ODD_JSON)
            ),
        );
    }
    let deliveries = deliver_all(&db).await.deliveries();
    assert_eq!(deliveries.len(), kinds.len());
    for delivery in deliveries {
        let id = delivery.id().as_str();
        assert_eq!(
            (delivery.tenant_id(), delivery.headers()["region"].as_str()),
            (Some("acme"), "eu"),
            "{id}"
        );
        assert_eq!(delivery.occurred_at().as_micros(), 1_767_268_800_000_000, "{id}");
        match id {
            // What jsonb left of it was gone before we saw it.
            "jsonb" => assert!(delivery.payload_as::<serde_json::Value>().is_ok()),
            _ => assert_eq!(&delivery.payload()[..], ODD_JSON.as_bytes(), "{id}"),
        }
    }
    db.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn time_that_lies_ahead_is_waited_for() {
    let db = Db::new().await;
    shell(
        &db,
        "INSERT INTO outbox_event (event_id, event_type, payload, available_at) VALUES \
         ('later', 'T', '{}', now() + interval '1 hour'), ('never', 'T', '{}', 'infinity'), ('now', 'T', '{}', now())",
    );
    assert_eq!(delivered(&deliver_all(&db).await), ["now"]);
    let row = db.store.get(&EventId::from("later")).await.unwrap().unwrap().row;
    let wait = row.available_at.since(Timestamp::now());
    assert!(Duration::from_secs(3590) < wait && wait <= HOUR, "{wait:?}");
    db.close().await;
}

/// Times at the ends of PostgreSQL's calendar and beyond, in every column that has one.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn times_without_end_and_before_christ_spoil_nothing() {
    let db = Db::new().await;
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
    // More than a batch of them: a claim goes on behind the last one it saw.
    db.execute(
        "INSERT INTO outbox_event (event_id, event_type, payload, available_at)
         SELECT 'ever' || n, 'T', '{}', '-infinity' FROM generate_series(1, 150) AS n",
    )
    .await;
    db.store.stats().await.expect("stats");
    db.store.oldest_pending(None).await.expect("a lag");
    db.store.list(&Filter::default(), &PageRequest::first(500)).await.expect("a list");
    db.store.diagnose(&Tolerance::default()).await.expect("a diagnosis");
    let recorder = deliver_all(&db).await;
    assert_eq!(recorder.count(), 156);
    assert_eq!(db.count(Status::Done).await, 156);
    for delivery in recorder.deliveries() {
        let _ = (delivery.occurred_at().to_string(), format!("{delivery:?}"));
    }
    let old = posthaste::store::Purge::new(posthaste::store::Purgeable::Any, HOUR, 500).with_archive(true);
    db.store.purge_batch(&old).await.expect("a purge");
    db.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn what_no_row_can_be_is_refused_by_the_table_and_says_why() {
    let db = Db::new().await;
    for (columns, values, why) in [
        ("event_id, event_type, payload", "NULL, 'T', '{}'", "event_id"),
        ("event_id, event_type, payload", "'', 'T', '{}'", "event_id is not empty"),
        ("event_id, event_type, payload", "repeat('x', 37), 'T', '{}'", "character varying(36)"),
        ("event_id, event_type, payload", "'a', '', '{}'", "event_type is not empty"),
        ("event_id, event_type, payload", "'a', NULL, '{}'", "event_type"),
        ("event_id, event_type, payload", "'a', 'T', NULL", "payload or payload_bytes, one of them"),
        ("event_id, event_type, payload, payload_bytes", "'a', 'T', '{}', ''", "one of them"),
        ("event_id, event_type, payload, status", "'a', 'T', '{}', 4", "status is 0 NEW"),
        ("event_id, event_type, payload, available_at", "'a', 'T', '{}', NULL", "available_at"),
        ("event_id, event_type, payload, available_at", "'a', 'T', '{}', 'soon'", "soon"),
    ] {
        let sql = format!("INSERT INTO outbox_event ({columns}) VALUES ({values})");
        let message = run(&db.pool, &sql).await.expect_err(values).to_string();
        assert!(message.contains(why), "{values}: {message}");
    }
    db.close().await;
}
