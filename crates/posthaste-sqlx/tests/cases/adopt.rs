//! Adoption of a classic 15-column outbox table with all its rows. The module of each database has its DDL.

use posthaste::config::{PurgeConfig, Retention};
use posthaste::store::Store as _;
use posthaste::{Admin as _, EventId, Recorder, Status};
use posthaste_sqlx::{OpenError, SchemaState};

use crate::adopt::{COLUMN_TYPES, ColumnTypes, FINGERPRINT_SQL, FULL_FINGERPRINT_SQL, INSERT_ROWS_SQL, ROWS};
use crate::adopt::{MISPLACED_SQL, create_table_sql, insert_of_an_old_program};
use crate::support::*;

/// The tests of this file.
macro_rules! adopt_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::adopt:
            opening_a_classic_table_says_how_to_adopt_it,
            age_of_adopted_events_counts_from_the_adoption,
            rows_of_every_state_are_kept_and_the_pending_ones_delivered,
            printed_adoption_does_the_same,
            adopting_twice_or_concurrently_is_harmless,
            table_with_other_columns_is_refused_and_left_alone,
        );
    };
}
pub(crate) use adopt_tests;

/// A place with a classic 15-column outbox table.
pub(crate) struct ClassicTable {
    pub(crate) place: Place,
    pub(crate) pool: Pool,
}

impl ClassicTable {
    pub(crate) async fn new(types: ColumnTypes, sql: &str) -> Self {
        let place = Place::for_classic_table(types).await;
        place.execute(&format!("{} {sql}", create_table_sql(types))).await;
        let pool = place.pool(4).await;
        Self { place, pool }
    }

    pub(crate) async fn with_rows(types: ColumnTypes) -> Self {
        Self::new(types, &INSERT_ROWS_SQL.replace("{payload}", types.payload).replace("{time}", types.time))
            .await
    }

    /// Its sessions are in a time zone far from UTC, which must not affect any time in the table.
    pub(crate) fn builder(&self) -> StoreBuilder {
        self.place.builder_far_from_utc()
    }

    pub(crate) async fn adopt(&self) -> Result<Store, OpenError> {
        self.builder().migrations().adopt().await?;
        self.builder().connect().await
    }

    pub(crate) async fn text(&self, sql: &str) -> Option<String> {
        text_of(&self.pool, sql).await
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
        self.place.remove().await;
    }
}

pub(crate) async fn opening_a_classic_table_says_how_to_adopt_it() {
    let old = ClassicTable::new(COLUMN_TYPES[0], "").await;
    let before = old.place.contents().await;
    for error in errors_of(old.builder()).await {
        assert!(matches!(error, OpenError::ForeignTable { .. }), "{error:?}");
        assert!(error.to_string().contains("posthaste migrate apply --adopt"), "{error}");
    }
    let state = old.builder().migrations().check().await.unwrap();
    assert!(matches!(state, SchemaState::Foreign { adoptable: true, .. }), "{state:?}");
    assert_eq!(old.place.contents().await, before);
    old.close().await;
}

/// A producer may set any creation time, for example a year ago.
pub(crate) async fn age_of_adopted_events_counts_from_the_adoption() {
    for types in COLUMN_TYPES {
        let old = ClassicTable::with_rows(types).await;
        let store = old.adopt().await.expect("an outbox");
        let waits = [store.oldest_pending(None).await.unwrap(), store.stats().await.unwrap().oldest_pending];
        assert!(waits.iter().all(|wait| wait.is_some_and(|wait| wait < HOUR)), "{waits:?}, {}", types.time);
        store.close().await;
        old.close().await;
    }
}

