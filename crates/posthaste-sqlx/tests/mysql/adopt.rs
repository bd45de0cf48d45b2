//! A table that was made after document 003 becomes an outbox in place, with all its rows, on MySQL and
//! MariaDB.

use posthaste::store::Store as _;
use posthaste::{Admin as _, EventId, Recorder, Status};
use posthaste_sqlx::mysql::MySqlStoreBuilder;
use posthaste_sqlx::{MySqlStore, OpenError, SchemaState};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, MySqlPool};

use crate::support::*;

/// How people write the document's types, and in which kind of database.
#[derive(Clone, Copy)]
struct ColumnTypes {
    charset: &'static str,
    json: &'static str,
    headers: &'static str,
    time: &'static str,
    status: &'static str,
}

const COLUMN_TYPES: [ColumnTypes; 3] = [
    ColumnTypes { charset: "utf8mb4", json: "JSON", headers: "JSON", time: "DATETIME(6)", status: "TINYINT" },
    ColumnTypes { charset: "latin1", json: "JSON", headers: "TEXT", time: "TIMESTAMP(6)", status: "INT" },
    ColumnTypes {
        charset: "latin1",
        json: "LONGTEXT",
        headers: "JSON",
        time: "DATETIME(6)",
        status: "BIGINT",
    },
];

/// Every state: new, done, retry and dead; on lease, and due in many years.
const INSERT_ROWS_SQL: &str = r#"INSERT INTO outbox_event
WITH d AS (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
    UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9),
  numbers AS (SELECT a.n + 10 * b.n + 100 * c.n + 1 AS n FROM d AS a, d AS b, d AS c)
SELECT CONCAT('event', n), 'OrderPlaced', IF(n % 5 <> 0, 'Order', NULL), CONCAT('Ä', n), 'acme',
  CONCAT('{"n": ', n, ', "text": "é \'"}'), '{"region": "eu"}', n % 4, n % 3,
  IF(n % 100 = 2, '2037-01-01', '2026-01-01 12:00:00.123456'),
  TIMESTAMP'2026-01-01 00:00:00.5' + INTERVAL n * 7919 % 10007 SECOND,
  IF(n % 4 IN (1, 3), '2026-01-02 00:00:00.000001', NULL), IF(n % 4 IN (2, 3), 'it failed: é', NULL),
  IF(n % 8 = 4, 'worker-7', NULL), IF(n % 8 = 4, '2026-01-01', NULL)
FROM numbers;"#;

/// All that must not change, as one text.
const FINGERPRINT_SQL: &str = "SELECT CONCAT(COUNT(*), ' ', BIT_XOR(CRC32(CONCAT_WS('|', event_id, event_type, aggregate_id,
  tenant_id, CAST(payload AS CHAR), CAST(headers AS CHAR), status, attempts, CAST(available_at AS DATETIME(6)),
  CAST(created_at AS DATETIME(6)), CAST(done_at AS DATETIME(6)), last_error)))) FROM outbox_event";

/// All that an adoption makes.
const FULL_FINGERPRINT_SQL: &str = "SELECT CONCAT(COUNT(*), ' ', BIT_XOR(CRC32(CONCAT_WS('|', seq, event_id, aggregate_type, payload,
  headers, status, attempts, available_at, created_at, inserted_at, done_at, last_error, COALESCE(locked_by, '-'),
  COALESCE(locked_at, '-'), lease_token, phase, phase_at)))) FROM outbox_event";

struct DocumentTable {
    pool: MySqlPool,
    options: MySqlConnectOptions,
    name: String,
}

