//! Foreign tables: outbox tables of other programs, relayed as they are. The module of each server has their DDL.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use posthaste::admin::{BacklogBy, Filter, PageRequest, Replay, Tolerance};
use posthaste::store::{
    Backoff, ClaimOrder, Claimed, Lease, Owner, Park, Purge, Purgeable, Release, Renew, Settle, Settled,
    Settlement, Store as _, Unpark, Verdict,
};
use posthaste::{
    Admin as _, Delivery, EventId, Outbox, Outcome, Recorder, RetryPolicy, Route, Routes, Status, StoreError,
};
use posthaste_sqlx::foreign::{Field, State};
use posthaste_sqlx::{ForeignTableStore, Layout};

use crate::foreign::builder;
use crate::foreign::{
    DEBEZIUM_SQL, ODD_ID, ODD_TABLE_SQL, ORDER_SERVICE_SQL, OUTBOX_RECORD_SQL, STAMPED_TABLE_SQL,
};
use crate::support::*;

/// The tests of this file.
macro_rules! foreign_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::foreign:
            order_service_row_goes_from_new_to_sent,
            order_service_row_is_failed_after_five_attempts_and_replayed,
            order_service_row_that_is_rejected_is_failed_immediately,
            outbox_record_counts_attempts_in_its_table,
            outbox_record_is_archived_by_its_status,
            debezium_row_is_deleted_when_it_was_delivered,
            debezium_row_without_a_route_stays,
            rows_without_a_status_get_the_time_of_their_delivery,
            columns_of_all_types_are_read_and_written,
            second_store_stands_by_and_takes_over,
            lost_session_voids_leases_and_keeps_deliveries,
            terminal_rows_are_never_changed,
            error_that_is_too_long_for_its_column_is_cut_and_the_attempt_counts,
            attempts_that_are_null_count_as_zero,
            concurrent_claims_share_no_row,
            waiting_rows_do_not_hide_rows_behind_them,
            rolled_back_row_is_never_delivered,
            operators_see_and_change_rows,
            operations_without_a_column_are_refused,
        );
    };
}
pub(crate) use foreign_tests;

pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(30);

pub(crate) fn uuid(n: u32) -> String {
    format!("00000000-0000-7000-8000-{n:012}")
}

/// A layout from the names of its columns and values.
pub(crate) fn described(table: &str, columns: &[(Field, &str)], values: &[(State, &str)]) -> Layout {
    let layout = Layout::new(table.parse().unwrap());
    let layout =
        columns.iter().fold(layout, |layout, (field, name)| layout.column(*field, name.parse().unwrap()));
    values.iter().fold(layout, |layout, (state, value)| layout.value(*state, value.parse().unwrap()))
}

async fn stamped_table(db: &Db) -> Layout {
    db.execute(STAMPED_TABLE_SQL).await;
    let columns = [
        (Field::Id, "id"),
        (Field::EventType, "kind"),
        (Field::Payload, "body"),
        (Field::SentAt, "processed_at"),
    ];
    described("messages", &columns, &[])
}

pub(crate) async fn odd_table(db: &Db) -> Layout {
    db.execute(ODD_TABLE_SQL).await;
    let columns = [
        (Field::Id, "messageId"),
        (Field::EventType, "eventType"),
        (Field::Tenant, "tenant"),
        (Field::Headers, "head"),
        (Field::Payload, "content"),
        (Field::Status, "phase"),
    ];
    let values = [(State::Pending, "waiting"), (State::Sent, "gone out"), (State::Failed, "lost")];
    described("Order", &columns, &values)
}

pub(crate) async fn open(db: &Db, layout: Layout) -> ForeignTableStore {
    builder(db, layout).connect().await.expect("the table opens")
}

/// Inserts the rows `from..to` of the order service, one second apart.
pub(crate) async fn write_orders(db: &Db, from: u32, to: u32) {
    let rows = (from..to).map(|n| {
        let (id, second) = (uuid(n), n % 60);
        format!("('{id}', 'Order', '{}', 'OrderCreated', '{{\"n\": {n}}}', 'NEW', '2026-01-01 00:00:{second:02}')", uuid(7))
    });
    let rows: Vec<String> = rows.collect();
    db.execute(&format!(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, status, created_at) VALUES {}",
        rows.join(", ")
    ))
    .await;
}

