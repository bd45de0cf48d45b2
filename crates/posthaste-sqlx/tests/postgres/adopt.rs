//! A table that was made after document 003 becomes an outbox in place, with all its rows.

use std::process::Stdio;

use posthaste::config::{PurgeConfig, Retention};
use posthaste::{Admin as _, EventId, Recorder, Status};
use posthaste_sqlx::postgres::PgStoreBuilder;
use posthaste_sqlx::{OpenError, PgStore, SchemaName, SchemaState};
use sqlx::PgPool;

use crate::support::*;

/// How people write the document's types in PostgreSQL.
#[derive(Clone, Copy)]
struct ColumnTypes {
    payload: &'static str,
    headers: &'static str,
    time: &'static str,
    status: &'static str,
}

const COLUMN_TYPES: [ColumnTypes; 3] = [
    ColumnTypes { payload: "jsonb", headers: "jsonb", time: "timestamp(6)", status: "smallint" },
    ColumnTypes { payload: "json", headers: "text", time: "timestamptz", status: "int" },
    ColumnTypes { payload: "text", headers: "json", time: "timestamptz", status: "bigint" },
];

/// More than enough of every state: new, done, retry and dead; on lease, and due in a thousand years.
const INSERT_ROWS_SQL: &str = r#"INSERT INTO outbox_event
SELECT 'event' || n, 'OrderPlaced', CASE WHEN n % 5 <> 0 THEN 'Order' END, n, 'acme',
  ('{"n": ' || n || ',  "a": 1.50, "text": "é ''"}')::payload_type, '{"region":"eu"}'::headers_type, n % 4, n % 3,
  CASE WHEN n % 100 = 2 THEN '2999-01-01'::time_type ELSE '2026-01-01 12:00:00.123456'::time_type END,
  '2026-01-01'::time_type + n * 7919 % 10007 * interval '1 second',
  CASE WHEN n % 4 IN (1, 3) THEN '2026-01-02'::time_type END,
  CASE WHEN n % 4 IN (2, 3) THEN 'it failed' END,
  CASE WHEN n % 8 = 4 THEN 'worker-7' END, CASE WHEN n % 8 = 4 THEN '2026-01-01'::time_type END
FROM generate_series(1, 10000) AS n;"#;

/// All that must not change, as one text.
const FINGERPRINT_SQL: &str = "SELECT count(*) || ' ' || md5(string_agg(concat_ws('|', event_id, event_type, aggregate_id,
  tenant_id, payload::text, headers::text, status, attempts, extract(epoch FROM available_at),
  extract(epoch FROM created_at), extract(epoch FROM done_at), last_error), E'\\n' ORDER BY event_id)) FROM outbox_event";

struct DocumentTable {
    pool: PgPool,
    schema: SchemaName,
}