impl DocumentTable {
    async fn new(form: ColumnTypes, sql: &str) -> Self {
        let ColumnTypes { charset, json, headers, time, status } = form;
        let name = new_database_with(&format!("CHARACTER SET {charset}")).await;
        let options = server().database(&name);
        let pool = MySqlPoolOptions::new().max_connections(4).connect_with(options.clone()).await;
        let pool = pool.expect("the pool opens");
        let table = format!(
            "CREATE TABLE outbox_event (event_id VARCHAR(36) PRIMARY KEY, event_type VARCHAR(128) NOT NULL,
               aggregate_type VARCHAR(64), aggregate_id VARCHAR(128), tenant_id VARCHAR(64), payload {json} NOT NULL,
               headers {headers}, status {status} NOT NULL, attempts INT NOT NULL DEFAULT 0,
               available_at {time} NOT NULL, created_at {time} NOT NULL, done_at {time} NULL, last_error TEXT,
               locked_by VARCHAR(128), locked_at {time} NULL);
             CREATE INDEX idx_status_available ON outbox_event (status, available_at, created_at);
             {sql}"
        );
        run(&pool, &table).await.unwrap_or_else(|error| panic!("{error}"));
        Self { pool, options, name }
    }

    fn builder(&self) -> MySqlStoreBuilder {
        // Far from UTC, which no time of the table must notice.
        MySqlStore::builder(&self.options.clone().timezone(Some("-09:30".to_owned())))
    }

    async fn adopt(&self) -> Result<MySqlStore, OpenError> {
        self.builder().migrations().adopt().await?;
        self.builder().connect().await
    }

    async fn text(&self, sql: &str) -> Option<String> {
        text_of(&self.pool, sql).await
    }

    /// The columns of the table itself.
    async fn columns(&self) -> Vec<String> {
        let all = columns(&self.name).await;
        all.into_iter().filter(|column| column.starts_with("outbox_event ")).collect()
    }

    /// Everything that is defined in the database.
    async fn contents(&self) -> Vec<String> {
        contents(&self.name).await
    }

    async fn close(self) {
        self.pool.close().await;
        drop_database(&self.name).await;
    }
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn opening_such_a_table_names_the_way_to_adopt_it() {
    let old = DocumentTable::new(COLUMN_TYPES[0], "").await;
    let before = old.contents().await;
    for error in [old.builder().connect().await.err(), old.builder().migrate().connect().await.err()] {
        let error = error.expect("not an outbox yet");
        assert!(matches!(error, OpenError::ForeignTable { .. }), "{error:?}");
        assert!(error.to_string().contains("posthaste migrate apply --adopt"), "{error}");
    }
    let state = old.builder().migrations().check().await.unwrap();
    assert!(matches!(state, SchemaState::Foreign { adoptable: true, .. }), "{state:?}");
    assert_eq!(old.contents().await, before);
    old.close().await;
}

