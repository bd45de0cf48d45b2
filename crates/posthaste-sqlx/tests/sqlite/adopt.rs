//! A table that was made after document 003 becomes an outbox, with all its rows.

use posthaste::store::Store as _;
use posthaste::{Admin as _, EventDetail, EventId, Recorder, Status};
use posthaste_sqlx::{OpenError, SchemaState};

use crate::support::*;

const DOCUMENT_TABLE_SQL: &str = "
CREATE TABLE outbox_event (
  event_id VARCHAR(36) PRIMARY KEY,
  event_type VARCHAR(128) NOT NULL,
  aggregate_type VARCHAR(64),
  aggregate_id VARCHAR(128),
  tenant_id VARCHAR(64),
  payload JSON NOT NULL,
  headers JSON,
  status TINYINT NOT NULL,
  attempts INT NOT NULL DEFAULT 0,
  available_at DATETIME(6) NOT NULL,
  created_at DATETIME(6) NOT NULL,
  done_at DATETIME(6),
  last_error TEXT,
  locked_by VARCHAR(128),
  locked_at DATETIME(6)
);
CREATE INDEX idx_status_available ON outbox_event(status, available_at, created_at);
";

/// 2026-01-01 12:00:00 UTC, in microseconds.
const NOON_MICROS: i64 = 1_767_268_800_000_000;

struct DocumentTable {
    place: Place,
    pool: Pool,
}

impl DocumentTable {
    async fn with(sql: &str) -> Self {
        let place = Place::with(&format!("{DOCUMENT_TABLE_SQL}{sql}")).await;
        Self { pool: place.pool(2).await, place }
    }

    async fn adopt(&self) -> Result<Store, OpenError> {
        self.place.builder().migrations().adopt().await?;
        self.place.builder().connect().await
    }

    async fn schema(&self) -> Vec<String> {
        self.place.contents().await
    }
}

fn row(id: &str, status: i64, time: &str, rest: &str) -> String {
    format!(
        "INSERT INTO outbox_event VALUES ('{id}', 'OrderPlaced', 'Order', '17', 'acme', '{{\"n\": 1}}', \
         '{{\"region\":\"eu\"}}', {status}, 3, {time}, {time}, {rest});"
    )
}

async fn get(store: &Store, id: &str) -> EventDetail {
    store.get(&EventId::from(id)).await.expect("the store answers").unwrap_or_else(|| panic!("no row {id}"))
}

#[tokio::test]
async fn opening_such_a_table_names_the_way_to_adopt_it() {
    let old = DocumentTable::with("").await;
    let before = old.schema().await;
    for error in errors_of(old.place.builder()).await {
        assert!(matches!(error, OpenError::ForeignTable { .. }), "{error:?}");
        assert!(error.to_string().contains("posthaste migrate apply --adopt"), "{error}");
    }
    let state = old.place.builder().migrations().check().await.unwrap();
    assert!(matches!(state, SchemaState::Foreign { adoptable: true, .. }), "{state:?}");
    assert_eq!(old.schema().await, before);
}

#[tokio::test]
async fn times_in_every_unit_become_the_same_instant() {
    let forms = [
        ("text", "'2026-01-01 12:00:00'"),
        ("fraction", "'2026-01-01 12:00:00.000000'"),
        ("iso", "'2026-01-01T12:00:00Z'"),
        ("seconds", "1767268800"),
        ("float-seconds", "1767268800.0"),
        ("millis", "1767268800000"),
        ("micros", "1767268800000000"),
        ("number-as-text", "'1767268800'"),
    ];
    let sql: String =
        forms.iter().map(|(id, time)| row(id, 1, time, &format!("{time}, NULL, NULL, NULL"))).collect();
    let old = DocumentTable::with(&sql).await;
    let store = old.adopt().await.expect("an outbox");
    for (id, _) in forms {
        let row = get(&store, id).await.row;
        assert_eq!(row.malformed, None, "{id}");
        for time in [Some(row.available_at), Some(row.created_at), row.done_at] {
            assert_eq!(time.map(posthaste::Timestamp::as_micros), Some(NOON_MICROS), "{id}: {row:?}");
        }
    }
}

