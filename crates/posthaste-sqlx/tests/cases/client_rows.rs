//! Rows written by other programs, and rows that cannot be read.

use std::time::Duration;

use posthaste::admin::{Filter, PageRequest, Tolerance};
use posthaste::{Admin as _, EventId, Outcome, Recorder, Status, Timestamp};

use crate::client_rows::{
    IN_AN_HOUR_SQL, MALFORMED_COLUMNS, NEVER_SQL, NOW_SQL, REFUSED_ROWS, UNNAMED_ROW_SQL,
};
use crate::support::*;

/// The tests of this file.
macro_rules! row_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::client_rows:
            row_of_id_type_and_payload_is_delivered,
            row_with_a_time_in_the_future_waits_for_it,
            invalid_row_is_refused_by_the_table_with_the_reason,
            malformed_rows_are_dead_with_the_reason_and_the_rest_is_delivered,
            operator_sees_everything_while_malformed_rows_wait_and_after_they_died,
            extreme_counts_in_the_middle_of_a_batch_do_no_harm,
        );
    };
}
pub(crate) use row_tests;

pub(crate) async fn deliver_all(db: &Db) -> Recorder {
    let recorder = Recorder::new();
    let outbox = db.start(&recorder);
    within_timeout("the engine is idle", outbox.idle()).await.expect("the store works");
    outbox.shutdown().await;
    recorder
}

/// Runs SQL in the shell of the database, or through the driver if there is no shell.
async fn run_in_shell(db: &Db, sql: &str) {
    if !db.shell(sql) {
        db.execute(sql).await;
    }
}

// S3-62
pub(crate) async fn row_of_id_type_and_payload_is_delivered() {
    let db = Db::new().await;
    let insert = r#"INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('minimal', 'Placed', '{"a": 3}')"#;
    run_in_shell(&db, insert).await;
    let deliveries = deliver_all(&db).await.deliveries();
    let [delivery] = deliveries.as_slice() else { panic!("{deliveries:?}") };
    assert_eq!((delivery.event_type(), delivery.aggregate_type()), ("Placed", "__GLOBAL__"));
    assert_eq!((delivery.aggregate_id(), &delivery.payload()[..]), (None, &b"{\"a\": 3}"[..]));
    assert_eq!(delivery.attempt, 1);
    assert_recent(delivery.occurred_at());
    assert_eq!(db.status("minimal").await, Some(Status::Done));
    db.close().await;
}

/// Detects a wrong time zone: all zones in these tests are at least two hours apart.
pub(crate) fn assert_recent(time: Timestamp) {
    let (now, minute) = (Timestamp::now().as_micros(), 60_000_000);
    assert!((now - time.as_micros()).abs() < minute, "{time}");
}

pub(crate) async fn row_with_a_time_in_the_future_waits_for_it() {
    let db = Db::new().await;
    let values = [("later", IN_AN_HOUR_SQL), ("never", NEVER_SQL), ("now", NOW_SQL)];
    let values = values.map(|(id, time)| format!("('{id}', 'T', '{{}}', {time})")).join(", ");
    let insert = "INSERT INTO outbox_event (event_id, event_type, payload, available_at) VALUES";
    run_in_shell(&db, &format!("{insert} {values}")).await;
    assert_eq!(delivered(&deliver_all(&db).await), ["now"]);
    let row = db.store.get(&EventId::from("later")).await.unwrap().unwrap().row;
    let wait = row.available_at.since(Timestamp::now());
    assert!(Duration::from_secs(3590) < wait && wait <= HOUR, "{wait:?}");
    db.close().await;
}

pub(crate) async fn invalid_row_is_refused_by_the_table_with_the_reason() {
    let db = Db::new().await;
    for (columns, values, why) in REFUSED_ROWS {
        let sql = format!("INSERT INTO outbox_event ({columns}) VALUES ({values})");
        let message = run(&db.pool, &sql).await.expect_err(values).to_string();
        assert!(message.contains(why), "{values}: {message}");
    }
    db.close().await;
}

const SECRET: &str = "s3cret";

/// Inserts bad rows of every kind, each between good ones.
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
        let (type_column, event_type) =
            if column == "event_type" { ("", "") } else { (", event_type", ", 'Tested'") };
        sql += &format!(
            "INSERT INTO outbox_event (event_id, payload, {column}{type_column}) \
             VALUES ('{name}', '\"{SECRET}\"', {value}{event_type});"
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
    let malformed = MALFORMED_COLUMNS.len();
    insert_among_good(&db, malformed, 0).await;
    if let Some(insert) = UNNAMED_ROW_SQL {
        db.execute(insert).await;
    }
    let all = malformed + usize::from(UNNAMED_ROW_SQL.is_some());
    let is_shown = |column: &str| !["schema_version", "topic", "content_type"].contains(&column);
    let not_shown = MALFORMED_COLUMNS.iter().enumerate().filter(|(_, (column, ..))| !is_shown(column));
    let not_shown: Vec<String> = not_shown.map(|(n, _)| format!("bad{n}")).collect();
    for _ in 0..2 {
        let stats = db.store.stats().await.expect("stats");
        assert_eq!(stats.new + stats.dead, all as u64);
        let page = db.store.list(&Filter::default(), &PageRequest::first(100)).await.expect("a list");
        assert_eq!(page.items.len(), all);
        let unread = page.items.iter().filter(|row| row.malformed.is_none()).map(|row| row.id.to_string());
        assert_eq!(set_of(unread), set_of(&not_shown), "columns that a list does not show");
        assert!(!db.store.diagnose(&Tolerance::default()).await.expect("a diagnosis").is_empty());
        let groups = db.store.dead_groups(100).await.expect("groups");
        assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), stats.dead);
        deliver_all(&db).await;
    }
    assert_eq!(db.count(Status::Dead).await, malformed as u64);
    db.close().await;
}

pub(crate) async fn extreme_counts_in_the_middle_of_a_batch_do_no_harm() {
    let db = Db::new().await;
    let full = MAX_ATTEMPTS;
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
    for (id, why) in [("full", "no"), ("negative", "negative attempts: -7"), ("lost", "its leases were lost")]
    {
        let row = db.store.get(&EventId::from(id)).await.unwrap().unwrap().row;
        assert_eq!(row.status, Status::Dead, "{id}: {row:?}");
        assert!(row.last_error.as_deref().unwrap().contains(why), "{id}: {row:?}");
    }
    outbox.shutdown().await;
    db.close().await;
}
