//! Several engines on one store, not all of which have every route or reach every destination.

use posthaste::admin::{Admin as _, Filter};
use posthaste::store::{Park, Store as _};
use posthaste::{Delivery, MemoryStore, Outbox, Outcome, Recorder, Route, Routes, Status};
use tokio::time::sleep;

use crate::support::*;

fn two_routes(first: &Recorder, second: &Recorder) -> Routes {
    let first = Route::event("First").deliver_to(first.clone());
    Routes::new().add(first).add(Route::event("Second").deliver_to(second.clone()))
}

/// One node alone cannot reach a destination, because of its zone, its DNS or its certificate.
#[tokio::test(start_paused = true)]
async fn events_that_one_node_cannot_deliver_are_delivered_by_another_soon() {
    let store = MemoryStore::new();
    let unreachable = Recorder::with(|_| Outcome::no_connection("no route to host"));
    let (first, second) = (Recorder::new(), Recorder::new());
    let node = |routes| {
        let builder = Outbox::builder(FaultyStore::on(&store), routes);
        builder.poll_interval(secs(1)).start().expect("start")
    };
    let cut_off = node(two_routes(&unreachable, &second));
    let healthy = node(two_routes(&first, &second));
    for round in 1..=5 {
        insert_foreign(&store, "First", 100);
        insert_foreign(&store, "Second", 100);
        eventually(secs(10), || first.count() == 100 * round).await;
        eventually(secs(10), || count_in(&store, Status::Done) == 200 * round).await;
    }
    drop((cut_off, healthy));
}

/// Rows that wait for a route that no engine has any more come back when an engine starts.
#[tokio::test(start_paused = true)]
async fn events_parked_for_a_route_that_was_renamed_come_back() {
    let store = MemoryStore::new();
    let down = Recorder::with(|_| Outcome::no_connection("connection refused"));
    // With an open route beside it: while all routes are closed, nothing is claimed that would have to be parked.
    let other = || Route::event("Other").deliver_to(Recorder::new());
    let old = Routes::new().add(Route::event("Made").name("old").deliver_to(down)).add(other());
    let before = Outbox::builder(FaultyStore::on(&store), old).start().expect("start");
    insert_foreign(&store, "Made", 1000);
    eventually(secs(60), || store.rows().iter().filter(|row| row.parked.is_some()).count() > 900).await;
    before.shutdown().await;

    let recorder = Recorder::new();
    let new = Routes::new().add(Route::event("Made").name("new").deliver_to(recorder.clone())).add(other());
    let outbox = Outbox::builder(FaultyStore::on(&store), new).start().expect("start");
    eventually(secs(60), || recorder.count() == 1000).await;
    drop(outbox);
}

/// A large backlog of a closed route stays out of the way, for longer than five minutes.
#[tokio::test(start_paused = true)]
async fn parked_backlog_does_not_become_due_in_front_of_healthy_routes() {
    let store = FaultyStore::new();
    let down = Recorder::with(|_| Outcome::no_connection("connection refused"));
    let healthy = Recorder::new();
    let builder = Outbox::builder(store.clone(), two_routes(&down, &healthy));
    let outbox = builder.poll_interval(millis(250)).poll_batch(500).start().expect("start");
    let backlog = insert_foreign(&store.inner, "First", 20_000);
    let writes = || backlog.iter().map(|id| store.inner.writes(id)).sum::<u64>();
    let parked = || store.inner.rows().iter().filter(|row| row.parked.is_some()).count();
    eventually(secs(60), || parked() >= 19_990).await;
    let (before, mut written) = (writes(), 0);
    for _ in 0..40 {
        written += insert_foreign(&store.inner, "Second", 10).len();
        eventually(secs(2), || healthy.count() == written).await;
        sleep(secs(60)).await;
    }
    // Only probes, a few per minute.
    let more = writes() - before;
    assert!(more < 2_000, "the backlog is not claimed and parked again and again: {more}");
    drop(outbox);
}

/// However many there are: the store knows since when each of them waits.
#[tokio::test(start_paused = true)]
async fn any_number_of_events_without_a_route_is_dead_after_the_grace() {
    let store = MemoryStore::new();
    insert_foreign(&store, "Unknown", 12_000);
    let routes = Routes::new().handle("Known", async |_: Delivery| ());
    let builder = Outbox::builder(FaultyStore::on(&store), routes).no_route_grace(secs(60));
    let outbox = builder.poll_batch(500).start().expect("start");
    sleep(secs(600)).await;
    assert_eq!(store.count(&Filter::status(Status::Dead)).await.expect("count"), 12_000);
    drop(outbox);
}

/// A process that restarts more often than the grace knows nothing of earlier attempts; the store does.
#[tokio::test(start_paused = true)]
async fn grace_of_events_without_a_route_continues_across_restarts() {
    let store = MemoryStore::new();
    let id = insert_foreign(&store, "Unknown", 1).remove(0);
    for _ in 0..8 {
        let routes = Routes::new().handle("Known", async |_: Delivery| ());
        let builder = Outbox::builder(FaultyStore::on(&store), routes);
        let outbox = builder.no_route_grace(secs(300)).start().expect("start");
        sleep(secs(60)).await;
        outbox.shutdown().await;
    }
    assert_eq!(status(&store, &id), Status::Dead);
}

/// Any engine brings back the rows that another engine parked.
#[tokio::test(start_paused = true)]
async fn rows_that_any_engine_parked_for_an_open_route_come_back() {
    let (store, recorder) = (MemoryStore::new(), Recorder::new());
    let routes = Routes::new().add(Route::event("Made").name("mail").deliver_to(recorder.clone()));
    let builder = Outbox::builder(FaultyStore::on(&store), routes).poll_interval(HOUR / 2);
    let outbox = builder.start().expect("start");
    // By then, the engine has done what it does only once, at its start.
    sleep(secs(60)).await;
    insert_foreign(&store, "Made", 10);
    let owner = posthaste::store::Owner::random("another engine");
    let claim = posthaste::store::Claim::new(&owner, secs(30), 10)
        .with_token(posthaste::store::LeaseToken::random())
        .with_order(posthaste::store::ClaimOrder::Due)
        .with_skip_recent(secs(0));
    let claimed = store.claim(&claim).await.expect("claim");
    let leases: Vec<_> = claimed.events.into_iter().map(|leased| leased.lease).collect();
    let park = Park::new(&owner, &leases, "mail", 24 * HOUR);
    assert_eq!(store.park(&park).await.expect("park"), 10);
    eventually(HOUR, || recorder.count() == 10).await;
    drop(outbox);
}