impl DocumentTable {
    async fn new(form: ColumnTypes, sql: &str) -> Self {
        let schema = new_schema();
        let ColumnTypes { payload, headers, time, status } = form;
        let pool = pool_in(&schema, server(), 4).await;
        run(&pool, &format!(r#"CREATE SCHEMA "{schema}""#)).await.expect("a schema");
        let sql =
            sql.replace("payload_type", payload).replace("headers_type", headers).replace("time_type", time);
        let table = format!(
            "CREATE TABLE outbox_event (event_id varchar(36) PRIMARY KEY, event_type varchar(128) NOT NULL,
               aggregate_type varchar(64), aggregate_id varchar(128), tenant_id varchar(64), payload {payload} NOT NULL,
               headers {headers}, status {status} NOT NULL, attempts int NOT NULL DEFAULT 0, available_at {time} NOT NULL,
               created_at {time} NOT NULL, done_at {time}, last_error text, locked_by varchar(128), locked_at {time});
             CREATE INDEX idx_status_available ON outbox_event (status, available_at, created_at);
             SET LOCAL TimeZone = 'UTC'; {sql}"
        );
        run(&pool, &table).await.unwrap_or_else(|error| panic!("{error}"));
        Self { pool, schema }
    }

    fn builder(&self) -> PgStoreBuilder {
        // Far from UTC, which no time of the table must notice.
        PgStore::builder(&server().options([("TimeZone", "Asia/Kathmandu")])).schema(self.schema.clone())
    }

    async fn adopt(&self) -> Result<PgStore, OpenError> {
        self.builder().migrations().adopt().await?;
        self.builder().connect().await
    }

    async fn text(&self, sql: &str) -> Option<String> {
        text_of(&self.pool, sql).await
    }

    async fn columns(&self) -> String {
        let sql =
            "SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attname)
            FROM pg_attribute WHERE attrelid = 'outbox_event'::regclass AND attnum > 0 AND NOT attisdropped";
        self.text(sql).await.expect("columns")
    }

    async fn close(self) {
        self.pool.close().await;
        drop_schema(&self.schema).await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn opening_such_a_table_names_the_way_to_adopt_it() {
    let old = DocumentTable::new(COLUMN_TYPES[0], "").await;
    let before = old.columns().await;
    for error in [old.builder().connect().await.err(), old.builder().migrate().connect().await.err()] {
        let error = error.expect("not an outbox yet");
        assert!(matches!(error, OpenError::ForeignTable { .. }), "{error:?}");
        assert!(error.to_string().contains("posthaste migrate apply --adopt"), "{error}");
    }
    let state = old.builder().migrations().check().await.unwrap();
    assert!(matches!(state, SchemaState::Foreign { adoptable: true, .. }), "{state:?}");
    assert_eq!(old.columns().await, before);
    old.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn adopted_rows_wait_since_their_adoption_and_not_since_a_producers_time() {
    let old = DocumentTable::new(COLUMN_TYPES[0], INSERT_ROWS_SQL).await;
    let store = old.adopt().await.expect("an outbox");
    let waits = store.stats().await.unwrap().oldest_pending.expect("some are pending");
    assert!(waits < HOUR, "{waits:?}");
    store.close().await;
    old.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn ten_thousand_rows_of_every_state_are_kept_and_the_pending_ones_delivered() {
    for form in COLUMN_TYPES {
        let old = DocumentTable::new(form, INSERT_ROWS_SQL).await;
        let before = old.text(FINGERPRINT_SQL).await;
        let store = old.adopt().await.expect("an outbox");
        assert_eq!(old.text(FINGERPRINT_SQL).await, before);
        let in_order =
            "SELECT bool_and(seq = n AND inserted_at > now() - interval '10 min') FROM (SELECT *, row_number() OVER
            (ORDER BY created_at, event_id) AS n FROM outbox_event) AS o";
        assert_eq!(old.text(in_order).await.as_deref(), Some("true"), "the order of creation");
        let leased = "SELECT count(*) FROM outbox_event WHERE locked_by IS NOT NULL OR locked_at IS NOT NULL";
        assert_eq!(old.text(leased).await.as_deref(), Some("0"), "nobody has a token for them");

        let recorder = Recorder::new().publisher(100);
        // What was delivered long ago is not purged while others are counted.
        let kept = PurgeConfig::default().with_done(Retention::KEEP);
        let outbox = engine(&store, &recorder).poll_batch(500).purge(kept).start().unwrap();
        within_timeout("the engine is idle", outbox.idle()).await.unwrap();
        let pending = |n: &u32| n.is_multiple_of(2) && n % 100 != 2;
        assert_eq!(set_of(recorder.ids()), set_of((1..=10_000).filter(pending).map(|n| format!("event{n}"))));
        assert_eq!(recorder.count(), 4900, "once each");
        assert!(recorder.deliveries().iter().all(|delivery| delivery.headers()["region"] == "eu"));

        let stats = store.stats().await.unwrap();
        assert_eq!((stats.retry, stats.dead, stats.done), (100, 2500, 7400), "{stats:?}");
        let dead = store.get(&EventId::from("event3")).await.unwrap().unwrap().row;
        assert_eq!((dead.status, dead.last_error.as_deref()), (Status::Dead, Some("it failed")));

        // A program that has not changed goes on to write.
        let time = "'2026-01-01'::time_type".replace("time_type", form.time);
        let insert = format!(
            "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers,
               status, attempts, available_at, created_at, done_at, last_error, locked_by, locked_at)
             VALUES ('afterwards', 'T', 'Order', '1', NULL, '{{}}'::{}, NULL, 0, 0, {time}, {time}, NULL, NULL, NULL, NULL)",
            form.payload
        );
        run(&old.pool, &insert).await.expect("an old statement");
        wait_until("it is delivered", async || {
            outbox.idle().await.unwrap();
            recorder.count() == 4901
        })
        .await;
        let seq = store.get(&EventId::from("afterwards")).await.unwrap().unwrap().row.seq;
        assert_eq!(seq, 10_001);
        outbox.shutdown().await;
        store.close().await;
        old.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn grants_and_foreign_keys_stay() {
    let old = DocumentTable::new(COLUMN_TYPES[0], INSERT_ROWS_SQL).await;
    let role = format!("{}_reader", old.schema);
    let sql = format!(
        "CREATE ROLE {role}; GRANT SELECT, INSERT ON outbox_event TO {role};
         CREATE TABLE notes (event_id varchar(36) REFERENCES outbox_event (event_id), text text);
         INSERT INTO notes VALUES ('event1', 'remember')"
    );
    run(&old.pool, &sql).await.unwrap();
    old.adopt().await.expect("an outbox").close().await;
    let may = format!("SELECT has_table_privilege('{role}', 'outbox_event', 'SELECT, INSERT')");
    assert_eq!(old.text(&may).await.as_deref(), Some("true"));
    run(&old.pool, "INSERT INTO notes VALUES ('event2', 'again')")
        .await
        .expect("it refers to a row that exists");
    let refused =
        run(&old.pool, "INSERT INTO notes VALUES ('nobody', 'x')").await.expect_err("no such event");
    assert!(refused.to_string().contains("foreign key"), "{refused}");
    run(&old.pool, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
    old.close().await;
}

/// PostgreSQL does not let a column change that a view shows: its owner has to say what shall become of it.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn view_on_the_table_is_named_and_nothing_is_changed() {
    let old = DocumentTable::new(COLUMN_TYPES[0], INSERT_ROWS_SQL).await;
    run(&old.pool, "CREATE VIEW waiting AS SELECT event_id, payload FROM outbox_event WHERE status = 0")
        .await
        .unwrap();
    let before = (old.columns().await, old.text(FINGERPRINT_SQL).await);
    let error = old.adopt().await.expect_err("the view stands in the way");
    assert!(error.to_string().contains("view"), "{error}");
    assert_eq!((old.columns().await, old.text(FINGERPRINT_SQL).await), before);
    run(&old.pool, "DROP VIEW waiting").await.unwrap();
    old.adopt().await.expect("an outbox").close().await;
    old.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn printed_adoption_does_the_same() {
    let (by_call, by_hand) = (
        DocumentTable::new(COLUMN_TYPES[1], INSERT_ROWS_SQL).await,
        DocumentTable::new(COLUMN_TYPES[1], INSERT_ROWS_SQL).await,
    );
    by_call.adopt().await.expect("an outbox").close().await;
    let printed = by_hand.builder().migrations().adoption_sql();
    assert!(printed.contains("Writes every row anew"), "it names what rewrites the table");
    let answer = psql().arg("-c").arg(printed).stdout(Stdio::null()).output().expect("psql is there");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    assert_eq!(by_hand.columns().await, by_call.columns().await);
    let rows = "SELECT md5(string_agg((to_jsonb(o) - 'inserted_at')::text, E'\\n' ORDER BY seq)) FROM outbox_event AS o";
    assert_eq!(by_hand.text(rows).await, by_call.text(rows).await);
    let state = by_hand.builder().migrations().check().await.unwrap();
    assert_eq!(state, SchemaState::Current { version: 1 });
    by_hand.builder().connect().await.expect("an outbox").close().await;
    by_call.close().await;
    by_hand.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
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
    let before = (old.columns().await, old.text(FINGERPRINT_SQL).await);
    assert!(old.builder().migrations().adopt().await.unwrap().is_empty());
    assert_eq!((old.columns().await, old.text(FINGERPRINT_SQL).await), before);
    old.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn table_with_other_columns_is_refused_and_left_alone() {
    for (change, name) in [
        ("ADD COLUMN priority int DEFAULT 0", "priority"),
        ("DROP COLUMN tenant_id", "tenant_id"),
        ("RENAME COLUMN payload TO body", "payload"),
    ] {
        let old = DocumentTable::new(COLUMN_TYPES[0], &format!("ALTER TABLE outbox_event {change};")).await;
        let before = old.columns().await;
        let error = old.adopt().await.expect_err("another table");
        assert!(matches!(error, OpenError::ForeignTable { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("another table name"), "{text}");
        assert_eq!(old.columns().await, before);
        old.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn adoption_that_fails_changes_nothing() {
    let bad = "INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at)
        VALUES ('good', 'T', '{}', 0, now(), now()), ('bad', 'T', '{}', 99999, now(), now());";
    let old = DocumentTable::new(ColumnTypes { status: "bigint", ..COLUMN_TYPES[1] }, bad).await;
    let before = (old.columns().await, old.text(FINGERPRINT_SQL).await);
    let error = old.adopt().await.expect_err("no smallint");
    assert!(error.to_string().contains("smallint"), "{error}");
    assert_eq!((old.columns().await, old.text(FINGERPRINT_SQL).await), before);
    old.close().await;
}

/// A status that nobody knows would never be seen again, and a row that breaks a rule of the table could
/// not be claimed: every claim that meets it would fail.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn row_that_no_outbox_can_hold_is_not_adopted_in_silence() {
    for (values, why) in [
        ("'a', 'T', '{}', 9", "status is 0 NEW"),
        ("'a', '', '{}', 0", "event_type is not empty"),
        ("'', 'T', '{}', 0", "event_id is not empty"),
    ] {
        let bad = format!(
            "INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at)
             VALUES ({values}, now(), now());"
        );
        let old = DocumentTable::new(COLUMN_TYPES[0], &bad).await;
        let before = old.columns().await;
        let error = old.adopt().await.expect_err(why);
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(old.columns().await, before);
        old.close().await;
    }
}