/// A producer may date an event as it likes, a year back for example.
#[tokio::test]
async fn events_wait_from_their_adoption_on_and_not_from_a_time_of_their_producer() {
    let old =
        DocumentTable::with(&row("backdated", 0, "'2020-01-01 12:00:00'", "NULL, NULL, NULL, NULL")).await;
    let store = old.adopt().await.expect("an outbox");
    let waited = store.oldest_pending(None).await.unwrap().expect("it is due");
    assert!(waited < HOUR, "{waited:?}");
}

#[tokio::test]
async fn finished_rows_are_kept_as_they_are_and_the_others_are_delivered() {
    let time = "'2026-01-01 12:00:00'";
    let sql = [
        row("done", 1, time, &format!("{time}, NULL, NULL, NULL")),
        row("dead", 3, time, &format!("{time}, 'it was rejected', NULL, NULL")),
        row("retry", 2, time, "NULL, 'not yet', NULL, NULL"),
        row("retry-later", 2, "'2999-01-01'", "NULL, 'not yet', NULL, NULL"),
        row("leased", 0, time, "NULL, NULL, 'worker-7', '2026-01-01 12:00:01'"),
        row("new", 0, time, "NULL, NULL, NULL, NULL"),
    ];
    let old = DocumentTable::with(&sql.concat()).await;
    let store = old.adopt().await.expect("an outbox");

    let leased = get(&store, "leased").await;
    assert_eq!((leased.row.locked_by, leased.row.locked_at), (None, None), "nobody has a token for it");
    assert_eq!((leased.row.available_at.as_micros(), leased.row.lost_leases), (NOON_MICROS, 0));
    assert_eq!(leased.event.headers()["region"], "eu");
    assert_eq!((&leased.event.payload()[..], leased.event.tenant_id()), (&b"{\"n\": 1}"[..], Some("acme")));

    let recorder = Recorder::new();
    let outbox = engine(&store, &recorder).start().unwrap();
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    assert_eq!(delivered(&recorder), ["leased", "new", "retry"]);
    assert!(recorder.deliveries().iter().all(|delivery| delivery.attempt == 4), "attempts are kept");
    assert_eq!(get(&store, "done").await.row.done_at.unwrap().as_micros(), NOON_MICROS);
    let dead = get(&store, "dead").await.row;
    assert_eq!(
        (dead.status, dead.attempts, dead.last_error.as_deref()),
        (Status::Dead, 3, Some("it was rejected"))
    );
    assert_eq!(get(&store, "retry-later").await.row.status, Status::Retry);
}

#[tokio::test]
async fn order_of_creation_becomes_the_order_of_insertion() {
    let sql = [("c", 30), ("a", 10), ("b", 20)]
        .map(|(id, second)| row(id, 0, &format!("'2026-01-01 12:00:{second}'"), "NULL, NULL, NULL, NULL"));
    let old = DocumentTable::with(&sql.concat()).await;
    let store = old.adopt().await.expect("an outbox");
    let mut seqs = Vec::new();
    for id in ["a", "b", "c"] {
        seqs.push(get(&store, id).await.row.seq);
    }
    assert!(seqs.is_sorted(), "{seqs:?}");
}

#[tokio::test]
async fn row_without_an_aggregate_or_with_a_payload_that_is_no_text_is_adopted() {
    let rows = "
        INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at)
        VALUES ('number', 'T', 7, 0, 1, 1), ('blob', 'T', x'00ff', 0, 1, 1), ('text', 'T', 'null', 0, 1, 1);";
    let old = DocumentTable::with(rows).await;
    let store = old.adopt().await.expect("an outbox");
    for (id, payload) in [("number", &b"7"[..]), ("blob", &[0, 255]), ("text", b"null")] {
        let detail = get(&store, id).await;
        assert_eq!(&detail.event.payload()[..], payload, "{id}");
        assert_eq!(detail.event.aggregate_type(), posthaste::GLOBAL);
    }
}

