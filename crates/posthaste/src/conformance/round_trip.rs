//! Round trips: a Writer stores exactly what was written, one event or many.

#![allow(missing_docs, reason = "the name of a case is the claim that it proves")]

use super::WriterHarness;
use super::store_fixture::{HOUR, assert_same};
use super::writer_script::{OwnEnd, Step, commit, write_all};
use crate::event::Event;
use crate::time::Timestamp;

/// Events whose values are hard to store: every field set, and only the required ones.
fn samples() -> Vec<Event> {
    let builder = |event_type: &str| Event::builder(event_type);
    let full = builder("OrderPlaced")
        .aggregate("Order", "№ 17 🎟")
        .tenant_id("Ünïcode & Söhne")
        .topic("orders.v2")
        .schema_version(u32::MAX)
        .header("region", "eu")
        .header("note", "naïve “quotes” ' \" \\ % _ 🚀")
        .occurred_at(Timestamp::from_micros(1_700_000_000_123_456))
        .json_text("{ \"b\":1.50,\n\t\"a\" : 12345678901234567890123, \"c\":\"\\u0000'; --\" }");
    let before_1970 = builder("Old").occurred_at(Timestamp::from_micros(-3_600_000_001)).json_text("1");
    let far = builder("Far").occurred_at(Timestamp::from_micros(253_402_300_799_999_999)).json_text("1");
    let events = [
        builder("Plain").json_text("{}"),
        full,
        before_1970,
        far,
        builder("Binary").bytes("application/protobuf", (0..=255).rev().collect::<Vec<u8>>()),
        builder("Text").bytes("text/plain", "text with a type"),
        builder("Nul").bytes("text/plain", "a\0b"),
        builder("Empty").bytes("text/plain", ""),
    ];
    events.into_iter().map(|builder| builder.build().expect("a good event")).collect()
}

async fn assert_stored(h: &dyn WriterHarness, events: &[Event]) {
    for event in events {
        assert_same(&h.scene().row(event.id()).await.event, event);
    }
}

// S0-05, S0-07, S3-28, S3-48
pub async fn every_field_of_a_single_event_comes_back(h: &dyn WriterHarness) {
    let events = samples();
    let steps: Vec<Step> = events.iter().cloned().map(Step::Write).collect();
    h.run(commit(steps)).await.expect("the commit works");
    assert_stored(h, &events).await;
}

pub async fn every_field_of_a_batch_comes_back(h: &dyn WriterHarness) {
    let events = samples();
    h.run(commit([Step::WriteAll(events.clone())])).await.expect("the commit works");
    assert_stored(h, &events).await;
    let more = samples();
    let receipt = h.insert(more.clone(), OwnEnd::Commit).await.expect("the insert works");
    h.scene().outbox().committed(receipt);
    assert_stored(h, &more).await;
}

// S3-36, T11
pub async fn delayed_event_waits_for_its_time_by_the_stores_clock(h: &dyn WriterHarness) {
    let delayed = |id: &str| {
        let long_ago = Timestamp::from_micros(1_000_000_000_000_000);
        let builder = Event::builder("Delayed").id(id).occurred_at(long_ago);
        let builder = builder.available_at(Timestamp::now() + HOUR);
        builder.json_text("1").build().expect("a good event")
    };
    let events = [delayed("single"), delayed("batch-1"), delayed("batch-2")];
    let [single, first, second] = events.clone();
    let steps = [Step::Write(single), Step::WriteAll(vec![first, second]), write_all(&["now-1", "now-2"])];
    h.run(commit(steps)).await.expect("the commit works");
    assert_eq!(h.scene().delivered().await, ["now-1", "now-2"]);
    for event in &events {
        let row = h.scene().row(event.id()).await.row;
        let delay = row.available_at.since(row.inserted_at);
        assert!(delay <= HOUR && delay > HOUR / 2, "{}: {delay:?}", event.id());
        assert_eq!(row.locked_by, None, "{}", event.id());
    }
}

pub async fn thousand_events_in_one_write(h: &dyn WriterHarness) {
    let events: Vec<Event> = (0..1000).map(|n| Event::json("Many", &n).expect("a good event")).collect();
    let ids = h.run(commit([Step::WriteAll(events.clone())])).await.expect("the commit works");
    assert_eq!(ids.len(), 1000);
    assert_eq!(h.scene().stored().await.len(), 1000);
    assert_eq!(h.scene().delivered().await.len(), 1000);
    assert_stored(h, &events[990..]).await;
}
