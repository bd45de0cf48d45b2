//! Sequence numbers of rows: a lease is for the row with its number, and an event keeps its time.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste::admin::Admin as _;
use posthaste::store::{
    Claim, Lease, LeaseToken, Owner, Release, Renew, Settle, Settled, Settlement, Store as _, Verdict,
};
use posthaste::{Event, EventId, Outbox, Routes, Status, Timestamp};
use posthaste_redis::{OutboxName, RedisStore};
use posthaste_testkit::{wait_until, within_timeout};
use redis::AsyncCommands as _;
use redis::streams::{StreamId, StreamRangeReply};

use crate::errors::claim;
use crate::support::{self, engine, event, key};

const VALID_BODY: &str = r#"{"event_type":"Foreign","payload":"{}"}"#;

async fn settle(store: &RedisStore, owner: &Owner, lease: &Lease, verdict: Verdict) -> Settled {
    let settlements = [Settlement::new(lease.clone(), verdict)];
    let settle = Settle::new(owner, &settlements);
    store.settle(&settle).await.expect("the settlement works").remove(0)
}

/// An arrival with a number of its own choice, born leased.
async fn arrive(name: &OutboxName, ms: i64, n: i64, token: LeaseToken, owner: &Owner) -> EventId {
    let mut connection = support::connect(&support::server_url()).await;
    let id = EventId::uuid_v7();
    let _: bool = connection.hset_nx(key(name, "entries"), id.as_str(), VALID_BODY).await.expect("HSETNX");
    let lease = format!("3600000000 {} {owner}", token.as_i64());
    let mut add = redis::cmd("XADD");
    add.arg(key(name, "arrivals")).arg(format!("{ms}-{n}")).arg(&["i", id.as_str(), "l", &lease]);
    let _: String = add.query_async(&mut connection).await.expect("XADD");
    id
}

/// A number has room for 4096 rows of a millisecond; those beyond have numbers of the next one.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn leases_of_a_crowded_millisecond_mean_their_own_rows() {
    let (store, name) = support::store().await;
    let mut connection = support::connect(&support::server_url()).await;
    let (owner, token) = (Owner::from("me"), LeaseToken::random());
    let ms = support::now(&mut connection).await.as_micros() / 1000;
    let mut leases = Vec::new();
    for n in [3, 5000, 9000] {
        let id = arrive(&name, ms, n, token, &owner).await;
        leases.push(Lease::new(id, ((ms << 12) + n) << 8, token));
    }
    let renew = Renew::new(&owner, &leases, Duration::from_secs(60));
    assert_eq!(store.renew(&renew).await.expect("the renewal works"), leases);
    let elsewhere: Vec<Lease> =
        leases.iter().map(|lease| Lease::new(lease.id.clone(), lease.seq + (1 << 8), lease.token)).collect();
    let release = Release::new(&owner, &elsewhere);
    assert_eq!(store.release(&release).await.expect("the release works"), 0);
    for (lease, elsewhere) in leases.iter().zip(&elsewhere) {
        let failed = Verdict::Dead { reason: "no".to_owned() };
        assert_eq!(settle(&store, &owner, elsewhere, failed).await, Settled::Stale);
        assert_eq!(settle(&store, &owner, elsewhere, Verdict::Done).await, Settled::Stale);
        assert_eq!(settle(&store, &owner, lease, Verdict::Done).await, Settled::Done);
    }
    support::remove(&mut connection, &name, 1).await;
}

/// Whoever claims such a row has to be able to end it.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn row_whose_place_somebody_edited_is_settled_all_the_same() {
    let (store, name) = support::store().await;
    let mut connection = support::connect(&support::server_url()).await;
    for (id, number) in [("a", "nowhere"), ("b", ""), ("c", "5-x7")] {
        let state = format!("0\t{number}\t\t0\t0\t0\t0\t\t\t\t\t");
        let _: bool = connection.hset_nx(key(&name, "entries"), id, VALID_BODY).await.expect("HSETNX");
        let _: () = connection.hset(key(&name, "state"), id, state).await.expect("HSET");
        let _: () = connection.zadd(key(&name, "pending"), id, 0).await.expect("ZADD");
    }
    let claimed = claim(&store).await.expect("the claim works").events;
    assert_eq!(claimed.len(), 3);
    for leased in claimed {
        assert_eq!(settle(&store, &Owner::from("me"), &leased.lease, Verdict::Done).await, Settled::Done);
    }
    support::remove(&mut connection, &name, 1).await;
}

/// The numbers that events have had since they arrived; no claim has seen them.
async fn arrived(name: &OutboxName) -> BTreeMap<EventId, i64> {
    let mut connection = support::connect(&support::server_url()).await;
    let arrivals: StreamRangeReply = connection.xrange_all(key(name, "arrivals")).await.expect("XRANGE");
    let number = |entry: &StreamId| {
        let (ms, n) = entry.id.split_once('-').expect("two numbers");
        let (ms, n): (i64, i64) = (ms.parse().expect("a number"), n.parse().expect("a number"));
        (EventId::from(entry.get::<String>("i").expect("an id").as_str()), ((ms << 12) + n) << 8)
    };
    arrivals.ids.iter().map(number).collect()
}