#[tokio::test]
async fn table_with_one_more_column_is_refused_and_left_alone() {
    for column in
        ["priority INTEGER DEFAULT 0", "upper_type TEXT GENERATED ALWAYS AS (upper(event_type)) VIRTUAL"]
    {
        let old = DocumentTable::with(&format!("ALTER TABLE outbox_event ADD COLUMN {column};")).await;
        let before = old.schema().await;
        let error = old.adopt().await.expect_err("its column would be lost");
        assert!(matches!(error, OpenError::ForeignTable { .. }), "{error:?}");
        let name = column.split(' ').next().unwrap();
        assert!(error.to_string().contains(name), "{error}");
        assert!(error.to_string().contains("another table name"), "{error}");
        assert_eq!(old.schema().await, before);
    }
}

#[tokio::test]
async fn adoption_that_fails_changes_nothing() {
    for (bad, why) in [
        (row("bad", 0, "'some day'", "NULL, NULL, NULL, NULL"), "available_at"),
        (row("bad", 9, "1", "NULL, NULL, NULL, NULL"), "status"),
        (row(&"x".repeat(40), 0, "1", "NULL, NULL, NULL, NULL"), "event_id"),
    ] {
        let old = DocumentTable::with(&(row("good", 0, "1", "NULL, NULL, NULL, NULL") + &bad)).await;
        let before = old.schema().await;
        let error = old.adopt().await.expect_err(why);
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(old.schema().await, before);
        assert_eq!(text_of(&old.pool, "SELECT count(*) FROM outbox_event").await.as_deref(), Some("2"));
    }
}

#[tokio::test]
async fn adopted_schema_is_the_same_as_a_new_one() {
    let old = DocumentTable::with(&row("a", 0, "1", "NULL, NULL, NULL, NULL")).await;
    old.adopt().await.expect("an outbox");
    assert_eq!(old.schema().await, Place::migrated().await.contents().await);
}

#[tokio::test]
async fn printed_adoption_does_the_same() {
    let sql = row("a", 0, "'2026-01-01 12:00:00'", "NULL, NULL, 'worker-7', '2026-01-01'");
    let (by_call, by_hand) = (DocumentTable::with(&sql).await, DocumentTable::with(&sql).await);
    by_call.adopt().await.expect("an outbox");
    let printed = by_hand.place.builder().migrations().adoption_sql();
    assert!(printed.contains("DROP TABLE \"outbox_event_adopted\""), "it names what rewrites the table");
    run(&by_hand.pool, &printed).await.expect("good SQL");
    assert_eq!(by_hand.schema().await, by_call.schema().await);
    let store = by_hand.place.open().await;
    assert_eq!(get(&store, "a").await.row.available_at.as_micros(), NOON_MICROS);
}

/// What a service has built on its table goes on to work.
#[tokio::test]
async fn view_on_the_table_shows_the_new_one_afterwards() {
    let view = "CREATE VIEW waiting AS SELECT event_id FROM outbox_event WHERE status = 0;";
    let old = DocumentTable::with(&(row("a", 0, "1", "NULL, NULL, NULL, NULL") + view)).await;
    old.adopt().await.expect("an outbox");
    assert_eq!(texts_of(&old.pool, "SELECT event_id FROM waiting").await, ["a"]);
}

#[tokio::test]
async fn foreign_key_to_the_table_refers_to_the_new_one_afterwards() {
    let child = "CREATE TABLE notes (event_id TEXT REFERENCES outbox_event (event_id), text TEXT);
        INSERT INTO notes VALUES ('a', 'remember');";
    let old = DocumentTable::with(&(row("a", 0, "1", "NULL, NULL, NULL, NULL") + child)).await;
    old.adopt().await.expect("an outbox");
    run(&old.pool, "INSERT INTO notes VALUES ('a', 'again')").await.expect("it refers to a row that exists");
    let refused =
        run(&old.pool, "INSERT INTO notes VALUES ('nobody', 'x')").await.expect_err("no such event");
    assert!(refused.to_string().contains("FOREIGN KEY"), "{refused}");
}
