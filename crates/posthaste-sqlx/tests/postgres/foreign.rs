//! Foreign tables on PostgreSQL.

use posthaste::admin::Filter;
use posthaste::store::{Owner, Purge, Purgeable, Settled, Store as _, Verdict};
use posthaste::{Admin, Status};
use posthaste_sqlx::foreign::{ForeignTableStore, ForeignTableStoreBuilder, Layout};

use crate::cases::foreign as cases;
use crate::support::*;

crate::cases::foreign::foreign_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);

/// The table of the order service with its indexes.
pub(crate) const ORDER_SERVICE_SQL: &str = include_str!("../layouts/postgres/order-service.sql");

/// The table of the preset `outbox-record`.
pub(crate) const OUTBOX_RECORD_SQL: &str = include_str!("../layouts/postgres/outbox-record.sql");

/// The table of Debezium's outbox event router.
pub(crate) const DEBEZIUM_SQL: &str = include_str!("../layouts/postgres/debezium.sql");

pub(crate) fn builder(db: &Db, layout: Layout) -> ForeignTableStoreBuilder {
    let options = server().application_name(db.schema.as_str());
    ForeignTableStore::postgres(&options, layout).schema(db.schema.clone())
}

/// The same through another port of this host.
pub(crate) fn builder_at(db: &Db, layout: Layout, port: u16) -> ForeignTableStoreBuilder {
    ForeignTableStore::postgres(&server().host("127.0.0.1").port(port), layout).schema(db.schema.clone())
}

/// A table with two pending rows, which have no time, and a delivered one.
pub(crate) const STAMPED_TABLE_SQL: &str =
    "CREATE TABLE messages (id BIGINT PRIMARY KEY, kind TEXT NOT NULL, body JSON NOT NULL,
       processed_at TIMESTAMPTZ);
     INSERT INTO messages VALUES (1, 'A', '{}', NULL), (2, 'B', '{}', NULL), (3, 'C', '{}', now())";

/// A table with an enumeration, a `bytea` and names in mixed case.
pub(crate) const ODD_TABLE_SQL: &str = r#"CREATE TYPE phase AS ENUM ('waiting', 'gone out', 'lost');
     CREATE TABLE "Order" ("messageId" TEXT PRIMARY KEY, "eventType" TEXT, tenant TEXT, head JSONB,
       content BYTEA, phase phase NOT NULL DEFAULT 'waiting');
     INSERT INTO "Order" VALUES ('m-1', 'Made', 'acme', '{"region": "eu"}', '\x009f9296')"#;
pub(crate) const ODD_ID: &str = "m-1";

/// How often the whole table was scanned.
const SEQ_SCAN_COUNT_SQL: &str =
    "SELECT coalesce(seq_scan, 0) FROM pg_stat_user_tables WHERE relid = 'outbox'::regclass";

/// Creates the table of the order service and runs `sql` in a session of its own: the statistics of a session are
/// complete when it has ended.
async fn set_up(db: &Db, sql: &str) {
    let pool = pool_in(&db.schema, server(), 1).await;
    run(&pool, &format!("{ORDER_SERVICE_SQL}; {sql}")).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    pool.close().await;
    wait_until("the server has counted", async || db.int(SEQ_SCAN_COUNT_SQL).await > 0).await;
}

// S0-09, S4-03, S4-07
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn claim_and_purge_read_the_index_of_status_and_time_and_not_the_table() {
    let db = Db::new().await;
    set_up(
        &db,
        "INSERT INTO outbox SELECT gen_random_uuid(), 'Order', gen_random_uuid(), 'OrderCreated', '{}',
           CASE WHEN n > 19990 THEN 'NEW' ELSE 'SENT' END, now() + n * interval '1 ms' FROM generate_series(1, 20000) AS n;
         ANALYZE outbox",
    )
    .await;
    let read = "SELECT coalesce(idx_tup_read, 0) FROM pg_stat_user_indexes WHERE indexrelname = 'idx_outbox_status_created'
      AND schemaname = current_schema()";
    let uses = "SELECT coalesce(idx_scan, 0) FROM pg_stat_user_indexes WHERE indexrelname = 'idx_outbox_status_created'
      AND schemaname = current_schema()";
    let before = db.int(SEQ_SCAN_COUNT_SQL).await;
    let store = builder(&db, Layout::order_service()).connect().await.expect("the table opens");
    let claimed = cases::claim(&store, 100).await;
    assert_eq!(claimed.events.len(), 10);
    // The statistics of a session are complete when it has ended.
    store.close().await;
    wait_until("the server has counted", async || db.int(read).await > 0).await;
    assert!(db.int(read).await < 100, "ten rows wait, and about as many were read");
    assert_eq!(
        db.int(SEQ_SCAN_COUNT_SQL).await,
        before,
        "the table was not read from its beginning to its end"
    );

    let store = builder(&db, Layout::order_service()).connect().await.expect("the table opens");
    let (known, archive) = (db.int(uses).await, false);
    for what in [Purgeable::Done, Purgeable::Dead] {
        let purge = Purge::new(what, HOUR, 1000).with_archive(archive);
        assert_eq!(Admin::purge(&store, &purge, "ann").await.expect("a purge"), 0, "nothing is that old");
    }
    store.close().await;
    wait_until("the server has counted", async || db.int(uses).await >= known + 2).await;
    assert!(db.int(read).await < 100, "many rows are kept, and none of them was read");
    assert_eq!(
        db.int(SEQ_SCAN_COUNT_SQL).await,
        before,
        "the table was not read from its beginning to its end"
    );
    db.close().await;
}

