//! INSERT: a row is read as it was written, and a row that was rolled back never existed.

#![allow(missing_docs, reason = "the name of each case states what it proves")]

use std::time::Duration;

use super::store_fixture::{
    HOUR, MICRO, MINUTE, SECOND, StoreFixture, assert_same, delayed, ids, plain, row,
};
use super::{Harness, TxEnd};
use crate::event::{Event, GLOBAL, Limits};
use crate::row::Status;
use crate::store::{LeaseToken, OnDone, Owner, Verdict};
use crate::time::Timestamp;
use crate::writer::NewLease;

/// Writes one event, reads it by a claim and as an operator, and compares.
async fn comes_back(h: &dyn Harness, event: Event) {
    let k = StoreFixture::new(h);
    k.insert(&[row(event.clone())]).await;
    let claimed = k.claim(k.now().await, 10).await;
    assert_eq!(claimed.events.len(), 1, "{claimed:?}");
    assert_same(&claimed.events[0].event, &event);
    let detail = k.admin.get(event.id()).await.expect("get works").expect("the row is there");
    assert_same(&detail.event, &event);
    assert_eq!(detail.row.payload_bytes, event.payload().len() as u64);
}

// S0-03, S3-55, S1-16
pub async fn committed_rows_can_be_claimed(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let written = k.many(3).await;
    assert_eq!(k.in_order(ids(&k.claim(k.now().await, 10).await)), k.in_order(written));
}

// S0-04, S4-15
pub async fn rolled_back_rows_do_not_exist(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let event = plain();
    h.insert(&[row(event.clone())], TxEnd::Rollback).await.expect("the insert works");
    assert!(k.find(event.id()).await.is_none());
    assert!(k.claim(k.now().await, 10).await.events.is_empty());
}

// T12
pub async fn rows_of_a_rolled_back_savepoint_do_not_exist(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    if k.lacks(h.capabilities().savepoints, "savepoints") {
        return;
    }
    let event = plain();
    h.insert(&[row(event.clone())], TxEnd::SavepointRolledBack).await.expect("the insert works");
    assert!(k.find(event.id()).await.is_none());
    assert!(k.claim(k.now().await, 10).await.events.is_empty());
}

pub async fn seqs_grow_with_each_insert(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    if k.lacks(h.capabilities().insertion_order, "insertion order") {
        return;
    }
    let mut seqs = k.insert(&[row(plain()), row(plain())]).await;
    seqs.extend(k.insert(&[row(plain())]).await);
    assert!(seqs.is_sorted() && seqs[0] > Some(0) && seqs[1] > seqs[0] && seqs[2] > seqs[1], "{seqs:?}");
}

// S1-17
pub async fn id_that_exists_is_not_inserted_again(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let first = Event::builder("First").id("same").json_text("1").build().expect("a good event");
    let second = Event::builder("Second").id("same").json_text("2").build().expect("a good event");
    assert!(k.insert(&[row(first.clone())]).await[0].is_some());
    let seqs = k.insert(&[row(second), row(plain())]).await;
    assert_eq!(seqs[0], None, "the id exists");
    assert!(seqs[1].is_some(), "the rest of the statement is inserted");
    let detail = k.admin.get(first.id()).await.expect("get works").expect("the row is there");
    assert_same(&detail.event, &first);
    assert_eq!(k.admin.stats().await.expect("stats work").new, 2);
}

pub async fn id_twice_in_one_insert_is_inserted_once(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let event = plain();
    let seqs = k.insert(&[row(event.clone()), row(event.clone())]).await;
    assert_eq!(seqs.iter().flatten().count(), 1, "{seqs:?}");
    assert_eq!(ids(&k.claim(k.now().await, 10).await), [event.id().clone()]);
}

pub async fn id_of_a_deleted_row_can_be_written_again(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let event = plain();
    let lease = k.hold(vec![event.clone()]).await.remove(0);
    let done = [super::store_fixture::outcome(&lease, Verdict::Done)];
    k.settle_all(None, &done, OnDone::Delete).await;
    assert!(k.insert(&[row(event.clone())]).await[0].is_some());
    assert_eq!(k.row(event.id()).await.status, Status::New);
}

