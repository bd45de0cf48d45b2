//! The partitions of the archive on PostgreSQL.

use std::time::Duration;

use posthaste::config::PurgeConfig;
use posthaste::store::{OnDone, Purge, Purgeable, Store as _};
use posthaste::{Admin as _, Recorder};
use posthaste_sqlx::PgStore;

use crate::support::log::Log;
use crate::support::*;

async fn archive_one(db: &Db, store: &PgStore, id: &str) {
    let recorder = Recorder::new();
    let purge = PurgeConfig::default().with_on_done(OnDone::Archive);
    let outbox = engine(store, &recorder).purge(purge).start().expect("a good configuration");
    db.write(&Writer::new(store, &outbox), &[id]).await;
    let archived = format!("SELECT count(*) FROM outbox_event_archive WHERE event_id = '{id}'");
    wait_until("it is archived", async || db.int(&archived).await == 1).await;
    outbox.shutdown().await;
}

/// The partition that contains an archived event.
async fn partition_of(db: &Db, id: &str) -> String {
    let sql = format!(
        "SELECT relname FROM pg_class c JOIN outbox_event_archive a ON a.tableoid = c.oid WHERE event_id = '{id}'"
    );
    db.text(&sql).await.expect("a partition")
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn archive_has_partitions_for_the_days_ahead() {
    let db = Db::new().await;
    archive_one(&db, &db.store, "a").await;
    wait_until("today and a week have their partitions", async || db.int(PARTITION_COUNT_SQL).await == 8)
        .await;
    for ahead in 0..=7 {
        assert!(has_day(&db, ahead).await, "in {ahead} days");
    }
    assert_ne!(partition_of(&db, "a").await, "outbox_event_archive_rest", "also the very first one");
    db.close().await;
}

/// While PostgreSQL attaches a partition, it reads the whole default partition, and nothing can be archived meanwhile.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn no_partition_is_attached_while_the_default_one_is_large() {
    let db = Db::new().await;
    // One page for each row.
    db.execute("ALTER TABLE outbox_event_archive_rest ALTER COLUMN payload SET STORAGE PLAIN").await;
    archived_at(&db, "a", "2026-01-01 12:00Z").await;
    db.execute(
        "UPDATE outbox_event_archive SET payload = repeat('x', 5000);
         INSERT INTO outbox_event_archive SELECT a.* FROM outbox_event_archive AS a, generate_series(1, 8192)",
    )
    .await;
    let make = "SELECT outbox_event_archive_day('2026-01-02')";
    let refused = run(&db.pool, make).await.expect_err("it would take long").to_string();
    assert!(
        refused.contains("outbox_event_archive_rest, which is larger than 64 MB: detach it first"),
        "{refused}"
    );
    assert_eq!(db.int(PARTITION_COUNT_SQL).await, 0);
    archive_one(&db, &db.store, "b").await;

    let page = include_str!("../../../../docs/postgres.md");
    let recipe = page.split("```sql\n").find(|text| text.contains("DETACH PARTITION")).expect("a recipe");
    db.execute(recipe.split("```").next().expect("statements")).await;
    db.execute(make).await;
    assert_eq!(db.int(PARTITION_COUNT_SQL).await, 1);
    archive_one(&db, &db.store, "c").await;
    db.close().await;
}

/// More events than are counted exactly.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn large_day_is_dropped_without_counting_its_events() {
    let db = Db::new().await;
    db.execute("SELECT outbox_event_archive_day('2026-01-01')").await;
    db.execute("ALTER TABLE outbox_event_day_20260101 SET (autovacuum_enabled = off)").await;
    archived_at(&db, "a", "2026-01-01 12:00Z").await;
    db.execute(
        "INSERT INTO outbox_event_archive SELECT a.* FROM outbox_event_archive AS a, generate_series(1, 149999);
         ANALYZE outbox_event_day_20260101; DELETE FROM outbox_event_day_20260101 WHERE ctid >= '(0,2)'
           AND ctid < '(0,4)'",
    )
    .await;
    // Two rows were deleted since the server updated its estimate.
    assert_eq!(db.int("SELECT outbox_event_archive_drop('2026-02-01', 100)").await, 150_000);
    assert_eq!(db.int(PARTITION_COUNT_SQL).await, 0);
    db.close().await;
}

/// The number of partitions for days.
const PARTITION_COUNT_SQL: &str = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox_event_archive'::regclass \
    AND inhrelid::regclass::text LIKE '%\\_day\\_%'";

/// True if the day that is this many days ahead has a partition.
async fn has_day(db: &Db, ahead: u32) -> bool {
    let name = format!(
        "SELECT to_regclass('outbox_event_day_' || to_char(now() AT TIME ZONE 'UTC' + interval '{ahead} days', 'YYYYMMDD'))"
    );
    db.text(&name).await.is_some()
}

/// A dump or a slow query reads the archive, so no partition can be created or dropped meanwhile.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn deliveries_are_archived_while_the_archive_is_read() {
    let db = Db::new().await;
    db.execute("SELECT outbox_event_archive_day('2026-01-01')").await;
    let mut dump = db.pool.begin().await.expect("a transaction");
    sqlx::raw_sql("LOCK TABLE outbox_event_archive IN ACCESS SHARE MODE").execute(&mut *dump).await.unwrap();
    let purge = Purge::new(Purgeable::Archived, Duration::ZERO, 100);
    archive_one(&db, &db.store, "a").await;
    let gone = db.store.purge_batch(&purge).await.expect("a purge that leaves the day alone");
    assert_eq!((gone, db.int(PARTITION_COUNT_SQL).await), (1, 1), "the event lay in the last partition");
    dump.rollback().await.expect("the dump ends");
    db.store.purge_batch(&purge).await.expect("a purge");
    assert_eq!(db.int(PARTITION_COUNT_SQL).await, 0);
    db.close().await;
}

