//! Rows that other programs write to a server: with typed parameters, and with times at and beyond the ends of the
//! calendar in every column for a time.

use posthaste::admin::{Filter, PageRequest, Tolerance};
use posthaste::store::{Purge, Purgeable, Store as _};
use posthaste::{Admin as _, Delivery, Status};

use crate::cases::client_rows::deliver_all;
use crate::client_rows::insert_odd_times;
use crate::support::*;

/// The tests of this file.
macro_rules! server_row_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::client_row_times:
            times_at_and_beyond_the_ends_of_the_calendar_do_no_harm,
        );
    };
}
pub(crate) use server_row_tests;

/// The columns of the classic 15-column outbox table.
pub(crate) const CLASSIC_COLUMNS: &str = "event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, \
    headers, status, attempts, available_at, created_at, done_at, last_error, locked_by, locked_at";

/// Unusual spaces, a repeated key, and numbers that a parser would change: type json keeps them, type jsonb does not.
pub(crate) const ODD_JSON: &str =
    r#"{ "b" : 1.50e+2,"a":1,  "a":2 , "big":12345678901234567890.10, "é":"\u00e9 \" ' $1" }"#;

/// Values that the table accepts and that cannot be read: a column, its value, and the reported defect.
pub(crate) const MALFORMED_ON_SERVERS: &[(&str, &str, &str)] = &[
    ("headers", r#"'["s3cret"]'"#, "headers"),
    ("headers", r#"'{"a": {"s3cret": "b"}}'"#, "headers"),
    ("headers", r#"'{"a": "s3cret'"#, "headers"),
    ("headers", "'s3cret'", "headers"),
    ("headers", "concat(repeat('[', 100000), 's3cret')", "headers"),
    ("attempts", "-1", "negative attempts: -1"),
    ("attempts", "-2147483648", "negative attempts: -2147483648"),
    ("replays", "-1", "negative replays: -1"),
    ("schema_version", "4294967296", "schema_version is out of range"),
    ("schema_version", "-1", "schema_version is out of range"),
    ("schema_version", "-9223372036854775808", "schema_version is out of range"),
];

/// Asserts that every row of [`CLASSIC_COLUMNS`] arrived with its payload unchanged, except for the row
/// `parsed_id`: its payload has passed through the server's JSON type, and must only still be JSON.
pub(crate) fn assert_classic_rows(deliveries: &[Delivery], parsed_id: &str, micros: i64) {
    for delivery in deliveries {
        let id = delivery.id().as_str();
        let (tenant, region) = (delivery.tenant_id(), delivery.headers()["region"].as_str());
        assert_eq!((tenant, region), (Some("acme"), "eu"), "{id}");
        assert_eq!(delivery.occurred_at().as_micros(), micros, "{id}");
        if id == parsed_id {
            assert!(delivery.payload_as::<serde_json::Value>().is_ok());
        } else {
            assert_eq!(&delivery.payload()[..], ODD_JSON.as_bytes(), "{id}");
        }
    }
}

pub(crate) async fn times_at_and_beyond_the_ends_of_the_calendar_do_no_harm() {
    let db = Db::new().await;
    // More rows than one batch have the earliest time, so each claim has to continue where the previous one stopped.
    let odd = insert_odd_times(&db, 150).await;
    db.store.stats().await.expect("stats");
    db.store.oldest_pending(None).await.expect("a lag");
    db.store.list(&Filter::default(), &PageRequest::first(500)).await.expect("a list");
    db.store.diagnose(&Tolerance::default()).await.expect("a diagnosis");
    let recorder = deliver_all(&db).await;
    let expected = (0..odd).map(|n| format!("time{n}")).chain((1..=150).map(|n| format!("ever{n}")));
    assert_eq!(set_of(recorder.ids()), set_of(expected));
    assert_eq!((recorder.count(), db.count(Status::Done).await), (odd + 150, odd as u64 + 150));
    for delivery in recorder.deliveries() {
        let _ = (delivery.occurred_at().to_string(), format!("{delivery:?}"));
    }
    let old = Purge::new(Purgeable::Any, HOUR, 500).with_archive(true);
    db.store.purge_batch(&old).await.expect("a purge");
    db.close().await;
}