/// A time without a zone beside one with a zone.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn rows_are_purged_by_age_where_their_times_are_of_two_types() {
    let db = Db::new().await;
    db.execute(ORDER_SERVICE_SQL).await;
    db.execute(
        "ALTER TABLE outbox ALTER COLUMN sent_at TYPE TIMESTAMPTZ;
         INSERT INTO outbox SELECT gen_random_uuid(), 'Order', gen_random_uuid(), 'OrderCreated', '{}', status,
           created_at, sent_at FROM (VALUES
             ('FAILED', now() - interval '2 h', NULL), ('FAILED', now(), NULL),
             ('SENT', now() - interval '2 h', now() - interval '2 h'), ('SENT', now() - interval '2 h', NULL),
             ('SENT', now() - interval '2 h', now())) AS v(status, created_at, sent_at)",
    )
    .await;
    let store = builder(&db, Layout::order_service()).connect().await.expect("the table opens");
    for (what, old) in [(Purgeable::Dead, 1), (Purgeable::Done, 2)] {
        let purge = Purge::new(what, HOUR, 1000);
        assert_eq!(Admin::purge(&store, &purge, "ann").await.expect("a purge"), old, "{what:?}");
    }
    store.close().await;
    db.close().await;
}

/// The server uses the index of a `CHAR` column only in a comparison with a `CHAR`, and pads such values with blanks.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn rows_with_a_key_of_fixed_length_are_found_by_its_index() {
    let db = Db::new().await;
    set_up(
        &db,
        "ALTER TABLE outbox ALTER COLUMN id TYPE CHAR(40), ALTER COLUMN aggregate_id TYPE CHAR(40);
         INSERT INTO outbox SELECT 'm-' || n, 'Order', 'o-' || n, 'OrderCreated', '{}',
           'NEW', now() + n * interval '1 ms' FROM generate_series(1, 20000) AS n;
         ANALYZE outbox",
    )
    .await;
    let uses = "SELECT coalesce(idx_scan, 0) FROM pg_stat_user_indexes WHERE indexrelname = 'outbox_pkey'
      AND schemaname = current_schema()";
    let (before, known) = (db.int(SEQ_SCAN_COUNT_SQL).await, db.int(uses).await);
    let store = builder(&db, Layout::order_service()).connect().await.expect("the table opens");
    let claimed = cases::claim(&store, 1).await;
    assert_eq!(cases::ids_of(&claimed), ["m-1"], "without the blanks");
    assert_eq!(claimed.events[0].event.aggregate_id(), Some("o-1"));
    assert_eq!(cases::settle(&store, &claimed, Verdict::Done).await, [Settled::Done]);
    let detail = store.get(&"m-1".into()).await.expect("a result").expect("the row is there");
    assert_eq!((detail.row.id.as_str(), detail.row.status), ("m-1", Status::Done));
    let of = Filter::default().with_aggregate_id("o-1");
    store.close().await;
    wait_until("the server has counted", async || db.int(uses).await >= known + 3).await;
    assert_eq!(
        db.int(SEQ_SCAN_COUNT_SQL).await,
        before,
        "the table was not read from its beginning to its end"
    );
    let store = builder(&db, Layout::order_service()).connect().await.expect("the table opens");
    assert_eq!(store.count(&of).await.expect("a result"), 1);
    store.close().await;
    db.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and PgBouncer: cargo xtask test"]
async fn pooler_that_lends_sessions_is_refused() {
    let db = Db::new().await;
    db.execute(ORDER_SERVICE_SQL).await;
    let builder =
        ForeignTableStore::postgres(&pgbouncer(), Layout::order_service()).schema(db.schema.clone());
    let error = builder.connect().await.expect_err("a lock would be lost").to_string();
    assert!(error.contains("pooler"), "{error}");
    db.close().await;
}

/// To know the size of a JSON text, the server reads all of it.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn claim_does_not_measure_every_pending_row() {
    let db = Db::new().await;
    let pool = pool_in(&db.schema, server(), 1).await;
    let rows = "ALTER TABLE outboxevent ALTER COLUMN payload SET STORAGE EXTERNAL;
      INSERT INTO outboxevent SELECT gen_random_uuid(), 'order', 'o-1', 'Made', jsonb_build_object('x', repeat('x', 60000))
        FROM generate_series(1, 200)";
    run(&pool, &format!("{DEBEZIUM_SQL}; {rows}")).await.expect("rows");
    pool.close().await;
    let inserted = "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relid = 'outboxevent'::regclass";
    wait_until("the server has counted", async || db.int(inserted).await == 200).await;
    let read = "SELECT toast_blks_hit + toast_blks_read FROM pg_statio_user_tables WHERE relid = 'outboxevent'::regclass";
    let all =
        "SELECT pg_relation_size(reltoastrelid) / 8192 FROM pg_class WHERE oid = 'outboxevent'::regclass";
    let (before, all) = (db.int(read).await, db.int(all).await);
    let store = builder(&db, Layout::debezium()).connect().await.expect("the table opens");
    let owner = Owner::from("tester");
    let claim = claim_for(&owner).with_limit(200).with_max_bytes(100_000);
    let claimed = store.claim(&claim).await.expect("a claim");
    assert_eq!((claimed.events.len(), claimed.cut), (1, true));
    // The statistics of a session are complete when it has ended.
    store.close().await;
    wait_until("the server has counted", async || db.int(read).await > before).await;
    let read = db.int(read).await - before;
    assert!(read < all / 2, "{read} of {all} blocks were read for one of 200 rows");
    db.close().await;
}