/// A producer may date an event as it likes, a year back for example.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn events_wait_from_their_adoption_on_and_not_from_a_time_of_their_producer() {
    for form in COLUMN_TYPES {
        let old = DocumentTable::new(form, INSERT_ROWS_SQL).await;
        let store = old.adopt().await.expect("an outbox");
        let waited = store.oldest_pending(None).await.unwrap().expect("something is due");
        assert!(waited < HOUR, "{waited:?}, {}", form.time);
        store.close().await;
        old.close().await;
    }
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn rows_of_every_state_are_kept_and_the_pending_ones_delivered() {
    for form in COLUMN_TYPES {
        let old = DocumentTable::new(form, INSERT_ROWS_SQL).await;
        let before = old.text(FINGERPRINT_SQL).await;
        let store = old.adopt().await.expect("an outbox");
        assert_eq!(old.text(FINGERPRINT_SQL).await, before, "{}", form.time);
        let out_of_order = "SELECT COUNT(*) FROM (SELECT seq,
            ROW_NUMBER() OVER (ORDER BY created_at, event_id) AS n FROM outbox_event) AS o WHERE seq <> n";
        assert_eq!(old.text(out_of_order).await.as_deref(), Some("0"), "the order of creation");
        let leased = "SELECT COUNT(*) FROM outbox_event WHERE locked_by IS NOT NULL OR locked_at IS NOT NULL";
        assert_eq!(old.text(leased).await.as_deref(), Some("0"), "nobody has a token for them");

        let recorder = Recorder::new().publisher(100);
        let outbox = engine(&store, &recorder).poll_batch(500).start().unwrap();
        within_timeout("the engine is idle", outbox.idle()).await.unwrap();
        let pending = |n: &u32| n.is_multiple_of(2) && n % 100 != 2;
        assert_eq!(set_of(recorder.ids()), set_of((1..=1000).filter(pending).map(|n| format!("event{n}"))));
        assert_eq!(recorder.count(), 490, "once each");
        for delivery in recorder.deliveries() {
            let text = delivery.payload_as::<serde_json::Value>().unwrap()["text"].clone();
            assert_eq!((text.as_str(), delivery.headers()["region"].as_str()), (Some("é '"), "eu"));
            assert!(delivery.aggregate_id().unwrap().starts_with('Ä'));
        }
        let stats = store.stats().await.unwrap();
        assert_eq!((stats.retry, stats.dead, stats.done), (10, 250, 740), "{stats:?}");
        let dead = store.get(&EventId::from("event3")).await.unwrap().unwrap().row;
        assert_eq!((dead.status, dead.last_error.as_deref()), (Status::Dead, Some("it failed: é")));
        assert_eq!(dead.done_at.unwrap().as_micros(), 1_767_312_000_000_001);

        // A program that has not changed goes on to write, and a new one writes what is no JSON.
        let insert = "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload,
               headers, status, attempts, available_at, created_at, done_at, last_error, locked_by, locked_at)
             VALUES ('afterwards', 'T', 'Order', '1', NULL, '{}', NULL, 0, 0, '2026-01-01', '2026-01-01', NULL, NULL,
               NULL, NULL)";
        run(&old.pool, insert).await.expect("an old statement");
        let mut tx = store.writer(&outbox).begin(&old.pool).await.unwrap();
        tx.write(encoding_cases::bytes("text", "text/plain", "no JSON: 😀")).await.unwrap();
        tx.commit().await.unwrap();
        wait_until("both are delivered", async || {
            outbox.idle().await.unwrap();
            recorder.count() == 492
        })
        .await;
        let seq = store.get(&EventId::from("afterwards")).await.unwrap().unwrap().row.seq;
        assert_eq!(seq, 1001);
        outbox.shutdown().await;
        store.close().await;
        old.close().await;
    }
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn triggers_and_grants_stay() {
    let old = DocumentTable::new(COLUMN_TYPES[1], INSERT_ROWS_SQL).await;
    let user = format!("u{}", fastrand::u32(..));
    run(
        &old.pool,
        &format!(
            "CREATE TABLE notes (id INT AUTO_INCREMENT PRIMARY KEY, event_id VARCHAR(36) CHARACTER SET utf8mb4);
             CREATE TRIGGER mine AFTER INSERT ON outbox_event FOR EACH ROW
               INSERT INTO notes (event_id) VALUES (NEW.event_id);
             CREATE USER {user}@'%'; GRANT SELECT, INSERT ON outbox_event TO {user}@'%'"
        ),
    )
    .await
    .unwrap();
    let store = old.adopt().await.expect("an outbox");
    let mut tx = plain_writer(&store).begin(&old.pool).await.unwrap();
    tx.write(event("written")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(old.text("SELECT GROUP_CONCAT(event_id) FROM notes").await.as_deref(), Some("written"));
    let grants: Vec<String> = sqlx::query_scalar(AssertSqlSafe(format!("SHOW GRANTS FOR {user}@'%'")))
        .fetch_all(&old.pool)
        .await
        .unwrap();
    assert!(grants.iter().any(|grant| grant.contains("SELECT, INSERT ON")), "{grants:?}");
    run(&old.pool, &format!("DROP USER {user}@'%'")).await.unwrap();
    store.close().await;
    old.close().await;
}

/// The server does not let a column change that a foreign key refers to: its owner has to say what shall
/// become of it.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn foreign_key_to_the_table_is_named_and_nothing_is_changed() {
    let old = DocumentTable::new(COLUMN_TYPES[1], INSERT_ROWS_SQL).await;
    let notes = "CREATE TABLE notes (event_id VARCHAR(36),
        CONSTRAINT mine FOREIGN KEY (event_id) REFERENCES outbox_event (event_id))";
    run(&old.pool, notes).await.unwrap();
    let before = (old.columns().await, old.text(FINGERPRINT_SQL).await);
    let error = old.adopt().await.expect_err("the key stands in the way");
    assert!(error.to_string().contains("mine"), "{error}");
    assert_eq!((old.columns().await, old.text(FINGERPRINT_SQL).await), before);
    run(&old.pool, "DROP TABLE notes").await.unwrap();
    old.adopt().await.expect("an outbox").close().await;
    old.close().await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn printed_adoption_does_the_same() {
    for form in COLUMN_TYPES {
        let (by_call, by_hand) = (
            DocumentTable::new(form, INSERT_ROWS_SQL).await,
            DocumentTable::new(form, INSERT_ROWS_SQL).await,
        );
        by_call.adopt().await.expect("an outbox").close().await;
        let printed = by_hand.builder().migrations().adoption_sql();
        assert!(printed.contains("Writes every row anew"), "it names what rewrites the table");
        shell(&by_hand.name, &printed);
        assert_eq!(by_hand.contents().await, by_call.contents().await);
        assert_eq!(
            by_hand.text(FULL_FINGERPRINT_SQL).await,
            by_call.text(FULL_FINGERPRINT_SQL).await,
            "{}",
            form.time
        );
        let state = by_hand.builder().migrations().check().await.unwrap();
        assert_eq!(state, SchemaState::Current { version: 1 });
        by_hand.builder().connect().await.expect("an outbox").close().await;
        by_call.close().await;
        by_hand.close().await;
    }
}