/// A row that a failure left in the default partition does not keep later days from getting partitions.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn day_without_a_partition_stays_in_the_default_one_and_later_days_get_theirs() {
    let db = Db::new().await;
    archived_at(&db, "a", "2026-01-01 12:00Z").await;
    for day in ["2026-01-01", "2026-01-02"] {
        db.execute(&format!("SELECT outbox_event_archive_day('{day}')")).await;
    }
    archived_at(&db, "b", "2026-01-01 13:00Z").await;
    archived_at(&db, "c", "2026-01-02 12:00Z").await;
    assert_eq!(partition_of(&db, "b").await, "outbox_event_archive_rest");
    assert_eq!(partition_of(&db, "c").await, "outbox_event_day_20260102");
    db.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn default_partition_is_emptied_in_batches() {
    let db = Db::new().await;
    for n in 0..5 {
        archived_at(&db, &n.to_string(), &format!("2026-01-01 12:0{n}Z")).await;
    }
    let purge = Purge::new(Purgeable::Archived, Duration::ZERO, 2);
    for gone in [2, 2, 1] {
        assert_eq!(db.store.purge_batch(&purge).await.unwrap(), gone);
    }
    db.close().await;
}

/// Adds an archived event with this time of archiving.
async fn archived_at(db: &Db, id: &str, time: &str) {
    db.execute(&format!(
        "INSERT INTO outbox_event_archive (seq, event_id, event_type, payload, status, attempts, deferrals, \
         lost_leases, replays, available_at, created_at, inserted_at, lease_token, archived_at) \
         VALUES (1, '{id}', 'T', '{{}}', 4, 0, 0, 0, 0, now(), now(), now(), 0, '{time}')"
    ))
    .await;
}

/// A relay that may not create partitions still archives: the default partition takes all rows.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn without_the_right_to_create_partitions_the_default_one_takes_all_rows() {
    let db = Db::new().await;
    let role = format!("{}_relay", db.schema);
    db.execute(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {0} TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA {0} TO {role}",
        db.schema
    ))
    .await;
    let store =
        PgStore::builder(&server().username(&role)).schema(db.schema.clone()).connect().await.unwrap();
    let log = Log::of_thread();
    archive_one(&db, &store, "a").await;
    assert_eq!(partition_of(&db, "a").await, "outbox_event_archive_rest");
    let warning = || log.text().lines().find(|line| line.starts_with("WARN")).map(str::to_owned);
    wait_until("it is logged", async || warning().is_some()).await;
    let warning = warning().expect("a line");
    assert!(warning.contains("EXECUTE the function outbox_event_archive_day"), "{warning}");
    // Today's row in the default partition does not keep a user with more rights from archiving afterwards.
    archive_one(&db, &db.store, "b").await;
    assert_eq!(db.store.stats().await.unwrap().archived, 2);
    store.close().await;
    terminate(&format!("usename = '{role}'")).await;
    db.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    db.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn partitions_are_created_once() {
    let db = Db::with_pool(8).await;
    let ask = |day: usize| {
        let pool = db.pool.clone();
        tokio::spawn(async move {
            run(&pool, &format!("SELECT outbox_event_archive_day('2026-01-{day:02}')")).await
        })
    };
    for asked in (0..80).map(|n| ask(n % 10 + 1)).collect::<Vec<_>>() {
        asked.await.expect("no panic").expect("no error");
    }
    assert_eq!(db.int(PARTITION_COUNT_SQL).await, 10);
    db.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn old_partitions_are_dropped_with_their_events() {
    let db = Db::new().await;
    for day in ["2026-01-01", "2026-01-02", "2026-01-03"] {
        db.execute(&format!("SELECT outbox_event_archive_day('{day}')")).await;
    }
    // Times at the ends of the days and within one, and two times outside of them.
    let times = [
        "2026-01-01 00:00Z",
        "2026-01-01 23:59:59.999999Z",
        "2026-01-02 00:00Z",
        "2026-01-02 12:00Z",
        "2026-01-03 00:00Z",
        "2025-12-31 23:59Z",
        "2026-01-04 00:00Z",
    ];
    for (n, time) in times.iter().enumerate() {
        archived_at(&db, &n.to_string(), time).await;
    }
    let drop_before = |time: &str| format!("SELECT outbox_event_archive_drop('{time}', 100)");
    let left = "SELECT string_agg(event_id, ',' ORDER BY event_id) FROM outbox_event_archive";
    assert_eq!(db.int(&drop_before("2025-12-31 23:00Z")).await, 0);
    // A day is dropped when all of it is old enough. Rows in the default partition are deleted by their own time.
    assert_eq!(db.int(&drop_before("2026-01-02 23:59Z")).await, 3);
    assert_eq!(db.text(left).await.as_deref(), Some("2,3,4,6"));
    assert_eq!(db.int(&drop_before("2026-01-03 00:00Z")).await, 2);
    assert_eq!(db.text(left).await.as_deref(), Some("4,6"));
    assert_eq!(db.int(&drop_before("2026-01-03 00:00Z")).await, 0, "again is harmless");
    db.close().await;
}