pub(crate) async fn rows_of_every_state_are_kept_and_the_pending_ones_delivered() {
    for types in COLUMN_TYPES {
        let old = ClassicTable::with_rows(types).await;
        let before = old.text(FINGERPRINT_SQL).await;
        let store = old.adopt().await.expect("an outbox");
        assert_eq!(old.text(FINGERPRINT_SQL).await, before, "{}", types.time);
        assert_eq!(old.text(MISPLACED_SQL).await.as_deref(), Some("0"), "the order of creation");
        let leased = "SELECT COUNT(*) FROM outbox_event WHERE locked_by IS NOT NULL OR locked_at IS NOT NULL";
        assert_eq!(old.text(leased).await.as_deref(), Some("0"), "no owner has a token for them");

        let recorder = Recorder::new().publisher(100);
        // Nothing is purged while the rows are counted.
        let kept = PurgeConfig::default().with_done(Retention::KEEP);
        let outbox = engine(&store, &recorder).poll_batch(500).purge(kept).start().unwrap();
        within_timeout("the engine is idle", outbox.idle()).await.unwrap();
        let pending = |n: &u32| n.is_multiple_of(2) && n % 100 != 2;
        assert_eq!(set_of(recorder.ids()), set_of((1..=ROWS).filter(pending).map(|n| format!("event{n}"))));
        assert_eq!(recorder.count() as u32, ROWS * 49 / 100, "once each");
        for delivery in recorder.deliveries() {
            let text = delivery.payload_as::<serde_json::Value>().unwrap()["text"].clone();
            assert_eq!((text.as_str(), delivery.headers()["region"].as_str()), (Some("é '"), "eu"));
            assert!(delivery.aggregate_id().unwrap().starts_with('Ä'));
        }
        let (stats, all) = (store.stats().await.unwrap(), u64::from(ROWS));
        assert_eq!((stats.retry, stats.dead, stats.done), (all / 100, all / 4, all * 74 / 100), "{stats:?}");
        let dead = store.get(&EventId::from("event3")).await.unwrap().unwrap().row;
        assert_eq!((dead.status, dead.last_error.as_deref()), (Status::Dead, Some("it failed: é")));
        assert_eq!(dead.done_at.unwrap().as_micros(), 1_767_312_000_000_001);

        // An unchanged program continues to write, and a new one writes a payload that is not JSON.
        run(&old.pool, &insert_of_an_old_program(types)).await.expect("an old statement");
        let text = encoding_cases::bytes("text", "text/plain", "no JSON: 😀");
        write(&Writer::new(&store, &outbox), &old.pool, vec![text]).await;
        wait_until("both are delivered", async || {
            outbox.idle().await.unwrap();
            recorder.count() as u32 == ROWS * 49 / 100 + 2
        })
        .await;
        let seq = store.get(&EventId::from("afterwards")).await.unwrap().unwrap().row.seq;
        assert_eq!(seq, i64::from(ROWS) + 1);
        outbox.shutdown().await;
        store.close().await;
        old.close().await;
    }
}

pub(crate) async fn printed_adoption_does_the_same() {
    for types in COLUMN_TYPES {
        let (by_call, by_hand) = (ClassicTable::with_rows(types).await, ClassicTable::with_rows(types).await);
        by_call.adopt().await.expect("an outbox").close().await;
        let printed = by_hand.builder().migrations().adoption_sql();
        assert!(printed.contains("Writes every row"), "it names what rewrites the table");
        if !by_hand.place.shell(&printed) {
            by_hand.place.execute(&printed).await;
        }
        assert_eq!(by_hand.place.contents().await, by_call.place.contents().await);
        let rows = (by_hand.text(FULL_FINGERPRINT_SQL).await, by_call.text(FULL_FINGERPRINT_SQL).await);
        assert_eq!(rows.0, rows.1, "{}", types.time);
        let state = by_hand.builder().migrations().check().await.unwrap();
        assert_eq!(state, SchemaState::Current { version: 1 });
        by_hand.builder().connect().await.expect("an outbox").close().await;
        by_call.close().await;
        by_hand.close().await;
    }
}

pub(crate) async fn adopting_twice_or_concurrently_is_harmless() {
    let old = ClassicTable::with_rows(COLUMN_TYPES[0]).await;
    let adopt = |_| {
        let migrations = old.builder().migrations();
        tokio::spawn(async move { migrations.adopt().await })
    };
    let mut applied = 0;
    for adopted in (0..5).map(adopt).collect::<Vec<_>>() {
        applied += adopted.await.expect("no panic").expect("an outbox").len();
    }
    assert_eq!(applied, 1, "by one of them");
    let before = (old.place.contents().await, old.text(FULL_FINGERPRINT_SQL).await);
    assert!(old.builder().migrations().adopt().await.unwrap().is_empty());
    assert_eq!((old.place.contents().await, old.text(FULL_FINGERPRINT_SQL).await), before);
    old.close().await;
}

pub(crate) async fn table_with_other_columns_is_refused_and_left_alone() {
    for (change, name) in [
        ("ADD COLUMN priority INT DEFAULT 0", "priority"),
        ("DROP COLUMN tenant_id", "tenant_id"),
        ("RENAME COLUMN payload TO body", "payload"),
    ] {
        let old = ClassicTable::new(COLUMN_TYPES[0], &format!("ALTER TABLE outbox_event {change};")).await;
        let before = old.place.contents().await;
        let error = old.adopt().await.expect_err("another table");
        assert!(matches!(error, OpenError::ForeignTable { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("another table name"), "{text}");
        assert_eq!(old.place.contents().await, before);
        old.close().await;
    }
}
