//! Foreign tables on MySQL and MariaDB.

use posthaste::Admin;
use posthaste::admin::{Filter, Replay};
use posthaste::store::{Owner, Purge, Purgeable, Store as _};
use posthaste_sqlx::foreign::{ForeignTableStore, ForeignTableStoreBuilder, Layout};

use crate::support::*;

crate::cases::foreign::foreign_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);

/// The table of the order service with its indexes, as Hibernate creates it.
pub(crate) const ORDER_SERVICE_SQL: &str = include_str!("../layouts/mysql/order-service.sql");

/// The table of the preset `outbox-record`.
pub(crate) const OUTBOX_RECORD_SQL: &str = include_str!("../layouts/mysql/outbox-record.sql");

/// The table of Debezium's outbox event router.
pub(crate) const DEBEZIUM_SQL: &str = include_str!("../layouts/mysql/debezium.sql");

pub(crate) fn builder(db: &Db, layout: Layout) -> ForeignTableStoreBuilder {
    ForeignTableStore::mysql(&db.options, layout)
}

/// The same through another port of this host.
pub(crate) fn builder_at(db: &Db, layout: Layout, port: u16) -> ForeignTableStoreBuilder {
    ForeignTableStore::mysql(&db.options.clone().host("127.0.0.1").port(port), layout)
}

/// A table with two pending rows, which have no time, and a delivered one.
pub(crate) const STAMPED_TABLE_SQL: &str =
    "CREATE TABLE messages (id BIGINT PRIMARY KEY, kind VARCHAR(64) NOT NULL, body JSON NOT NULL,
       processed_at DATETIME);
     INSERT INTO messages VALUES (1, 'A', '{}', NULL), (2, 'B', '{}', NULL), (3, 'C', '{}', NOW())";

/// A table with an enumeration, bytes, and an id of sixteen bytes.
pub(crate) const ODD_TABLE_SQL: &str = r#"CREATE TABLE `Order` (`messageId` BINARY(16) PRIMARY KEY,
       `eventType` VARCHAR(64) CHARACTER SET latin1, tenant VARCHAR(64), head JSON, content BLOB,
       phase ENUM('waiting', 'gone out', 'lost') NOT NULL);
     INSERT INTO `Order` VALUES (UNHEX('0193a1b2c3d47e5f8a9b0c1d2e3f4a5b'), 'Made', 'acme', '{"region": "eu"}',
       UNHEX('009f9296'), 'waiting')"#;
pub(crate) const ODD_ID: &str = "0193a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b";

/// The number of rows that were read from the table, as MariaDB counts them.
async fn rows_read(db: &Db) -> i64 {
    let read = "SELECT COALESCE(MAX(rows_read), 0) FROM information_schema.table_statistics
      WHERE table_schema = DATABASE() AND table_name = 'outbox_record'";
    db.int(read).await
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn operators_change_a_few_rows_without_reading_all() {
    if !is_mariadb().await {
        return; // MySQL counts only for all tables together.
    }
    administrate("SET GLOBAL userstat = 1").await;
    let db = Db::new().await;
    db.execute(OUTBOX_RECORD_SQL).await;
    db.execute(
        "INSERT INTO outbox_record (aggregate_id, event_id, status, topic, payload, schema_version, created_at, sent_at)
           SELECT UUID(), UUID(), IF(seq % 2, 'FAILED', 'SENT'), 'orders', '{}', 1,
             NOW(6) - INTERVAL 3 HOUR + INTERVAL seq SECOND, IF(seq % 2, NULL, NOW(6) - INTERVAL 2 HOUR)
           FROM seq_1_to_6000;
         ANALYZE TABLE outbox_record",
    )
    .await;
    let store = builder(&db, Layout::outbox_record()).connect().await.expect("the table opens");
    let purge = |what, archive, older_than| Purge::new(what, older_than, 10).with_archive(archive);
    let before = rows_read(&db).await;
    let archived = Admin::purge(&store, &purge(Purgeable::Done, true, HOUR), "ann").await;
    let replayed = store.replay_all(&Filter::dead(), 10, &Replay::by("ann")).await;
    let purged = Admin::purge(&store, &purge(Purgeable::Done, false, HOUR), "ann").await;
    let kept = Admin::purge(&store, &purge(Purgeable::Dead, false, 4 * HOUR), "ann").await;
    assert_eq!([archived, replayed, purged, kept].map(|rows| rows.expect("a change")), [10, 10, 10, 0]);
    // The statistics of a session are complete when it has ended.
    store.close().await;
    wait_until("the server has counted", async || rows_read(&db).await > before).await;
    let read = rows_read(&db).await - before;
    assert!(read < 300, "{read} rows were read to change thirty of them");
    db.close().await;
}

/// To measure a row, the server reads all of it.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn claim_does_not_measure_every_pending_row() {
    if !is_mariadb().await {
        return; // MySQL counts only for all tables together.
    }
    administrate("SET GLOBAL userstat = 1").await;
    let db = Db::new().await;
    db.execute(OUTBOX_RECORD_SQL).await;
    db.execute(
        "INSERT INTO outbox_record (aggregate_id, event_id, status, topic, payload, schema_version, created_at)
           SELECT UUID(), UUID(), 'PENDING', 'orders', REPEAT('x', 1000), 1, NOW(6) + INTERVAL seq SECOND
           FROM seq_1_to_400;
         ANALYZE TABLE outbox_record",
    )
    .await;
    let store = builder(&db, Layout::outbox_record()).connect().await.expect("the table opens");
    let (before, owner) = (rows_read(&db).await, Owner::from("tester"));
    let claim = claim_for(&owner).with_limit(400).with_max_bytes(1500);
    let claimed = store.claim(&claim).await.expect("a claim");
    assert_eq!((claimed.events.len(), claimed.cut), (1, true));
    // The statistics of a session are complete when it has ended.
    store.close().await;
    wait_until("the server has counted", async || rows_read(&db).await > before).await;
    let read = rows_read(&db).await - before;
    assert!(read < 500, "{read} rows were read for the keys of 400 rows and one of them");
    db.close().await;
}