/// No statement that alters a table can be rolled back.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn adoption_that_was_interrupted_anywhere_is_finished_by_the_next_one() {
    let whole = DocumentTable::new(COLUMN_TYPES[1], INSERT_ROWS_SQL).await;
    whole.adopt().await.expect("an outbox").close().await;
    let printed = whole.builder().migrations().adoption_sql();
    let steps: Vec<&str> = printed.split_inclusive(";\n").collect();
    for done in 1..steps.len() {
        let old = DocumentTable::new(COLUMN_TYPES[1], INSERT_ROWS_SQL).await;
        shell(&old.name, &steps[..done].concat());
        let error = old.builder().connect().await.expect_err("half an outbox");
        assert!(error.to_string().contains("posthaste migrate apply"), "after {done} steps: {error}");
        let applied = old.builder().migrations().adopt().await;
        assert_eq!(applied.unwrap_or_else(|error| panic!("after {done} steps: {error:?}")).len(), 1);
        assert_eq!(old.contents().await, whole.contents().await, "after {done} steps");
        assert_eq!(
            old.text(FULL_FINGERPRINT_SQL).await,
            whole.text(FULL_FINGERPRINT_SQL).await,
            "after {done} steps"
        );
        old.close().await;
    }
    whole.close().await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn adopting_twice_or_by_many_at_once_is_harmless() {
    let old = DocumentTable::new(COLUMN_TYPES[0], INSERT_ROWS_SQL).await;
    let adopt = |_| {
        let migrations = old.builder().migrations();
        tokio::spawn(async move { migrations.adopt().await })
    };
    let mut applied = 0;
    for adopted in (0..5).map(adopt).collect::<Vec<_>>() {
        applied += adopted.await.expect("no panic").expect("an outbox").len();
    }
    assert_eq!(applied, 1, "by one of them");
    let before = (old.contents().await, old.text(FULL_FINGERPRINT_SQL).await);
    assert!(old.builder().migrations().adopt().await.unwrap().is_empty());
    assert_eq!((old.contents().await, old.text(FULL_FINGERPRINT_SQL).await), before);
    old.close().await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn table_with_other_columns_is_refused_and_left_alone() {
    for (change, name) in [
        ("ADD COLUMN priority INT DEFAULT 0", "priority"),
        ("DROP COLUMN tenant_id", "tenant_id"),
        ("RENAME COLUMN payload TO body", "payload"),
    ] {
        let old = DocumentTable::new(COLUMN_TYPES[0], &format!("ALTER TABLE outbox_event {change};")).await;
        let before = old.contents().await;
        let error = old.adopt().await.expect_err("another table");
        assert!(matches!(error, OpenError::ForeignTable { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("another table name"), "{text}");
        assert_eq!(old.contents().await, before);
        old.close().await;
    }
}

/// A status that nobody knows would never be seen again. Who has corrected the row adopts again.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn row_that_no_outbox_can_hold_is_named_and_the_adoption_is_finished_when_it_is_corrected() {
    for (values, why, correction) in [
        ("'a', 'T', '{}', 9", "outbox_event_status", "status = 0"),
        ("'a', 'T', '{}', 999", "status", "status = 0"),
        ("'a', '', '{}', 0", "outbox_event_has_type", "event_type = 'T'"),
        ("'', 'T', '{}', 0", "outbox_event_has_id", "event_id = 'a'"),
    ] {
        let bad = format!(
            "INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at)
             VALUES ({values}, '2026-01-01', '2026-01-01'), ('good', 'T', '{{}}', 0, '2026-01-01', '2026-01-02');"
        );
        let old = DocumentTable::new(COLUMN_TYPES[1], &bad).await;
        let before = old.text(FINGERPRINT_SQL).await;
        let error = old.adopt().await.expect_err(why);
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(old.text(FINGERPRINT_SQL).await, before, "no row has changed");
        let correct = format!("UPDATE outbox_event SET {correction} WHERE event_id <> 'good'");
        run(&old.pool, &correct).await.unwrap();
        let store = old.adopt().await.expect("an outbox");
        assert_eq!(store.stats().await.unwrap().new, 2);
        store.close().await;
        old.close().await;
    }
}
