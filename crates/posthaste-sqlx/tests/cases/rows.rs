//! Rows that other programs write, and nobody can read.

#![allow(clippy::unwrap_used, reason = "all of it is tests")]

use posthaste::admin::{Filter, PageRequest, Tolerance};
use posthaste::{Admin as _, EventId, Outcome, Recorder, Status};

use crate::support::*;

/// The tests of this file.
macro_rules! row_tests {
    ($ignored:literal) => {
        posthaste_testkit::server_tests!(
            crate::cases::rows,
            $ignored,
            malformed_rows_are_dead_with_the_reason_and_the_rest_is_delivered,
            operator_sees_everything_while_malformed_rows_wait_and_after_they_died,
            count_that_is_full_or_negative_in_the_middle_of_a_batch_spoils_nothing,
        );
    };
}

/// Odd spaces, a key twice, numbers that a parser would change: text that json keeps and jsonb does not.
pub(crate) const ODD_JSON: &str =
    r#"{ "b" : 1.50e+2,"a":1,  "a":2 , "big":12345678901234567890.10, "é":"\u00e9 \" ' $1" }"#;

pub(crate) async fn deliver_all(db: &Db) -> Recorder {
    let recorder = Recorder::new();
    let outbox = db.start(&recorder);
    within_timeout("the engine is idle", outbox.idle()).await.expect("the store answers");
    outbox.shutdown().await;
    recorder
}

const SECRET: &str = "s3cret";

/// What the table takes and nobody can read: a column, what stands in it, and what is said about it.
const MALFORMED_COLUMNS: [(&str, &str, &str); 11] = [
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

/// Bad rows of every kind, each between good ones.
async fn insert_among_good(db: &Db, bad: usize, good: usize) {
    let mut sql = "BEGIN;".to_owned();
    for n in 0..bad + good {
        let bad_before = n * bad / (bad + good);
        let is_bad = (n + 1) * bad / (bad + good) > bad_before;
        let (column, value, _) = if is_bad {
            MALFORMED_COLUMNS[bad_before % MALFORMED_COLUMNS.len()]
        } else {
            ("topic", "NULL", "")
        };
        let name = if is_bad { format!("bad{bad_before}") } else { format!("good{}", n - bad_before) };
        sql += &format!(
            "INSERT INTO outbox_event (event_id, event_type, payload, {column}) \
             VALUES ('{name}', 'Tested', '\"{SECRET}\"', {value});"
        );
    }
    db.execute(&(sql + "COMMIT")).await;
}

// S11, T7, T-MALFORMED
pub(crate) async fn malformed_rows_are_dead_with_the_reason_and_the_rest_is_delivered() {
    let db = Db::new().await;
    insert_among_good(&db, 200, 1000).await;
    let recorder = deliver_all(&db).await;
    assert_eq!(recorder.count(), 1000);
    assert!(delivered(&recorder).iter().all(|id| id.starts_with("good")));
    assert_eq!((db.count(Status::Done).await, db.count(Status::Dead).await), (1000, 200));
    for n in 0..200 {
        let row = db.store.get(&EventId::from(format!("bad{n}").as_str())).await.unwrap().expect("a row").row;
        assert_eq!(row.status, Status::Dead, "{row:?}");
        let (error, (_, value, reason)) =
            (row.last_error.expect("a reason"), MALFORMED_COLUMNS[n % MALFORMED_COLUMNS.len()]);
        assert!(error.contains("malformed") && error.contains(reason), "{value}: {error}");
        assert!(!error.contains(SECRET), "{value}: {error}");
    }
    db.close().await;
}

pub(crate) async fn operator_sees_everything_while_malformed_rows_wait_and_after_they_died() {
    let db = Db::new().await;
    insert_among_good(&db, 12, 0).await;
    for _ in 0..2 {
        let stats = db.store.stats().await.expect("stats");
        assert_eq!(stats.new + stats.dead, 12);
        let page = db.store.list(&Filter::default(), &PageRequest::first(100)).await.expect("a list");
        assert_eq!(page.items.len(), 12);
        let unread = page.items.iter().filter(|row| row.malformed.is_none()).count();
        assert_eq!(unread, 3, "a list does not show the schema version");
        assert!(!db.store.diagnose(&Tolerance::default()).await.expect("a diagnosis").is_empty());
        let groups = db.store.dead_groups(100).await.expect("groups");
        assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), stats.dead);
        deliver_all(&db).await;
    }
    assert_eq!(db.count(Status::Dead).await, 12);
    db.close().await;
}

pub(crate) async fn count_that_is_full_or_negative_in_the_middle_of_a_batch_spoils_nothing() {
    let db = Db::new().await;
    let full = i32::MAX;
    for n in 1..=100 {
        let (id, attempts, others, lost_leases, owner) = match n {
            40 => ("full".to_owned(), full, full, 0, "'gone'"),
            50 => ("negative".to_owned(), -7, 0, 0, "NULL"),
            60 => ("lost".to_owned(), 0, 0, full, "'gone'"),
            _ => (format!("good{n}"), 0, 0, 0, "NULL"),
        };
        db.execute(&format!(
            "INSERT INTO outbox_event (event_id, event_type, payload, attempts, deferrals, replays, lost_leases, locked_by)
             VALUES ('{id}', 'Tested', '{{}}', {attempts}, {others}, {others}, {lost_leases}, {owner})"
        ))
        .await;
    }
    let recorder = Recorder::with(|delivery| match delivery.id().as_str() {
        "full" => Outcome::retry("no"),
        _ => Outcome::done(),
    });
    let outbox = db.engine(&recorder).poll_batch(100).start().unwrap();
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    assert_eq!(recorder.count(), 98);
    assert_eq!(db.count(Status::Done).await, 97);
    for (id, why) in [("full", "no"), ("negative", "negative attempts: -7"), ("lost", "its owner died")] {
        let row = db.store.get(&EventId::from(id)).await.unwrap().unwrap().row;
        assert_eq!(row.status, Status::Dead, "{id}: {row:?}");
        assert!(row.last_error.as_deref().unwrap().contains(why), "{id}: {row:?}");
    }
    outbox.shutdown().await;
    db.close().await;
}
