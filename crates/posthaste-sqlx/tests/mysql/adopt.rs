//! Adoption of a classic 15-column outbox table on MySQL and MariaDB, in place.

use posthaste::Admin as _;
use posthaste_sqlx::MySqlStore;

use crate::cases::adopt::ClassicTable;
use crate::support::*;

crate::cases::adopt::adopt_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);

/// The common ways to write the types of the columns, and the character set of the database.
#[derive(Clone, Copy)]
pub(crate) struct ColumnTypes {
    charset: &'static str,
    pub(crate) payload: &'static str,
    headers: &'static str,
    pub(crate) time: &'static str,
    status: &'static str,
}

pub(crate) const COLUMN_TYPES: [ColumnTypes; 3] = [
    ColumnTypes {
        charset: "utf8mb4",
        payload: "JSON",
        headers: "JSON",
        time: "DATETIME(6)",
        status: "TINYINT",
    },
    ColumnTypes { charset: "latin1", payload: "JSON", headers: "TEXT", time: "TIMESTAMP(6)", status: "INT" },
    ColumnTypes {
        charset: "latin1",
        payload: "LONGTEXT",
        headers: "JSON",
        time: "DATETIME(6)",
        status: "BIGINT",
    },
];

pub(crate) const ROWS: u32 = 1000;

/// Rows in every state: new, done, retry and dead, leased, and due in many years.
pub(crate) const INSERT_ROWS_SQL: &str = r#"INSERT INTO outbox_event
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

/// All columns that an adoption must not change, as one text.
pub(crate) const FINGERPRINT_SQL: &str = "SELECT CONCAT(COUNT(*), ' ', BIT_XOR(CRC32(CONCAT_WS('|', event_id, event_type, aggregate_id,
  tenant_id, CAST(payload AS CHAR), CAST(headers AS CHAR), status, attempts, CAST(available_at AS DATETIME(6)),
  CAST(created_at AS DATETIME(6)), CAST(done_at AS DATETIME(6)), last_error)))) FROM outbox_event";

/// All columns that an adoption writes.
pub(crate) const FULL_FINGERPRINT_SQL: &str = "SELECT CONCAT(COUNT(*), ' ', BIT_XOR(CRC32(CONCAT_WS('|', seq, event_id, aggregate_type, payload,
  headers, status, attempts, available_at, created_at, inserted_at, done_at, last_error, COALESCE(locked_by, '-'),
  COALESCE(locked_at, '-'), lease_token, phase, phase_at)))) FROM outbox_event";

/// How many rows are not in the order of their creation.
pub(crate) const MISPLACED_SQL: &str = "SELECT COUNT(*) FROM (SELECT seq,
  ROW_NUMBER() OVER (ORDER BY created_at, event_id) AS n FROM outbox_event) AS o WHERE seq <> n";

pub(crate) fn create_table_sql(types: ColumnTypes) -> String {
    let ColumnTypes { payload, headers, time, status, .. } = types;
    format!(
        "CREATE TABLE outbox_event (event_id VARCHAR(36) PRIMARY KEY, event_type VARCHAR(128) NOT NULL,
           aggregate_type VARCHAR(64), aggregate_id VARCHAR(128), tenant_id VARCHAR(64), payload {payload} NOT NULL,
           headers {headers}, status {status} NOT NULL, attempts INT NOT NULL DEFAULT 0,
           available_at {time} NOT NULL, created_at {time} NOT NULL, done_at {time} NULL, last_error TEXT,
           locked_by VARCHAR(128), locked_at {time} NULL);
         CREATE INDEX idx_status_available ON outbox_event (status, available_at, created_at);"
    )
}

/// The INSERT of a program that knows the old table.
pub(crate) fn insert_of_an_old_program(_: ColumnTypes) -> String {
    "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload,
       headers, status, attempts, available_at, created_at, done_at, last_error, locked_by, locked_at)
     VALUES ('afterwards', 'T', 'Order', '1', NULL, '{}', NULL, 0, 0, '2026-01-01', '2026-01-01', NULL, NULL,
       NULL, NULL)"
        .to_owned()
}

