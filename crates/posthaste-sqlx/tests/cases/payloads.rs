//! Payloads are read back byte for byte, whether events are inserted one by one or in a batch. Events that cannot be
//! stored are refused before the server sees them.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste::{
    Admin as _, BoxError, Event, EventId, EventParts, Limits, Outbox, Recorder, Routes, Timestamp,
    WriteError, WriterHook,
};

use crate::support::encoding_cases::*;
use crate::support::*;

/// The tests of this file.
macro_rules! payload_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::payloads:
            single_and_batch_inserts_come_back_byte_for_byte_and_write_the_same_row,
            text_stays_readable_and_binary_stays_binary,
            thousand_events_in_one_call_arrive_unchanged,
            cold_delivery_gives_the_bytes_that_were_written,
            delay_counts_from_the_insert_by_the_clock_of_the_store,
            event_that_breaks_a_rule_is_refused_and_the_transaction_goes_on,
            hook_before_a_write_may_change_leave_out_and_refuse_events,
        );

        proptest::proptest! {
            #![proptest_config(proptest::prelude::ProptestConfig {
                cases: crate::database::PAYLOAD_CASES,
                failure_persistence: None,
                ..Default::default()
            })]

            // S2-25
            #[test]
            $($attribute)*
            fn whatever_may_be_written_comes_back(
                events in proptest::collection::vec(posthaste_testkit::encoding_cases::any_event(), 1..16),
            ) {
                crate::cases::payloads::whatever_may_be_written_comes_back(events);
            }
        }
    };
}
pub(crate) use payload_tests;

async fn assert_round_trip(db: &Db, events: &[Event]) {
    for event in events {
        let stored = db.store.get(event.id()).await.expect("the store works").expect("a row");
        assert_eq!(stored.row.malformed, None, "{}", event.id());
        assert_eq!(all_of(&stored.event), all_of(event));
    }
}

async fn write(db: &Db, writer: &Writer, events: &[Event], batch: bool) {
    let mut tx = writer.begin(&db.pool).await.expect("a transaction");
    match batch {
        true => assert_eq!(tx.write_all(events.to_vec()).await.expect("written").len(), events.len()),
        false => {
            for event in events {
                tx.write(event.clone()).await.expect("written");
            }
        }
    }
    tx.commit().await.expect("committed");
}

/// Both inserts write the same columns.
pub(crate) async fn single_and_batch_inserts_come_back_byte_for_byte_and_write_the_same_row() {
    let db = Db::new().await;
    let (writer, events) = (db.plain_writer(), odd_events());
    let mut tables = Vec::new();
    for batch in [false, true] {
        db.execute("DELETE FROM outbox_event").await;
        write(&db, &writer, &events, batch).await;
        assert_round_trip(&db, &events).await;
        tables.push(db.rows_without_times().await);
    }
    assert_eq!(tables[0].len(), events.len());
    assert_eq!(tables[0], tables[1]);
    db.close().await;
}

pub(crate) async fn text_stays_readable_and_binary_stays_binary() {
    let db = Db::new().await;
    write(&db, &db.plain_writer(), &odd_events(), true).await;
    let kinds = [
        ("spaces", "text"),
        ("binary", "blob"),
        ("empty", "blob"),
        ("nul-in-text", "blob"),
        ("untyped-nul", "blob"),
    ];
    for (id, kind) in kinds {
        let sql = format!("SELECT {PAYLOAD_KIND_SQL} FROM outbox_event WHERE event_id = '{id}'");
        assert_eq!(db.text(&sql).await.as_deref(), Some(kind), "{id}");
    }
    db.close().await;
}

pub(crate) async fn thousand_events_in_one_call_arrive_unchanged() {
    let db = Db::new().await;
    let recorder = Recorder::new();
    let outbox = db.engine(&recorder).workers(16).start().unwrap();
    let writer = Writer::new(&db.store, &outbox);
    let event_no = |n: usize| {
        let builder = Event::builder("Tested").id(format!("event-{n}")).header("n", n.to_string());
        let builder = builder.aggregate("Order", format!("№{n}"));
        match n % 3 {
            0 => builder.json_text(format!("{{\"n\": {n}, \"text\": \"\\u0000 é 😀\"}}")),
            1 => builder.bytes("application/octet-stream", n.to_le_bytes().to_vec()),
            _ => builder.bytes("text/plain", format!("nul \0 {n}").into_bytes()),
        }
        .build()
        .unwrap()
    };
    let events: Vec<Event> = (0..1000).map(event_no).collect();
    let mut tx = db.pool.begin().await.unwrap();
    let receipt = writer.insert_all(&mut tx, events.clone()).await.unwrap();
    assert_eq!(receipt.ids().count(), 1000);
    tx.commit().await.unwrap();
    outbox.committed(receipt);
    within_timeout("all are delivered", recorder.wait_for(1000)).await;
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    assert_eq!(recorder.count(), 1000, "once each");
    let by_id: BTreeMap<EventId, Event> =
        recorder.deliveries().into_iter().map(|delivery| (delivery.id().clone(), delivery.event)).collect();
    for event in &events {
        assert_eq!(all_of(&by_id[event.id()]), all_of(event));
    }
    let order: Vec<String> = (0..1000).map(|n| format!("event-{n}")).collect();
    assert_eq!(db.ids().await, order, "in the order in which they were given");
    outbox.shutdown().await;
    db.close().await;
}

