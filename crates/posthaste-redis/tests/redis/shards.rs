//! What holds over all shards of an outbox together.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste::store::{Claim, Claimed, Owner, Settle, Settled, Settlement, Store as _, Verdict};
use posthaste::{Admin as _, Event, Outbox, Recorder, Route, Routes};
use posthaste_redis::RedisStore;
use posthaste_testkit::{wait_until, within_timeout};

use crate::support::{self, store_with_shards};

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

pub(crate) fn of_size(aggregate: &str, bytes: usize) -> Event {
    let event = Event::builder("Sized").aggregate("Ticket", aggregate);
    event.json_text(format!("\"{}\"", "x".repeat(bytes - 2))).build().expect("a good event")
}

pub(crate) async fn write(store: &RedisStore, events: Vec<Event>) {
    let nobody =
        Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good configuration");
    store.writer(&nobody).write_all(events).await.expect("they are stored");
}

pub(crate) async fn claim(store: &RedisStore, owner: &Owner, max_bytes: usize) -> Claimed {
    let claim = Claim::new(owner, Duration::from_secs(3600), 100).with_max_bytes(max_bytes);
    store.claim(&claim).await.expect("the claim works")
}

fn bytes_of(claimed: &Claimed) -> usize {
    claimed.events.iter().map(|leased| leased.event.payload().len()).sum()
}

/// The same id with two aggregates in different shards: two rows, each with a payload of its own.
async fn write_duplicate_id(store: &RedisStore) {
    let twin = |(aggregate, payload): (&String, &str)| {
        let event = Event::builder("Twin").id("twin").aggregate("Ticket", aggregate.as_str());
        event.json_text(payload).build().expect("a good event")
    };
    // Within one write an id counts once.
    for twin in aggregates(store, 2).iter().zip(["1", "2"]).map(twin) {
        write(store, vec![twin]).await;
    }
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn id_in_two_shards_is_two_rows_and_each_is_settled_by_its_own_lease() {
    let (store, name) = store_with_shards(2).await;
    write_duplicate_id(&store).await;
    let owner = Owner::from("me");
    let claimed = claim(&store, &owner, usize::MAX).await.events;
    let payloads: BTreeSet<&[u8]> = claimed.iter().map(|leased| &leased.event.payload()[..]).collect();
    assert!(payloads.into_iter().eq([b"1", b"2"]));
    assert_ne!(claimed[0].lease.seq, claimed[1].lease.seq);
    for (pending, leased) in [1, 0].into_iter().zip(&claimed) {
        let lease = leased.lease.clone();
        let settlements = [Settlement::new(lease, Verdict::Done)];
        let settle = Settle::new(&owner, &settlements);
        assert_eq!(store.settle(&settle).await.expect("the settlement works"), [Settled::Done]);
        assert_eq!(store.stats().await.expect("stats").new, pending);
    }
    support::remove(&mut support::connect(&support::server_url()).await, &name, 2).await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn id_in_two_shards_is_delivered_with_both_payloads() {
    let (store, name) = store_with_shards(2).await;
    write_duplicate_id(&store).await;
    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let outbox =
        Outbox::builder(store.clone(), routes).single_node().poll_interval(Duration::from_millis(100));
    let outbox = outbox.start().expect("a good configuration");
    within_timeout("both are delivered", recorder.wait_for(2)).await;
    wait_until("both are settled", async || store.stats().await.expect("stats").done == 2).await;
    let deliveries = recorder.deliveries();
    let payloads: BTreeSet<&[u8]> = deliveries.iter().map(|delivery| &delivery.payload()[..]).collect();
    assert!(payloads.into_iter().eq([b"1", b"2"]), "one of them was never sent");
    outbox.shutdown().await;
    support::remove(&mut support::connect(&support::server_url()).await, &name, 2).await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn claim_keeps_to_its_bytes_over_all_shards_together() {
    const SHARDS: u16 = 4;
    const ROW_BYTES: usize = 100_000;
    const MAX_CLAIM_BYTES: usize = 250_000;
    let (store, name) = store_with_shards(SHARDS).await;
    let aggregates = aggregates(&store, SHARDS.into());
    let rows = 3 * aggregates.len();
    write(
        &store,
        aggregates.iter().cycle().take(rows).map(|aggregate| of_size(aggregate, ROW_BYTES)).collect(),
    )
    .await;
    let owner = Owner::from("me");
    let mut found = 0;
    while found < rows {
        let claimed = claim(&store, &owner, MAX_CLAIM_BYTES).await;
        assert!(!claimed.events.is_empty(), "{found} of {rows}");
        assert!(bytes_of(&claimed) <= MAX_CLAIM_BYTES, "{} rows at once", claimed.events.len());
        found += claimed.events.len();
        assert_eq!(claimed.cut, found < rows, "after {found}");
    }
    let claimed = claim(&store, &owner, MAX_CLAIM_BYTES).await;
    assert!(claimed.events.is_empty() && !claimed.cut);
    support::remove(&mut support::connect(&support::server_url()).await, &name, SHARDS).await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn row_that_is_larger_than_a_claim_comes_alone_and_is_not_starved_by_other_shards() {
    const SHARDS: u16 = 4;
    let (store, name) = store_with_shards(SHARDS).await;
    let aggregates = aggregates(&store, SHARDS.into());
    let second =
        aggregates.iter().find(|it| store.tag(it).ends_with(":1}")).expect("the second shard has one");
    let mut events = vec![of_size(second, 1_000_000)];
    events.extend(aggregates.iter().cycle().take(400).map(|aggregate| of_size(aggregate, 1_000)));
    write(&store, events).await;
    let owner = Owner::from("me");
    let mut claims = 0;
    loop {
        claims += 1;
        assert!(claims <= SHARDS, "each shard has had its turn");
        let claimed = claim(&store, &owner, 50_000).await;
        // An engine does so between two claims; it takes no turn.
        let unpark = posthaste::store::Unpark::new("mail", 1);
        assert_eq!(store.unpark(&unpark).await.expect("nothing is parked"), 0);
        assert!(!claimed.events.is_empty() && claimed.cut);
        if bytes_of(&claimed) > 50_000 {
            assert_eq!(claimed.events.len(), 1, "nothing fits beside it");
            break;
        }
    }
    support::remove(&mut support::connect(&support::server_url()).await, &name, SHARDS).await;
}

/// Names of parked rows come from every shard, however few rows are asked for.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn parked_and_paused_routes_are_answered_from_all_shards() {
    const SHARDS: u16 = 4;
    let (store, name) = store_with_shards(SHARDS).await;
    write(&store, aggregates(&store, SHARDS.into()).iter().map(|it| of_size(it, 10)).collect()).await;
    let owner = Owner::from("me");
    let claimed = claim(&store, &owner, usize::MAX).await.events;
    let routes: Vec<String> = (0..SHARDS).map(|n| format!("route, {n}")).collect();
    for (leased, route) in claimed.iter().zip(&routes) {
        let leases = std::slice::from_ref(&leased.lease);
        let duration = Duration::from_secs(3600);
        let park = posthaste::store::Park::new(&owner, leases, route, duration);
        assert_eq!(store.park(&park).await.expect("parking works"), 1);
    }
    assert!(store.pause("mail", "ann").await.expect("it is paused"));
    for _ in 0..=SHARDS {
        let claimed = claim(&store, &owner, 0).await;
        assert!(claimed.parked.iter().eq(&routes), "{:?}", claimed.parked);
        assert!(claimed.paused.iter().eq(["mail"]), "{:?}", claimed.paused);
    }
    support::remove(&mut support::connect(&support::server_url()).await, &name, SHARDS).await;
}