pub(crate) async fn write_records(db: &Db, count: u32) {
    for n in 0..count {
        db.execute(&format!(
            "INSERT INTO outbox_record (aggregate_id, event_id, status, topic, payload, schema_version, retries, \
             created_at) VALUES ('{}', '{}', 'PENDING', 'orders', '{{\"n\": {n}}}', 3, 0, '2026-01-01 00:00:{n:02}')",
            uuid(7),
            uuid(n)
        ))
        .await;
    }
}

pub(crate) async fn orders() -> (Db, ForeignTableStore) {
    let db = Db::new().await;
    db.execute(ORDER_SERVICE_SQL).await;
    let store = open(&db, Layout::order_service()).await;
    (db, store)
}

pub(crate) async fn records() -> (Db, ForeignTableStore) {
    let db = Db::new().await;
    db.execute(OUTBOX_RECORD_SQL).await;
    let store = open(&db, Layout::outbox_record()).await;
    (db, store)
}

/// The columns of a row, separated by spaces.
pub(crate) async fn row(db: &Db, table: &str, columns: &str, condition: &str) -> String {
    db.text(&format!("SELECT concat_ws(' ', {columns}) FROM {table} WHERE {condition}"))
        .await
        .unwrap_or_default()
}

pub(crate) async fn order(db: &Db, n: u32) -> String {
    let columns =
        "status, coalesce(error_message, '-'), CASE WHEN sent_at IS NULL THEN 'unsent' ELSE 'stamped' END";
    row(db, "outbox", columns, &format!("id = '{}'", uuid(n))).await
}

pub(crate) async fn record(db: &Db, n: u32) -> String {
    let columns = "status, retries, coalesce(last_error, '-')";
    row(db, "outbox_record", columns, &format!("event_id = '{}'", uuid(n))).await
}

/// An engine with five attempts.
pub(crate) fn engine(store: &ForeignTableStore, destination: impl posthaste::Destination) -> Outbox {
    let retry = RetryPolicy::default()
        .with_max_attempts(5)
        .with_base_delay(Duration::from_millis(100))
        .with_max_delay(Duration::from_millis(1600))
        .without_jitter();
    let routes = Routes::new().add(Route::fallback().deliver_to(destination));
    let outbox = Outbox::builder(store.clone(), routes).single_node().retry(retry);
    outbox.poll_interval(Duration::from_millis(20)).start().expect("a good configuration")
}

pub(crate) async fn claim(store: &ForeignTableStore, limit: usize) -> Claimed {
    try_claim(store, limit, ClaimOrder::Due).await.expect("a claim")
}

pub(crate) async fn try_claim(
    store: &ForeignTableStore,
    limit: usize,
    order: ClaimOrder,
) -> Result<Claimed, posthaste::StoreError> {
    let owner = Owner::from("tester");
    store.claim(&claim_for(&owner).with_limit(limit).with_order(order)).await
}

pub(crate) async fn settle(store: &ForeignTableStore, claimed: &Claimed, verdict: Verdict) -> Vec<Settled> {
    let settlement = |event: &posthaste::store::Leased| Settlement::new(event.lease.clone(), verdict.clone());
    let settlements: Vec<Settlement> = claimed.events.iter().map(settlement).collect();
    let owner = Owner::from("tester");
    let settle = Settle::new(&owner, &settlements);
    store.settle(&settle).await.expect("a settlement")
}

pub(crate) fn failed(max_attempts: u32, delay: Duration) -> Verdict {
    Verdict::Failed { error: "broker said no".to_owned(), backoff: Backoff::new(max_attempts, [delay]) }
}

pub(crate) fn leases_of(claimed: &Claimed) -> Vec<Lease> {
    claimed.events.iter().map(|event| event.lease.clone()).collect()
}

pub(crate) async fn close(store: &ForeignTableStore, db: &Db) {
    store.close().await;
    db.close().await;
}

pub(crate) fn ids_of(claimed: &Claimed) -> Vec<String> {
    claimed.events.iter().map(|event| event.event.id().to_string()).collect()
}