/// The hot path and a claim deliver the same bytes.
pub(crate) async fn cold_delivery_gives_the_bytes_that_were_written() {
    let db = Db::new().await;
    let events = odd_events();
    write(&db, &db.plain_writer(), &events, true).await;
    let recorder = Recorder::new();
    let outbox = db.start(&recorder);
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    let deliveries = recorder.deliveries();
    for event in events {
        let delivery = deliveries.iter().find(|delivery| delivery.id() == event.id()).expect("delivered");
        assert_eq!(all_of(delivery), all_of(&event));
    }
    outbox.shutdown().await;
    db.close().await;
}

pub(crate) async fn delay_counts_from_the_insert_by_the_clock_of_the_store() {
    let db = Db::new().await;
    let delayed = |id: &str| {
        let long_ago = Timestamp::from_micros(1_000_000);
        let builder = Event::builder("Tested").id(id).json_text("{}").occurred_at(long_ago);
        builder.available_at(Timestamp::now() + Duration::from_secs(90)).build().unwrap()
    };
    let recorder = Recorder::new();
    let outbox = db.start(&recorder);
    write(&db, &Writer::new(&db.store, &outbox), &[delayed("single")], false).await;
    write(
        &db,
        &Writer::new(&db.store, &outbox),
        &[delayed("batch"), delayed("batch-2"), event("at-once")],
        true,
    )
    .await;
    let delayed = format!(
        "SELECT count(*) FROM outbox_event WHERE locked_by IS NULL AND available_at > {} AND available_at <= {}",
        plus_seconds_sql("inserted_at", 80),
        plus_seconds_sql("inserted_at", 90),
    );
    assert_eq!(db.int(&delayed).await, 3, "due later, not leased");
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    assert_eq!(delivered(&recorder), ["at-once"]);
    outbox.shutdown().await;
    db.close().await;
}

/// Values that a server cannot store, or that are too long for their column, are refused by the Writer: PostgreSQL
/// would abort the whole transaction.
pub(crate) async fn event_that_breaks_a_rule_is_refused_and_the_transaction_goes_on() {
    let db = Db::new().await;
    let good = || event("x").to_parts();
    let long = "x".repeat(200);
    let nul = || Some("a\0b".into());
    let mut headers = good().headers;
    headers.insert("a".to_owned(), "a\0b".to_owned());
    let bad = [
        EventParts { id: EventId::from("a\0b"), ..good() },
        EventParts { id: EventId::from(long.as_str()), ..good() },
        EventParts { event_type: "a\0b".into(), ..good() },
        EventParts { event_type: long.as_str().into(), ..good() },
        EventParts { aggregate_type: "a\0b".into(), ..good() },
        EventParts { aggregate_id: nul(), ..good() },
        EventParts { aggregate_id: Some(long.as_str().into()), ..good() },
        EventParts { tenant_id: nul(), ..good() },
        EventParts { topic: nul(), ..good() },
        EventParts { content_type: nul(), ..good() },
        EventParts { headers, ..good() },
        EventParts { payload: vec![b'1'; Limits::default().payload_bytes + 1].into(), ..good() },
    ];
    let mut tx = db.plain_writer().begin(&db.pool).await.unwrap();
    for (n, parts) in bad.into_iter().enumerate() {
        let bad = Event::from_parts(parts);
        let single = tx.write(bad.clone()).await;
        assert!(matches!(single, Err(WriteError::Event(_))), "{n}: {single:?}");
        let batch = tx.write_all(vec![event("beside"), bad]).await;
        assert!(matches!(batch, Err(WriteError::Event(_))), "{n}: {batch:?}");
    }
    tx.write(event("kept")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.ids().await, ["kept"]);
    db.close().await;
}

/// Renames, drops and refuses events.
struct Editor;

impl WriterHook for Editor {
    fn before_write(&self, events: Vec<Event>) -> Result<Vec<Event>, BoxError> {
        let edit = |event: Event| match event.id().as_str() {
            "refuse" => Some(Err("not this one".into())),
            "suppress" => None,
            "rename" => Some(Ok(Event::from_parts(EventParts { id: "renamed".into(), ..event.to_parts() }))),
            _ => Some(Ok(event)),
        };
        events.into_iter().filter_map(edit).collect()
    }
}

// S3-51..S3-58
pub(crate) async fn hook_before_a_write_may_change_leave_out_and_refuse_events() {
    let db = Db::new().await;
    let outbox = Outbox::builder(db.store.clone(), Routes::new()).writer_only().hook(Editor).build().unwrap();
    let writer = Writer::new(&db.store, &outbox);
    let mut tx = writer.begin(&db.pool).await.unwrap();
    assert_eq!(tx.write(event("suppress")).await.unwrap(), None);
    assert_eq!(tx.write(event("rename")).await.unwrap(), Some(EventId::from("renamed")));
    let ids = tx.write_all(events(&["a", "suppress", "b"])).await.unwrap();
    assert_eq!(ids, [EventId::from("a"), EventId::from("b")]);
    let refused = tx.write_all(events(&["c", "refuse"])).await;
    assert!(matches!(refused, Err(WriteError::Hook(_))), "{refused:?}");
    tx.commit().await.unwrap();
    assert_eq!(db.ids().await, ["renamed", "a", "b"]);
    let mut tx = db.pool.begin().await.unwrap();
    assert!(writer.insert(&mut tx, event("suppress")).await.unwrap().is_empty());
    tx.commit().await.unwrap();
    db.close().await;
}

pub(crate) fn whatever_may_be_written_comes_back(events: Vec<Event>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let db = Db::with_pool(1).await;
        let limits = Limits::default();
        let good: Vec<Event> =
            events.into_iter().filter(|event| limits.check(event.parts()).is_ok()).collect();
        write(&db, &db.plain_writer(), &good, true).await;
        assert_round_trip(&db, &good).await;
        db.close().await;
    });
}