pub async fn id_of_a_rolled_back_row_can_be_written_again(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let event = plain();
    h.insert(&[row(event.clone())], TxEnd::Rollback).await.expect("the insert works");
    assert!(k.insert(&[row(event.clone())]).await[0].is_some());
}

// S0-05, S0-07, S3-28, S3-48
pub async fn every_field_comes_back(h: &dyn Harness) {
    let event = Event::builder("OrderPlaced")
        .id("my-own-id")
        .aggregate("Order", "o-17")
        .tenant_id("acme")
        .topic("orders.v2")
        .schema_version(7)
        .header("region", "eu")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .occurred_at(Timestamp::from_micros(1_700_000_000_123_456))
        .json_text(r#"{"total": 42}"#)
        .build();
    comes_back(h, event.expect("a good event")).await;
}

// S3-33, S3-34
pub async fn absent_fields_come_back_absent(h: &dyn Harness) {
    let event = plain();
    assert_eq!((event.aggregate_type(), event.aggregate_id()), (GLOBAL, None));
    comes_back(h, event).await;
}

pub async fn binary_payload_comes_back_byte_for_byte(h: &dyn Harness) {
    let bytes: Vec<u8> = (0..=255).rev().cycle().take(1000).collect();
    comes_back(h, Event::bytes("Binary", "application/protobuf", bytes).expect("a good event")).await;
}

// S0-06, S0-07: no reformatting, no sorting of keys, no lost precision.
pub async fn json_payload_comes_back_byte_for_byte(h: &dyn Harness) {
    let text = "{ \"b\":1.50,\n\t\"a\" : 12345678901234567890123, \"a\":\"\\u0000\\ud83d\\ude00\" }";
    comes_back(h, Event::builder("Json").json_text(text).build().expect("a good event")).await;
}

pub async fn empty_payload_comes_back_empty(h: &dyn Harness) {
    comes_back(h, Event::bytes("Empty", "text/plain", "").expect("a good event")).await;
}

// S3-37
pub async fn payload_of_one_mebibyte_comes_back(h: &dyn Harness) {
    let text = format!("\"{}\"", "x".repeat(Limits::PAYLOAD_BYTES - 2));
    comes_back(h, Event::builder("Large").json_text(text).build().expect("a good event")).await;
}

pub async fn unicode_comes_back_in_every_field(h: &dyn Harness) {
    let event = Event::builder("Größe✓")
        .aggregate("注文", "№ 17 🎟")
        .tenant_id("Ünïcode & Söhne")
        .topic("тема")
        .header("note", "naïve “quotes” ' \" \\ % _ 🚀")
        .json_text("\"日本語 🎉 '; DROP TABLE outbox_event; --\"")
        .build();
    comes_back(h, event.expect("a good event")).await;
}

// S3-28: the columns are as wide as the limits say, in characters.
pub async fn longest_names_fit(h: &dyn Harness) {
    let event = Event::builder("ü".repeat(Limits::EVENT_TYPE))
        .id("x".repeat(36))
        .aggregate("ü".repeat(Limits::AGGREGATE_TYPE), "ü".repeat(Limits::AGGREGATE_ID))
        .tenant_id("ü".repeat(Limits::TENANT_ID))
        .topic("ü".repeat(Limits::TOPIC))
        .bytes("ü".repeat(Limits::CONTENT_TYPE), "payload")
        .build();
    comes_back(h, event.expect("a good event")).await;
}

pub async fn sixty_four_headers_come_back(h: &dyn Harness) {
    let headers = (0..Limits::HEADERS).map(|n| (format!("name-{n}"), "v".repeat(200)));
    comes_back(h, Event::builder("Headers").headers(headers).json_text("1").build().expect("a good event"))
        .await;
}

// S0-03, S0-05, S2-22, S3-62
pub async fn new_row_starts_from_zero(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let before = h.now().await;
    let id = k.one().await;
    let after = h.now().await;
    let row = k.row(&id).await;
    assert_eq!(row.status, Status::New);
    assert_eq!((row.attempts, row.deferrals, row.lost_leases, row.replays), (0, 0, 0, 0));
    assert_eq!((row.parked, row.last_error, row.done_at), (None, None, None));
    assert_eq!((row.locked_by, row.locked_at, row.malformed), (None, None, None));
    assert!(row.progress.is_empty());
    assert!((before..=after).contains(&row.inserted_at), "{before} {} {after}", row.inserted_at);
    assert!((before..=after).contains(&row.available_at), "{before} {} {after}", row.available_at);
}

// T11, S3-36
pub async fn delay_counts_by_the_stores_clock(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let event = Event::builder("Delayed")
        .occurred_at(Timestamp::from_micros(1_000_000_000_000_000))
        .json_text("1")
        .build()
        .expect("a good event");
    let before = h.now().await;
    k.insert(&[row(event.clone()).with_delay(Some(MINUTE))]).await;
    let after = h.now().await;
    let row = k.row(event.id()).await;
    assert!((before + MINUTE..=after + MINUTE).contains(&row.available_at), "{}", row.available_at);
    assert_eq!(row.created_at, event.occurred_at());
}

// T11
pub async fn producers_clock_in_the_future_delays_nothing(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let tomorrow = h.now().await + 24 * HOUR;
    let event = Event::builder("Early").occurred_at(tomorrow).json_text("1").build().expect("a good event");
    k.insert(&[row(event.clone())]).await;
    assert_eq!(ids(&k.claim(k.now().await, 10).await), [event.id().clone()]);
}

// S3-36, S3-92
pub async fn delayed_row_is_not_claimed_before_its_time(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let delayed = delayed(MINUTE);
    k.insert(std::slice::from_ref(&delayed)).await;
    let due = k.row(delayed.event.id()).await.available_at;
    assert!(k.claim(due - MICRO, 10).await.events.is_empty());
    assert_eq!(k.claim(due, 10).await.events.len(), 1);
}

pub async fn longest_delay_is_no_error(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.insert(&[delayed(Duration::MAX)]).await;
    let in_fifty_years = k.now().await + 50 * 365 * 24 * HOUR;
    assert!(k.claim(in_fifty_years, 10).await.events.is_empty());
}

// T1
pub async fn born_leased_row_is_held_until_its_lease_ends(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let lease = k.held(1).await.remove(0);
    let row = k.row(&lease.id).await;
    assert_eq!(row.locked_by.as_deref(), Some(k.owner.as_str()));
    assert!(row.locked_at.is_some());
    let end = row.lease_until.expect("a lease has an end");
    assert!(k.claim(end - MICRO, 10).await.events.is_empty());
    let taken = k.take_as_a_stranger(end).await;
    assert_ne!(taken.token, lease.token);
    assert_eq!(k.row(&lease.id).await.lost_leases, 1, "its owner never came back");
}

// T1
pub async fn born_leased_row_counts_its_lease_from_the_statement(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let owner = Owner::from("writer");
    let lease = NewLease::new(owner, LeaseToken::random(), 10 * SECOND);
    let new = row(plain()).with_lease(Some(lease));
    let before = h.now().await;
    k.insert(std::slice::from_ref(&new)).await;
    let after = h.now().await;
    let end = k.row(new.event.id()).await.lease_until.expect("a lease has an end");
    assert!((before + 10 * SECOND..=after + 10 * SECOND).contains(&end), "{before} {end} {after}");
}

pub async fn thousand_rows_in_one_insert(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let written = k.many(1000).await;
    assert_eq!(k.admin.stats().await.expect("stats work").new, 1000);
    assert_eq!(
        super::store_fixture::sorted(ids(&k.claim(k.now().await, 2000).await)),
        super::store_fixture::sorted(written)
    );
}

pub async fn inserting_nothing_is_no_error(h: &dyn Harness) {
    assert!(StoreFixture::new(h).insert(&[]).await.is_empty());
}
