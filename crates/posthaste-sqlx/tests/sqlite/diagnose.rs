//! Diagnosis of a SQLite file. Each test causes the finding.

use posthaste::Admin as _;
use posthaste::admin::Tolerance;
use posthaste_sqlx::SqliteStore;
use sqlx::{Connection as _, SqliteConnection};

use crate::support::*;

crate::cases::diagnose::diagnose_tests!();

#[tokio::test]
async fn healthy_outbox_has_no_findings_for_a_read_only_store() {
    let db = Db::new().await;
    let looking = SqliteStore::builder(&db.options().read_only(true)).read_only().connect().await;
    assert_eq!(diagnosed(&looking.unwrap()).await, []);
}

#[tokio::test]
async fn index_that_claims_cannot_use_is_found_and_the_advice_repairs_it() {
    let db = Db::with_pool(1).await;
    db.execute("DROP INDEX outbox_event_due; CREATE INDEX outbox_event_due ON outbox_event (event_type)")
        .await;
    let findings = diagnosed(&db.store).await;
    let finding = assert_found(
        &findings,
        "unused-index",
        &["outbox_event_due", "differs from the one that the migrations create"],
    );
    db.execute(&finding.advice).await;
    assert_eq!(diagnosed(&db.store).await, []);
}

#[tokio::test]
async fn reader_that_keeps_the_log_from_being_written_back_is_found() {
    let db = Db::new().await;
    let strict = Tolerance::default().with_wal_bytes(1_000_000);
    let mut reader = SqliteConnection::connect_with(&db.options).await.unwrap();
    let mut reading = reader.begin().await.unwrap();
    sqlx::query("SELECT count(*) FROM outbox_event").execute(&mut *reading).await.unwrap();
    db.execute(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
         INSERT INTO outbox_event (event_id, event_type, payload) SELECT 'event' || n, 'T', hex(zeroblob(500)) FROM n",
    )
    .await;
    let findings = diagnosed_with(&db.store, strict.clone()).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_found(&findings, "wal-size", &["MiB", "pages of it cannot be written back", "leaves a SELECT"]);
    assert_eq!(diagnosed(&db.store).await, [], "a log of this size is borne");
    reading.rollback().await.unwrap();
    assert_eq!(diagnosed_with(&db.store, strict).await, [], "it is large, and was written back");
}

#[tokio::test]
async fn file_without_a_write_ahead_log_is_found() {
    let db = Db::new().await;
    db.write(&db.plain_writer(), &["a"]).await;
    db.pool.close().await;
    db.store.close().await;
    let mut connection = SqliteConnection::connect_with(&db.options).await.unwrap();
    sqlx::query("PRAGMA journal_mode = DELETE").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let store = SqliteStore::builder(&db.options).read_only().connect().await.unwrap();
    let findings = diagnosed(&store).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_found(&findings, "journal-mode", &["\"delete\"", "PRAGMA journal_mode = WAL"]);
}

/// Whatever the columns contain is shown on one line and breaks nothing.
#[tokio::test]
async fn rows_of_other_programs_do_not_break_the_diagnosis() {
    let db = Db::new().await;
    db.execute(
        "INSERT INTO outbox_event (event_id, event_type, payload, parked, last_error, lost_leases, inserted_at) VALUES
           ('a', 'T', '{}', 'mail', x'ff00fe', 'many', 'yesterday'), ('b', 'T', '{}', x'80', NULL, -5, 0),
           ('c', 'T', '{}', 'mail', 'first' || char(10) || 'second', 9000000000000000000, 9000000000000000000)",
    )
    .await;
    let findings = db.store.diagnose(&Tolerance::default()).await.expect("a diagnosis");
    assert_found(&findings, "parked-route", &["\"mail\"", "first\\nsecond"]);
    assert_found(&findings, "crashing-event", &["\"c\"", "4294967295"]);
    assert!(findings.iter().all(|finding| !finding.what.contains('\n')), "{findings:?}");
}
