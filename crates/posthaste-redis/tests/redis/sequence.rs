//! Sequence numbers and places: a lease is for the row with its number, and an event keeps its due time.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste::admin::Admin as _;
use posthaste::store::{Lease, LeaseToken, Release, Renew, Settled, Store as _, Verdict};
use posthaste::{EventId, Status, Timestamp};
use posthaste_redis::RedisStore;
use posthaste_testkit::{HOUR, wait_until, within_timeout};
use redis::streams::{StreamId, StreamRangeReply};

use crate::support::{
    TestOutbox, claim, claim_by, engine, event, later_event, me, on_one_server, settle_each,
};

const VALID_BODY: &str = r#"{"event_type":"Foreign","payload":"{}"}"#;

async fn settle(store: &RedisStore, lease: &Lease, verdict: Verdict) -> Settled {
    settle_each(store, [(lease, verdict)]).await.expect("the settlement works").remove(0)
}

/// Writes a leased arrival with this stream id.
async fn arrive(outbox: &TestOutbox, ms: i64, n: i64, token: LeaseToken) -> EventId {
    let id = EventId::uuid_v7();
    let _: u8 = outbox.run("HSETNX", "entries", (id.as_str(), VALID_BODY)).await;
    let lease = format!("3600000000 {} {}", token.as_i64(), me());
    let _: String = outbox.run("XADD", "arrivals", (format!("{ms}-{n}"), "i", id.as_str(), "l", lease)).await;
    id
}

/// A `seq` has 12 bits for the row of a millisecond; rows beyond get numbers of the next millisecond.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn leases_of_a_crowded_millisecond_belong_to_their_own_rows() {
    let outbox = on_one_server(1).await;
    let (store, owner, token) = (&outbox.store, me(), LeaseToken::random());
    let ms = outbox.now().await.as_micros() / 1000;
    let mut leases = Vec::new();
    for n in [3, 5000, 9000] {
        let id = arrive(&outbox, ms, n, token).await;
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
        assert_eq!(settle(store, elsewhere, failed).await, Settled::Stale);
        assert_eq!(settle(store, elsewhere, Verdict::Done).await, Settled::Stale);
        assert_eq!(settle(store, lease, Verdict::Done).await, Settled::Done);
    }
    outbox.end().await;
}

/// An engine that claims such a row must be able to settle it.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn row_with_an_edited_place_can_be_settled() {
    let outbox = on_one_server(1).await;
    for (id, number) in [("a", "nowhere"), ("b", ""), ("c", "5-x7")] {
        let state = format!("0\t{number}\t\t0\t0\t0\t0\t\t\t\t\t");
        outbox.produce(id, VALID_BODY, 0).await;
        let _: u8 = outbox.run("HSET", "state", (id, state)).await;
    }
    let claimed = claim(&outbox.store).await.expect("the claim works").events;
    assert_eq!(claimed.len(), 3);
    for leased in claimed {
        assert_eq!(settle(&outbox.store, &leased.lease, Verdict::Done).await, Settled::Done);
    }
    outbox.end().await;
}

/// The `seq` of each arrival, before any claim has read it.
async fn arrived(outbox: &TestOutbox) -> BTreeMap<EventId, i64> {
    let arrivals: StreamRangeReply = outbox.run("XRANGE", "arrivals", ("-", "+")).await;
    let number = |entry: &StreamId| {
        let (ms, n) = entry.id.split_once('-').expect("two numbers");
        let (ms, n): (i64, i64) = (ms.parse().expect("a number"), n.parse().expect("a number"));
        (EventId::from(entry.get::<String>("i").expect("an id").as_str()), ((ms << 12) + n) << 8)
    };
    arrivals.ids.iter().map(number).collect()
}

async fn claim_some(store: &RedisStore, limit: usize, skip_recent: Duration) -> Vec<Lease> {
    let owner = me();
    let claim = claim_by(&owner).with_limit(limit).with_skip_recent(skip_recent);
    let claimed = store.claim(&claim).await.expect("the claim works");
    claimed.events.into_iter().map(|leased| leased.lease).collect()
}

/// An event stored outside a transaction is in the index before any claim has read its arrival. It must not be taken
/// for an event of another program: it would then get a new place, which a late "delivered" would not match.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn arrivals_keep_their_places_for_any_claim_limit() {
    for limit in [1, 2, 30] {
        let outbox = on_one_server(1).await;
        let (store, writer) = (&outbox.store, outbox.writer());
        for _ in 0..2 * limit + 1 {
            writer.write(event("A", "1")).await.expect("it is stored");
        }
        let places = arrived(&outbox).await;
        for n in [limit, limit, 1, 0] {
            let leases = claim_some(store, limit, Duration::ZERO).await;
            assert_eq!(leases.len(), n);
            for lease in leases {
                assert_eq!(lease.seq, places[&lease.id], "limit {limit}");
                let before = Lease::new(lease.id, lease.seq, LeaseToken::random());
                assert_eq!(settle(store, &before, Verdict::Done).await, Settled::Done);
            }
        }
        outbox.end().await;
    }
}

/// The delayed events came first, and a claim reads no more arrivals than those in its first step.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn arrivals_behind_many_delayed_ones_keep_their_places_and_are_claimed_immediately() {
    let outbox = on_one_server(1).await;
    let (store, writer) = (&outbox.store, outbox.writer());
    writer.write_all((0..50).map(|_| later_event()).collect()).await.expect("they are stored");
    writer.write_all((0..40).map(|_| event("Now", "1")).collect()).await.expect("they are stored");
    let places = arrived(&outbox).await;
    for n in [30, 10, 0] {
        let leases = claim_some(store, 30, Duration::ZERO).await;
        assert_eq!(leases.len(), n);
        leases.iter().for_each(|lease| assert_eq!(lease.seq, places[&lease.id]));
    }
    outbox.end().await;
}

/// A claim that skips recent events does not change them.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn recent_arrivals_that_are_skipped_keep_their_places() {
    let outbox = on_one_server(1).await;
    let store = &outbox.store;
    outbox.writer().write(event("A", "1")).await.expect("it is stored");
    let places = arrived(&outbox).await;
    assert!(claim_some(store, 10, HOUR).await.is_empty());
    let leases = claim_some(store, 10, Duration::ZERO).await;
    assert_eq!(leases.len(), 1);
    assert_eq!(leases[0].seq, places[&leases[0].id]);
    outbox.end().await;
}

/// The repair finds bodies without a state, including events of other programs that are due later.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn delayed_event_of_another_program_is_not_delivered_early() {
    let test_outbox = on_one_server(1).await;
    let (store, due) = (&test_outbox.store, test_outbox.now().await + HOUR);
    test_outbox.produce("later", VALID_BODY, due.as_micros()).await;
    test_outbox.produce("now", VALID_BODY, 0).await;
    let repaired = store.repair().await.expect("the repair works");
    assert!(repaired.is_empty(), "nothing is wrong with them: {repaired:?}");
    let available_at = async |id: &str| -> Timestamp {
        store.get(&EventId::from(id)).await.expect("get").expect("it is there").row.available_at
    };
    assert_eq!(available_at("later").await, due);
    let (outbox, recorder) = engine(store);
    within_timeout("the due event is delivered", recorder.wait_for(1)).await;
    wait_until("it is settled", async || store.stats().await.expect("stats").done == 1).await;
    outbox.shutdown().await;
    assert!(recorder.ids().into_iter().eq([EventId::from("now")]));
    let row = store.get(&EventId::from("later")).await.expect("get").expect("it is there").row;
    assert_eq!((row.status, row.available_at), (Status::New, due));
    test_outbox.end().await;
}