async fn claim_some(store: &RedisStore, limit: usize, skip_recent: Duration) -> Vec<Lease> {
    let owner = Owner::from("me");
    let claim = Claim::new(&owner, Duration::from_secs(3600), limit).with_skip_recent(skip_recent);
    let claimed = store.claim(&claim).await.expect("the claim works");
    claimed.events.into_iter().map(|leased| leased.lease).collect()
}

/// An event on its own is in the index before any claim has seen its arrival. It is not taken for one of another
/// program: with another place, a late "delivered" would not be about it.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn arrivals_keep_their_places_however_few_are_claimed() {
    for limit in [1, 2, 30] {
        let (store, name) = support::store().await;
        let nobody = Outbox::builder(store.clone(), Routes::new())
            .writer_only()
            .build()
            .expect("a good configuration");
        let writer = store.writer(&nobody);
        for _ in 0..2 * limit + 1 {
            writer.write(event("A", "1")).await.expect("it is stored");
        }
        let places = arrived(&name).await;
        for n in [limit, limit, 1, 0] {
            let leases = claim_some(&store, limit, Duration::ZERO).await;
            assert_eq!(leases.len(), n);
            for lease in leases {
                assert_eq!(lease.seq, places[&lease.id], "of {limit} at once");
                let before = Lease::new(lease.id, lease.seq, LeaseToken::random());
                assert_eq!(settle(&store, &Owner::from("me"), &before, Verdict::Done).await, Settled::Done);
            }
        }
        support::remove(&mut support::connect(&support::server_url()).await, &name, 1).await;
    }
}

/// Those with a delay came first, and are all that a claim reads of the arrivals at once.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn arrivals_behind_many_with_a_delay_keep_their_places_and_are_claimed_at_once() {
    let (store, name) = support::store().await;
    let nobody =
        Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good configuration");
    let later = |_| {
        let event = Event::builder("Later").deliver_after(Duration::from_secs(3600)).json_text("1");
        event.build().expect("a good event")
    };
    let writer = store.writer(&nobody);
    writer.write_all((0..50).map(later).collect()).await.expect("they are stored");
    writer.write_all((0..40).map(|_| event("Now", "1")).collect()).await.expect("they are stored");
    let places = arrived(&name).await;
    for n in [30, 10, 0] {
        let leases = claim_some(&store, 30, Duration::ZERO).await;
        assert_eq!(leases.len(), n);
        leases.iter().for_each(|lease| assert_eq!(lease.seq, places[&lease.id]));
    }
    support::remove(&mut support::connect(&support::server_url()).await, &name, 1).await;
}

/// A claim that leaves out what is recent does not touch it.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn recent_arrivals_keep_their_places_when_they_are_left_out() {
    let (store, name) = support::store().await;
    let nobody =
        Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good configuration");
    store.writer(&nobody).write(event("A", "1")).await.expect("it is stored");
    let places = arrived(&name).await;
    assert!(claim_some(&store, 10, Duration::from_secs(3600)).await.is_empty());
    let leases = claim_some(&store, 10, Duration::ZERO).await;
    assert_eq!(leases.len(), 1);
    assert_eq!(leases[0].seq, places[&leases[0].id]);
    support::remove(&mut support::connect(&support::server_url()).await, &name, 1).await;
}

/// The repair looks at every body that has no state yet, also at those of other programs that wait for their time.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn delayed_event_of_another_program_is_not_delivered_early() {
    let (store, name) = support::store().await;
    let mut connection = support::connect(&support::server_url()).await;
    let due = support::now(&mut connection).await + Duration::from_secs(3600);
    let mut produce = redis::pipe();
    produce.atomic().hset_nx(key(&name, "entries"), "later", VALID_BODY);
    produce.cmd("ZADD").arg(key(&name, "pending")).arg("NX").arg(due.as_micros()).arg("later");
    produce.hset_nx(key(&name, "entries"), "now", VALID_BODY);
    produce.cmd("ZADD").arg(key(&name, "pending")).arg("NX").arg(0).arg("now");
    let _: () = produce.query_async(&mut connection).await.expect("EXEC");
    let repaired = store.repair_worker().run_once().await.expect("the repair works");
    assert!(repaired.is_empty(), "nothing is wrong with them: {repaired:?}");
    let available_at = async |id: &str| -> Timestamp {
        store.get(&EventId::from(id)).await.expect("get").expect("it is there").row.available_at
    };
    assert_eq!(available_at("later").await, due);
    let (outbox, recorder) = engine(&store);
    within_timeout("the other is delivered", recorder.wait_for(1)).await;
    wait_until("it is settled", async || store.stats().await.expect("stats").done == 1).await;
    outbox.shutdown().await;
    assert!(recorder.ids().into_iter().eq([EventId::from("now")]));
    let row = store.get(&EventId::from("later")).await.expect("get").expect("it is there").row;
    assert_eq!((row.status, row.available_at), (Status::New, due));
    support::remove(&mut connection, &name, 1).await;
}
