//! What is written to SQLite comes back byte for byte, through the insert of one event and through
//! the insert of many.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste::{Admin as _, Event, EventId, Limits, Recorder, Timestamp};
use proptest::prelude::*;

use crate::support::encoding_cases::*;
use crate::support::*;

async fn assert_round_trip(db: &Db, events: &[Event]) {
    for event in events {
        let stored = db.store.get(event.id()).await.expect("the store answers").expect("a row");
        assert_eq!(stored.row.malformed, None, "{}", event.id());
        assert_eq!(all_of(&stored.event), all_of(event));
    }
}

#[tokio::test]
async fn single_inserts_come_back_byte_for_byte() {
    let db = Db::new().await;
    let (writer, events) = (db.plain_writer(), odd_events());
    let mut tx = writer.begin(&db.pool).await.unwrap();
    for event in &events {
        tx.write(event.clone()).await.unwrap();
    }
    tx.commit().await.unwrap();
    assert_round_trip(&db, &events).await;
}

#[tokio::test]
async fn batch_comes_back_byte_for_byte() {
    let db = Db::new().await;
    let (writer, events) = (db.plain_writer(), odd_events());
    let mut tx = writer.begin(&db.pool).await.unwrap();
    tx.write_all(events.clone()).await.unwrap();
    tx.commit().await.unwrap();
    assert_round_trip(&db, &events).await;
}

/// Both inserts leave the same columns of the same types, so that nobody can tell them apart.
#[tokio::test]
async fn single_and_batch_inserts_write_the_same_row() {
    let db = Db::new().await;
    let (writer, events) = (db.plain_writer(), odd_events());
    let columns = "event_id, quote(event_type), quote(aggregate_type), quote(aggregate_id), quote(tenant_id), \
        quote(topic), quote(content_type), quote(schema_version), quote(headers), typeof(payload), hex(payload), \
        quote(created_at), typeof(available_at), typeof(inserted_at), quote(locked_by), quote(locked_at), \
        quote(lease_token)";
    let columns = format!("SELECT json_array({columns}) FROM outbox_event ORDER BY event_id");
    let mut tables: Vec<Vec<String>> = Vec::new();
    for batch in [false, true] {
        db.execute("DELETE FROM outbox_event").await;
        let mut tx = writer.begin(&db.pool).await.unwrap();
        match batch {
            true => assert_eq!(tx.write_all(events.clone()).await.unwrap().len(), events.len()),
            false => {
                for event in &events {
                    tx.write(event.clone()).await.unwrap();
                }
            }
        }
        tx.commit().await.unwrap();
        let rows = sqlx::query_scalar(sqlx::AssertSqlSafe(columns.as_str())).fetch_all(&db.pool).await;
        tables.push(rows.unwrap());
    }
    assert_eq!(tables[0].len(), events.len());
    assert_eq!(tables[0], tables[1]);
}

#[tokio::test]
async fn text_stays_readable_and_binary_stays_binary() {
    let db = Db::new().await;
    let mut tx = db.plain_writer().begin(&db.pool).await.unwrap();
    tx.write_all(odd_events()).await.unwrap();
    tx.commit().await.unwrap();
    for (id, kind) in [("spaces", "text"), ("binary", "blob"), ("empty", "blob"), ("untyped-nul", "blob")] {
        let sql = format!("SELECT typeof(payload) FROM outbox_event WHERE event_id = '{id}'");
        assert_eq!(db.text(&sql).await.as_deref(), Some(kind), "{id}");
    }
}

#[tokio::test]
async fn a_thousand_events_go_in_one_call_and_all_arrive_as_they_were() {
    let db = Db::new().await;
    let recorder = Recorder::new();
    let outbox = db.engine(&recorder).workers(16).start().unwrap();
    let writer = db.store.writer(&outbox);
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
}

/// The same bytes whether an event takes the short way or the long one.
#[tokio::test]
async fn cold_delivery_gives_the_bytes_that_were_written() {
    let db = Db::new().await;
    let events = odd_events();
    let mut tx = db.plain_writer().begin(&db.pool).await.unwrap();
    tx.write_all(events.clone()).await.unwrap();
    tx.commit().await.unwrap();
    let recorder = Recorder::new();
    let outbox = db.start(&recorder);
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    let deliveries = recorder.deliveries();
    for event in events {
        let delivery = deliveries.iter().find(|delivery| delivery.id() == event.id()).expect("delivered");
        assert_eq!(all_of(delivery), all_of(&event));
    }
}

#[tokio::test]
async fn delay_counts_from_the_insert_by_the_clock_of_the_store() {
    let db = Db::new().await;
    let writer = db.plain_writer();
    let delayed = |id: &str| {
        let long_ago = Timestamp::from_micros(1_000_000);
        let builder = Event::builder("Tested").id(id).json_text("{}").occurred_at(long_ago);
        builder.available_at(Timestamp::now() + Duration::from_secs(90)).build().unwrap()
    };
    let before = Timestamp::now();
    let mut tx = writer.begin(&db.pool).await.unwrap();
    tx.write(delayed("single")).await.unwrap();
    tx.write_all(vec![delayed("batch"), event("at-once")]).await.unwrap();
    tx.commit().await.unwrap();
    let after = Timestamp::now();
    for id in ["single", "batch", "at-once"] {
        let row = db.store.get(&EventId::from(id)).await.unwrap().unwrap().row;
        let delay = Duration::from_secs(if id == "at-once" { 0 } else { 90 });
        assert!(before + delay <= row.available_at && row.available_at <= after + delay, "{id}: {row:?}");
        assert_eq!(row.locked_by, None, "{id}");
    }
    let recorder = Recorder::new();
    let outbox = db.start(&recorder);
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    assert_eq!(delivered(&recorder), ["at-once"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    // S2-25
    #[test]
    fn whatever_may_be_written_comes_back(events in prop::collection::vec(any_event(), 1..6)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let db = Db::with_pool(1).await;
            let limits = Limits::default();
            let good: Vec<Event> =
                events.into_iter().filter(|event| limits.check(event.parts()).is_ok()).collect();
            let mut tx = db.plain_writer().begin(&db.pool).await.expect("a transaction");
            tx.write_all(good.clone()).await.expect("written");
            tx.commit().await.expect("committed");
            assert_round_trip(&db, &good).await;
        });
    }
}
