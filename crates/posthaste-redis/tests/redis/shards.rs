//! Behaviour across all shards of an outbox: ids, claim limits, fairness, parked and paused routes.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste::store::{Claimed, Park, Settled, Store as _, Unpark};
use posthaste::{Admin as _, Event, Outbox};
use posthaste_redis::RedisStore;
use posthaste_testkit::{HOUR, wait_until, within_timeout};

use crate::support::{claim, claim_bytes, me, of_size, on_one_server, recorded, settle_done, writer_of};

/// An aggregate in each of the first `shards` shards.
pub(crate) fn aggregates(store: &RedisStore, shards: usize) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for aggregate in (0..).map(|n: u32| n.to_string()) {
        if found.iter().all(|known| store.tag(known) != store.tag(&aggregate)) {
            found.push(aggregate);
        }
        if found.len() == shards {
            break;
        }
    }
    found
}

fn bytes_of(claimed: &Claimed) -> usize {
    claimed.events.iter().map(|leased| leased.event.payload().len()).sum()
}

/// Writes the same id with two aggregates in different shards: two rows with different payloads.
async fn write_duplicate_id(store: &RedisStore) {
    let twin = |(aggregate, payload): (&String, &str)| {
        let event = Event::builder("Twin").id("twin").aggregate("Ticket", aggregate.as_str());
        event.json_text(payload).build().expect("a good event")
    };
    // In two writes, because one write accepts an id only once.
    for twin in aggregates(store, 2).iter().zip(["1", "2"]).map(twin) {
        writer_of(store).write(twin).await.expect("it is stored");
    }
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn id_in_two_shards_is_two_rows_each_settled_by_its_own_lease() {
    let test_outbox = on_one_server(2).await;
    let store = &test_outbox.store;
    write_duplicate_id(store).await;
    let claimed = claim(store).await.expect("the claim works").events;
    let payloads: BTreeSet<&[u8]> = claimed.iter().map(|leased| &leased.event.payload()[..]).collect();
    assert!(payloads.into_iter().eq([b"1", b"2"]));
    assert_ne!(claimed[0].lease.seq, claimed[1].lease.seq);
    for (pending, leased) in [1, 0].into_iter().zip(&claimed) {
        let settled = settle_done(store, [&leased.lease]).await;
        assert_eq!(settled.expect("the settlement works"), [Settled::Done]);
        assert_eq!(store.stats().await.expect("stats").new, pending);
    }
    test_outbox.end().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn id_in_two_shards_is_delivered_with_both_payloads() {
    let test_outbox = on_one_server(2).await;
    let store = &test_outbox.store;
    write_duplicate_id(store).await;
    let (recorder, routes) = recorded();
    let outbox =
        Outbox::builder(store.clone(), routes).single_node().poll_interval(Duration::from_millis(100));
    let outbox = outbox.start().expect("a good configuration");
    within_timeout("both are delivered", recorder.wait_for(2)).await;
    wait_until("both are settled", async || store.stats().await.expect("stats").done == 2).await;
    let deliveries = recorder.deliveries();
    let payloads: BTreeSet<&[u8]> = deliveries.iter().map(|delivery| &delivery.payload()[..]).collect();
    assert!(payloads.into_iter().eq([b"1", b"2"]), "both payloads are sent");
    outbox.shutdown().await;
    test_outbox.end().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn claim_keeps_its_byte_limit_over_all_shards_together() {
    const SHARDS: u16 = 4;
    const ROW_BYTES: usize = 100_000;
    const MAX_CLAIM_BYTES: usize = 250_000;
    let outbox = on_one_server(SHARDS).await;
    let (store, writer) = (&outbox.store, outbox.writer());
    let aggregates = aggregates(store, SHARDS.into());
    let rows = 3 * aggregates.len();
    let events = aggregates.iter().cycle().take(rows).map(|aggregate| of_size(aggregate, ROW_BYTES));
    writer.write_all(events.collect()).await.expect("they are stored");
    let mut found = 0;
    while found < rows {
        let claimed = claim_bytes(store, MAX_CLAIM_BYTES).await;
        assert!(!claimed.events.is_empty(), "{found} of {rows}");
        assert!(bytes_of(&claimed) <= MAX_CLAIM_BYTES, "{} rows in one claim", claimed.events.len());
        found += claimed.events.len();
        assert_eq!(claimed.cut, found < rows, "after {found}");
    }
    let claimed = claim_bytes(store, MAX_CLAIM_BYTES).await;
    assert!(claimed.events.is_empty() && !claimed.cut);
    outbox.end().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn row_larger_than_a_claim_comes_alone_and_is_not_starved_by_other_shards() {
    const SHARDS: u16 = 4;
    let outbox = on_one_server(SHARDS).await;
    let (store, writer) = (&outbox.store, outbox.writer());
    let aggregates = aggregates(store, SHARDS.into());
    let second =
        aggregates.iter().find(|it| store.tag(it).ends_with(":1}")).expect("the second shard has one");
    let mut events = vec![of_size(second, 1_000_000)];
    events.extend(aggregates.iter().cycle().take(400).map(|aggregate| of_size(aggregate, 1_000)));
    writer.write_all(events).await.expect("they are stored");
    let mut claims = 0;
    loop {
        claims += 1;
        assert!(claims <= SHARDS, "each shard has had its turn");
        let claimed = claim_bytes(store, 50_000).await;
        // An engine unparks between two claims. That must not advance the turn.
        let unpark = Unpark::new("mail", 1);
        assert_eq!(store.unpark(&unpark).await.expect("nothing is parked"), 0);
        assert!(!claimed.events.is_empty() && claimed.cut);
        if bytes_of(&claimed) > 50_000 {
            assert_eq!(claimed.events.len(), 1, "nothing fits beside it");
            break;
        }
    }
    outbox.end().await;
}

/// The reply contains the names from every shard, even if few rows are requested.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn parked_and_paused_routes_are_reported_from_all_shards() {
    const SHARDS: u16 = 4;
    let outbox = on_one_server(SHARDS).await;
    let (store, writer) = (&outbox.store, outbox.writer());
    let events = aggregates(store, SHARDS.into()).iter().map(|it| of_size(it, 10)).collect();
    writer.write_all(events).await.expect("they are stored");
    let claimed = claim(store).await.expect("the claim works").events;
    let routes: Vec<String> = (0..SHARDS).map(|n| format!("route, {n}")).collect();
    for (leased, route) in claimed.iter().zip(&routes) {
        let leases = std::slice::from_ref(&leased.lease);
        let owner = me();
        let park = Park::new(&owner, leases, route, HOUR);
        assert_eq!(store.park(&park).await.expect("parking works"), 1);
    }
    assert!(store.pause("mail", "ann").await.expect("it is paused"));
    for _ in 0..=SHARDS {
        let claimed = claim_bytes(store, 0).await;
        assert!(claimed.parked.iter().eq(&routes), "{:?}", claimed.parked);
        assert!(claimed.paused.iter().eq(["mail"]), "{:?}", claimed.paused);
    }
    outbox.end().await;
}