// S4-02, S4-04, S4-07, S4-11
pub(crate) async fn order_service_row_goes_from_new_to_sent() {
    let (db, store) = orders().await;
    write_orders(&db, 0, 3).await;
    let recorder = Recorder::new();
    let outbox = engine(&store, recorder.clone());
    within_timeout("delivery", outbox.idle()).await.unwrap();
    outbox.shutdown().await;
    assert_eq!(recorder.ids().len(), 3);
    let first = &recorder.deliveries()[0];
    assert_eq!(first.id().as_str(), uuid(0), "the oldest first");
    assert_eq!((first.aggregate_type(), first.event_type()), ("Order", "OrderCreated"));
    assert_eq!((first.aggregate_id(), &first.payload()[..]), (Some(&*uuid(7)), &br#"{"n": 0}"#[..]));
    for n in 0..3 {
        assert_eq!(order(&db, n).await, "SENT - stamped");
    }
    close(&store, &db).await;
}

// S4-11, S4-12, S4-13, S4-14
pub(crate) async fn order_service_row_is_failed_after_five_attempts_and_replayed() {
    let (db, store) = orders().await;
    write_orders(&db, 0, 1).await;
    let attempts: Arc<std::sync::Mutex<Vec<Instant>>> = Arc::default();
    let (seen, broken) = (Arc::clone(&attempts), Arc::new(AtomicBool::new(true)));
    let is_broken = Arc::clone(&broken);
    let handler = posthaste::handler(move |_: Delivery| {
        seen.lock().unwrap().push(Instant::now());
        let broken = is_broken.load(Ordering::Acquire);
        async move { if broken { Err("broker said no") } else { Ok(()) } }
    });
    let outbox = engine(&store, handler);
    wait_until("the row is given up", async || order(&db, 0).await.starts_with("FAILED")).await;
    assert_eq!(order(&db, 0).await, "FAILED broker said no unsent");
    let gaps: Vec<Duration> = attempts.lock().unwrap().windows(2).map(|pair| pair[1] - pair[0]).collect();
    let least = [100, 200, 400, 800].map(Duration::from_millis);
    assert_eq!(gaps.len(), 4, "five attempts, no more: {gaps:?}");
    assert!(gaps.iter().zip(least).all(|(gap, least)| *gap >= least), "{gaps:?}");

    broken.store(false, Ordering::Release);
    assert!(store.replay(&EventId::from(uuid(0)), &Replay::by("ann")).await.unwrap());
    wait_until("the row is sent", async || order(&db, 0).await == "SENT - stamped").await;
    outbox.shutdown().await;
    assert_eq!(attempts.lock().unwrap().len(), 6);
    close(&store, &db).await;
}

pub(crate) async fn order_service_row_that_is_rejected_is_failed_immediately() {
    let (db, store) = orders().await;
    write_orders(&db, 0, 1).await;
    let recorder = Recorder::with(|_| Outcome::Dead("not ours".to_owned()));
    let outbox = engine(&store, recorder.clone());
    wait_until("the row is given up", async || order(&db, 0).await == "FAILED not ours unsent").await;
    outbox.shutdown().await;
    assert_eq!(recorder.ids().len(), 1);
    close(&store, &db).await;
}

// S0-11, S0-17, S0-18, S0-27
pub(crate) async fn outbox_record_counts_attempts_in_its_table() {
    let (db, store) = records().await;
    write_records(&db, 2).await;
    let claimed = claim(&store, 1).await;
    let event = &claimed.events[0].event;
    assert_eq!(
        (event.topic(), event.schema_version(), event.event_type()),
        (Some("orders"), Some(3), "orders")
    );
    let delay = Duration::ZERO;
    assert_eq!(settle(&store, &claimed, failed(3, delay)).await, [Settled::Retry { attempts: 1, delay }]);
    assert_eq!(record(&db, 0).await, "PENDING 1 broker said no");

    // Another process, after a crash for example, continues with the count in the table.
    store.close().await;
    db.execute(&format!("UPDATE outbox_record SET retries = 2 WHERE event_id = '{}'", uuid(0))).await;
    let store = open(&db, Layout::outbox_record()).await;
    let claimed = claim(&store, 1).await;
    assert_eq!(claimed.events[0].attempts, 2);
    assert_eq!(settle(&store, &claimed, failed(3, delay)).await, [Settled::Dead { attempts: 3 }]);
    assert_eq!(record(&db, 0).await, "FAILED 3 broker said no");

    let replay = Replay::by("ann");
    assert_eq!(store.replay_all(&Filter::dead(), 10, &replay).await.unwrap(), 1);
    assert_eq!(record(&db, 0).await, "PENDING 0 -");
    let claimed = claim(&store, 10).await;
    assert_eq!(settle(&store, &claimed, Verdict::Done).await, [Settled::Done, Settled::Done]);
    assert_eq!(record(&db, 0).await, "SENT 0 -");
    close(&store, &db).await;
}

pub(crate) async fn outbox_record_is_archived_by_its_status() {
    let (db, store) = records().await;
    write_records(&db, 1).await;
    let claimed = claim(&store, 1).await;
    settle(&store, &claimed, Verdict::Done).await;
    let purge = |what, archive| Purge::new(what, Duration::ZERO, 10).with_archive(archive);
    assert_eq!(posthaste::Admin::purge(&store, &purge(Purgeable::Done, true), "ann").await.unwrap(), 1);
    assert_eq!(record(&db, 0).await, "ARCHIVED 0 -");
    assert_eq!(store.stats().await.unwrap().archived, 1);
    assert_eq!(posthaste::Admin::purge(&store, &purge(Purgeable::Archived, false), "ann").await.unwrap(), 1);
    assert_eq!(db.int("SELECT count(*) FROM outbox_record").await, 0);
    close(&store, &db).await;
}

pub(crate) async fn debezium() -> (Db, ForeignTableStore) {
    let db = Db::new().await;
    db.execute(DEBEZIUM_SQL).await;
    for n in 0..3 {
        db.execute(&format!(
            "INSERT INTO outboxevent (id, aggregatetype, aggregateid, type, payload) \
             VALUES ('{}', 'order', 'o-{n}', 'OrderCreated', '{{\"n\": {n}}}')",
            uuid(n)
        ))
        .await;
    }
    let store = open(&db, Layout::debezium()).await;
    (db, store)
}

pub(crate) async fn debezium_row_is_deleted_when_it_was_delivered() {
    let (db, store) = debezium().await;
    let recorder = Recorder::new();
    let outbox = engine(&store, recorder.clone());
    within_timeout("delivery", outbox.idle()).await.unwrap();
    outbox.shutdown().await;
    assert_eq!(delivered(&recorder), [uuid(0), uuid(1), uuid(2)]);
    let first = &recorder.deliveries()[0];
    assert_eq!((first.aggregate_type(), first.event_type()), ("order", "OrderCreated"));
    assert_eq!(first.aggregate_id(), Some("o-0"));
    assert_eq!(db.int("SELECT count(*) FROM outboxevent").await, 0);
    close(&store, &db).await;
}

pub(crate) async fn debezium_row_without_a_route_stays() {
    let (db, store) = debezium().await;
    let claimed = claim(&store, 1).await;
    let got = settle(&store, &claimed, Verdict::Dead { reason: "no".to_owned() }).await;
    assert!(matches!(got[..], [Settled::Waiting { .. }]), "{got:?}");
    let claimed = claim(&store, 1).await;
    let got = settle(&store, &claimed, failed(1, Duration::ZERO)).await;
    assert!(matches!(got[..], [Settled::Retry { attempts: 1, delay }] if delay > LEASE_DURATION), "{got:?}");
    assert_eq!(ids_of(&claim(&store, 9).await), [uuid(2)], "the others wait for their next attempt");
    assert_eq!(db.int("SELECT count(*) FROM outboxevent").await, 3);
    assert_eq!(store.replay_all(&Filter::dead(), 9, &Replay::by("ann")).await.unwrap(), 0);
    close(&store, &db).await;
}

pub(crate) async fn rows_without_a_status_get_the_time_of_their_delivery() {
    let db = Db::new().await;
    let layout = stamped_table(&db).await;
    let store = open(&db, layout).await;
    let claimed = claim(&store, 10).await;
    assert_eq!(ids_of(&claimed), ["1", "2"]);
    assert_eq!(settle(&store, &claimed, Verdict::Done).await, [Settled::Done, Settled::Done]);
    assert_eq!(db.int("SELECT count(*) FROM messages WHERE processed_at IS NULL").await, 0);
    assert_eq!((claim(&store, 10).await.events.len(), store.stats().await.unwrap().done), (0, 3));
    close(&store, &db).await;
}

/// Bytes, enumerations, numbers, and names that need quotes.
pub(crate) async fn columns_of_all_types_are_read_and_written() {
    let db = Db::new().await;
    let (layout, id) = (odd_table(&db).await, ODD_ID);
    let store = open(&db, layout).await;
    let claimed = claim(&store, 10).await;
    let event = &claimed.events[0].event;
    assert_eq!(event.id().as_str(), id);
    assert_eq!(&event.payload()[..], [0, 159, 146, 150]);
    assert_eq!(
        (event.tenant_id(), event.headers().get("region").map(String::as_str)),
        (Some("acme"), Some("eu"))
    );
    assert_eq!(settle(&store, &claimed, Verdict::Done).await, [Settled::Done]);
    let detail = store.get(&EventId::from(id)).await.unwrap().expect("the row is there");
    assert_eq!((detail.row.status, detail.row.payload_bytes), (Status::Done, 4));
    assert!(store.get(&EventId::from("no such")).await.unwrap().is_none());
    close(&store, &db).await;
}

pub(crate) async fn second_store_stands_by_and_takes_over() {
    let (db, first) = orders().await;
    let second = open(&db, Layout::order_service()).await;
    write_orders(&db, 0, 3).await;
    assert_eq!(claim(&first, 1).await.events.len(), 1);
    for _ in 0..3 {
        assert_eq!(claim(&second, 10).await.events.len(), 0, "one at a time");
    }
    first.close().await;
    wait_until("the second one has the lock", async || claim(&second, 10).await.events.len() == 3).await;
    assert!(try_claim(&first, 1, ClaimOrder::Due).await.is_err(), "a store that was closed takes no lock");
    second.close().await;
    db.close().await;
}

// S0-13
pub(crate) async fn lost_session_voids_leases_and_keeps_deliveries() {
    let (db, first) = records().await;
    let second = open(&db, Layout::outbox_record()).await;
    write_records(&db, 2).await;
    let claimed = claim(&first, 2).await;
    assert_eq!(claimed.events.len(), 2);
    assert!(db.end_sessions().await > 0);
    wait_until("the second one has the lock", async || claim(&second, 2).await.events.len() == 2).await;

    let owner = Owner::from("tester");
    let leases = leases_of(&claimed);
    let renew = Renew::new(&owner, &leases, LEASE_DURATION);
    // The first call may fail because its connection was ended.
    let renewed = match first.renew(&renew).await {
        Ok(renewed) => renewed,
        Err(_) => first.renew(&renew).await.unwrap(),
    };
    assert!(renewed.is_empty(), "nothing is held without the lock");
    let mut one = Claimed::default();
    one.events = claimed.events[..1].to_vec();
    assert_eq!(settle(&first, &one, failed(1, Duration::ZERO)).await, [Settled::Stale]);
    assert_eq!(record(&db, 0).await, "PENDING 0 -", "a process without the lock gives up no row");
    assert_eq!(
        settle(&first, &one, Verdict::Done).await,
        [Settled::Done],
        "what was delivered was delivered"
    );
    assert_eq!(record(&db, 0).await, "SENT 0 -");
    first.close().await;
    second.close().await;
    db.close().await;
}

// S0-12, S0-14, S0-19, S0-22
pub(crate) async fn terminal_rows_are_never_changed() {
    for status in ["SENT", "FAILED", "ARCHIVED"] {
        let (db, store) = records().await;
        write_records(&db, 2).await;
        let claimed = claim(&store, 2).await;
        db.execute(&format!("UPDATE outbox_record SET status = '{status}', last_error = 'another'")).await;
        let before = record(&db, 0).await;
        let one = |n: usize| {
            let mut one = Claimed::default();
            one.events = claimed.events[n..=n].to_vec();
            one
        };
        assert_eq!(settle(&store, &one(0), failed(1, Duration::ZERO)).await, [Settled::Stale]);
        assert_eq!(settle(&store, &one(1), Verdict::Done).await, [Settled::Stale]);
        assert_eq!((record(&db, 0).await, record(&db, 1).await), (before.clone(), before));
        store.close().await;
        db.close().await;
    }
}

pub(crate) async fn error_that_is_too_long_for_its_column_is_cut_and_the_attempt_counts() {
    let (db, store) = records().await;
    write_records(&db, 1).await;
    let claimed = claim(&store, 1).await;
    let (error, backoff) = ("ä".repeat(4000), Backoff::new(9, [Duration::ZERO]));
    let settled = settle(&store, &claimed, Verdict::Failed { error, backoff }).await;
    assert_eq!(settled, [Settled::Retry { attempts: 1, delay: Duration::ZERO }]);
    assert_eq!(db.int("SELECT char_length(last_error) FROM outbox_record").await, 1000);
    close(&store, &db).await;
}

pub(crate) async fn attempts_that_are_null_count_as_zero() {
    let (db, store) = records().await;
    write_records(&db, 1).await;
    db.execute("UPDATE outbox_record SET retries = NULL").await;
    for attempts in 1..=2 {
        let claimed = claim(&store, 1).await;
        let settled = settle(&store, &claimed, failed(3, Duration::ZERO)).await;
        assert_eq!(settled, [Settled::Retry { attempts, delay: Duration::ZERO }]);
    }
    let claimed = claim(&store, 1).await;
    assert_eq!(settle(&store, &claimed, failed(3, Duration::ZERO)).await, [Settled::Dead { attempts: 3 }]);
    close(&store, &db).await;
}

/// This happens when an engine of a relay is replaced and both claim for a moment.
pub(crate) async fn concurrent_claims_share_no_row() {
    let (db, store) = orders().await;
    write_orders(&db, 0, 40).await;
    let claims = (0..8).map(|_| claim(&store, 10));
    let mut ids: Vec<String> = futures_util::future::join_all(claims).await.iter().flat_map(ids_of).collect();
    // A claim may find that concurrent claims have leased all the rows it read. The next claim finds the rest.
    ids.extend(ids_of(&claim(&store, 40).await));
    ids.sort();
    assert_eq!(ids, (0..40).map(uuid).collect::<Vec<_>>());
    close(&store, &db).await;
}

pub(crate) async fn waiting_rows_do_not_hide_rows_behind_them() {
    let (db, store) = orders().await;
    write_orders(&db, 0, 20).await;
    let owner = Owner::from("tester");
    let parked = claim(&store, 10).await;
    let leases = leases_of(&parked);
    let park = Park::new(&owner, &leases, "mail", LEASE_DURATION);
    assert_eq!(store.park(&park).await.unwrap(), 10);
    assert_eq!(store.park(&park).await.unwrap(), 0, "they are no longer held");
    let next = claim(&store, 4).await;
    assert_eq!(ids_of(&next), (10..14).map(uuid).collect::<Vec<_>>());
    let leases = leases_of(&next);
    let release = Release::new(&owner, &leases);
    assert_eq!(store.release(&release).await.unwrap(), 4);
    assert_eq!(store.unpark(&Unpark::new("mail", 3)).await.unwrap(), 3);
    assert_eq!(ids_of(&claim(&store, 5).await), [0, 1, 2, 10, 11].map(uuid));
    close(&store, &db).await;
}

// S4-15
pub(crate) async fn rolled_back_row_is_never_delivered() {
    let (db, store) = orders().await;
    let mut tx = db.pool.begin().await.unwrap();
    let insert = format!(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, status, created_at) \
         VALUES ('{}', 'Order', '{}', 'OrderCreated', '{{}}', 'NEW', '2026-01-01 00:00:00')",
        uuid(0),
        uuid(7)
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(insert)).execute(&mut *tx).await.unwrap();
    assert_eq!(claim(&store, 10).await.events.len(), 0, "not before the commit");
    tx.rollback().await.unwrap();
    write_orders(&db, 1, 2).await;
    assert_eq!(ids_of(&claim(&store, 10).await), [uuid(1)]);
    close(&store, &db).await;
}

pub(crate) async fn operators_see_and_change_rows() {
    let (db, store) = orders().await;
    write_orders(&db, 0, 7).await;
    db.execute("UPDATE outbox SET status = 'FAILED', error_message = 'broker said 100%' WHERE created_at < '2026-01-01 00:00:03'")
        .await;
    db.execute(
        "UPDATE outbox SET status = 'SENT', sent_at = created_at WHERE created_at = '2026-01-01 00:00:03'",
    )
    .await;
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.new, stats.due, stats.dead, stats.done), (3, 3, 3, 1));
    assert!(stats.oldest_pending.is_some_and(|age| age > LEASE_DURATION));
    let backlog = store.backlog(BacklogBy::Type, 10).await.unwrap();
    assert_eq!((backlog.groups[0].key.as_deref(), backlog.groups[0].count), (Some("Order:OrderCreated"), 3));

    let page = store.list(&Filter::dead(), &PageRequest::first(2)).await.unwrap();
    assert_eq!((page.items.len(), page.next), (2, Some(2)));
    let rest = store.list(&Filter::dead(), &PageRequest::after(2, 2)).await.unwrap();
    assert_eq!((rest.items.len(), rest.next, rest.items[0].id.as_str()), (1, None, &*uuid(2)));
    assert_eq!(rest.items[0].last_error.as_deref(), Some("broker said 100%"));
    let groups = store.dead_groups(10).await.unwrap();
    assert_eq!((groups.len(), groups[0].count, &*groups[0].reason), (1, 3, "broker said 100%"));

    let by_error = |text: &str| Filter::dead().with_error_containing(text);
    assert_eq!(store.count(&by_error("100%")).await.unwrap(), 3);
    assert_eq!(store.count(&by_error("1%0")).await.unwrap(), 0, "a text is meant as it is");
    let of = async |filter: Filter| store.count(&filter).await.unwrap();
    assert_eq!(of(Filter::default().with_event_type("OrderCreated")).await, 7);
    assert_eq!(of(Filter::default().with_aggregate_id(uuid(7))).await, 7);
    assert_eq!(of(Filter::default().with_tenant_id("acme")).await, 0);
    assert_eq!(of(Filter::default().with_older_than(LEASE_DURATION)).await, 7);
    assert_eq!(of(Filter::default().with_older_than(LEASE_DURATION * 1_000_000_000)).await, 0);
    assert_eq!(of(Filter::id("no uuid'")).await, 0);

    let replay = Replay::by("ann");
    assert_eq!(store.replay_all(&Filter::id(uuid(0)), 10, &replay).await.unwrap(), 1);
    assert!(!store.replay(&EventId::from(uuid(0)), &replay).await.unwrap(), "it is no longer dead");
    assert_eq!(order(&db, 0).await, "NEW - unsent");
    assert_eq!(store.discard(&Filter::dead(), 1, "ann").await.unwrap(), 1);
    assert_eq!(store.discard(&Filter::status(Status::Done), 9, "ann").await.unwrap(), 0);
    assert_eq!(db.int("SELECT count(*) FROM outbox").await, 6);
    let findings = store.diagnose(&Tolerance::default()).await.unwrap();
    assert!(findings.iter().map(|finding| finding.code).eq(["late", "dead-events", "layout-limits"]));
    close(&store, &db).await;
}

pub(crate) async fn operations_without_a_column_are_refused() {
    let (db, store) = orders().await;
    let refused = |error: StoreError| assert!(matches!(error, StoreError::Unsupported { .. }));
    refused(store.pause("mail", "ann").await.unwrap_err());
    refused(store.resume("mail", "ann").await.unwrap_err());
    refused(store.audit(&PageRequest::first(1)).await.unwrap_err());
    let purge = |what, archive| Purge::new(what, Duration::ZERO, 10).with_archive(archive);
    refused(posthaste::Admin::purge(&store, &purge(Purgeable::Done, true), "ann").await.unwrap_err());
    refused(posthaste::Admin::purge(&store, &purge(Purgeable::Any, false), "ann").await.unwrap_err());
    refused(try_claim(&store, 1, ClaimOrder::Seq).await.unwrap_err());
    close(&store, &db).await;
}