impl Place {
    /// A database for a table of these types.
    pub(crate) async fn for_classic_table(types: ColumnTypes) -> Self {
        Self::with_charset(types.charset).await
    }

    pub(crate) fn builder_far_from_utc(&self) -> StoreBuilder {
        MySqlStore::builder(&self.options().timezone(Some("-09:30".to_owned())))
    }
}

/// The columns of the outbox table.
async fn outbox_columns(place: &Place) -> Vec<String> {
    let mut columns = place.columns().await;
    columns.retain(|column| column.starts_with("outbox_event "));
    columns
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn triggers_and_grants_stay() {
    let old = ClassicTable::with_rows(COLUMN_TYPES[1]).await;
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
    write(&plain_writer(&store), &old.pool, events(&["written"])).await;
    assert_eq!(old.text("SELECT GROUP_CONCAT(event_id) FROM notes").await.as_deref(), Some("written"));
    let grants = texts_of(&old.pool, &format!("SHOW GRANTS FOR {user}@'%'")).await;
    assert!(grants.iter().any(|grant| grant.contains("SELECT, INSERT ON")), "{grants:?}");
    run(&old.pool, &format!("DROP USER {user}@'%'")).await.unwrap();
    store.close().await;
    old.close().await;
}

/// The server does not allow a change of a column to which a foreign key refers. Its owner has to decide what to do.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn foreign_key_to_the_table_is_named_and_nothing_is_changed() {
    let old = ClassicTable::with_rows(COLUMN_TYPES[1]).await;
    let notes = "CREATE TABLE notes (event_id VARCHAR(36),
        CONSTRAINT mine FOREIGN KEY (event_id) REFERENCES outbox_event (event_id))";
    run(&old.pool, notes).await.unwrap();
    let before = (outbox_columns(&old.place).await, old.text(FINGERPRINT_SQL).await);
    let error = old.adopt().await.expect_err("the key prevents it");
    assert!(error.to_string().contains("mine"), "{error}");
    assert_eq!((outbox_columns(&old.place).await, old.text(FINGERPRINT_SQL).await), before);
    run(&old.pool, "DROP TABLE notes").await.unwrap();
    old.adopt().await.expect("an outbox").close().await;
    old.close().await;
}

/// No statement that alters a table can be rolled back.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn adoption_that_was_interrupted_anywhere_is_finished_by_the_next_one() {
    let whole = ClassicTable::with_rows(COLUMN_TYPES[1]).await;
    whole.adopt().await.expect("an outbox").close().await;
    let printed = whole.builder().migrations().adoption_sql();
    let steps: Vec<&str> = printed.split_inclusive(";\n").collect();
    for done in 1..steps.len() {
        let old = ClassicTable::with_rows(COLUMN_TYPES[1]).await;
        old.place.shell(&steps[..done].concat());
        let error = old.builder().connect().await.expect_err("half an outbox");
        assert!(error.to_string().contains("posthaste migrate apply"), "after {done} steps: {error}");
        let applied = old.builder().migrations().adopt().await;
        assert_eq!(applied.unwrap_or_else(|error| panic!("after {done} steps: {error:?}")).len(), 1);
        assert_eq!(old.place.contents().await, whole.place.contents().await, "after {done} steps");
        assert_eq!(
            old.text(FULL_FINGERPRINT_SQL).await,
            whole.text(FULL_FINGERPRINT_SQL).await,
            "after {done} steps"
        );
        old.close().await;
    }
    whole.close().await;
}

/// A row with an unknown status would never be seen again. The adoption is run again after the row was corrected.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn row_that_cannot_be_adopted_is_named_and_the_adoption_ends_when_it_is_fixed() {
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
        let old = ClassicTable::new(COLUMN_TYPES[1], &bad).await;
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
