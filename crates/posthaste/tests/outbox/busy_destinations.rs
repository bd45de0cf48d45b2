//! Busy destinations: no event spends an attempt, and the route slows down.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{
    Delivery, Destination, MemoryStore, Outbox, Outcome, Profile, Recorder, Route, Routes, Status,
};
use tokio::time::{Instant, sleep};

use crate::support::*;

/// Accepts this many events per second and turns the others away.
#[derive(Clone)]
struct RateLimited {
    per_second: usize,
    retry_after: Option<Duration>,
    window: Arc<Mutex<(Option<Instant>, usize)>>,
    taken: Recorder,
    turned_away: Arc<Mutex<usize>>,
}

impl RateLimited {
    fn per_second(per_second: usize, retry_after: Option<Duration>) -> Self {
        Self {
            per_second,
            retry_after,
            window: Arc::default(),
            taken: Recorder::new(),
            turned_away: Arc::default(),
        }
    }

    fn admits(&self) -> bool {
        let (now, mut window) = (Instant::now(), self.window.lock().expect("seen"));
        if window.0.is_none_or(|since| now.duration_since(since) >= secs(1)) {
            *window = (Some(now), 0);
        }
        window.1 += 1;
        window.1 <= self.per_second
    }

    fn busy(&self) -> Outcome {
        *self.turned_away.lock().expect("turned_away") += 1;
        match self.retry_after {
            Some(after) => Outcome::busy_for(after, "429 Too Many Requests"),
            None => Outcome::busy("the queue is full"),
        }
    }
}

#[async_trait]
impl Destination for RateLimited {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for delivery in batch {
            outcomes.push(match self.admits() {
                true => self.taken.deliver(std::slice::from_ref(delivery)).await.remove(0),
                false => self.busy(),
            });
        }
        outcomes
    }

    fn profile(&self) -> Profile {
        Profile::HANDLER
    }
}

fn start(store: &MemoryStore, destination: &RateLimited) -> Outbox {
    let routes = Routes::new().add(Route::event("Made").deliver_to(destination.clone()));
    let builder = Outbox::builder(FaultyStore::on(store), routes).workers(8);
    builder.poll_interval(millis(100)).start().expect("start")
}

#[tokio::test(start_paused = true)]
async fn rate_limit_of_a_destination_makes_no_event_dead_and_spends_no_attempt() {
    let store = MemoryStore::new();
    let ids = insert_foreign(&store, "Made", 2000);
    let limited = RateLimited::per_second(10, Some(secs(2)));
    let outbox = start(&store, &limited);
    eventually(HOUR, || limited.taken.count() == 2000).await;
    sleep(secs(1)).await;
    assert_each_once(&limited.taken, &ids);
    assert!(store.rows().iter().all(|row| row.status == Status::Done && row.attempts == 0));
    let turned_away = *limited.turned_away.lock().expect("turned_away");
    assert!(turned_away < 8000, "the route slows down instead of asking on: {turned_away}");
    drop(outbox);
}

#[tokio::test(start_paused = true)]
async fn route_is_closed_for_the_pause_that_the_destination_requests() {
    let store = MemoryStore::new();
    insert_foreign(&store, "Made", 100);
    let shut = RateLimited::per_second(0, Some(secs(600)));
    let outbox = start(&store, &shut);
    sleep(secs(590)).await;
    let turned_away = *shut.turned_away.lock().expect("turned_away");
    assert!(turned_away <= 8 + 3, "nothing is tried before its time: {turned_away}");
    drop(outbox);
}

#[tokio::test(start_paused = true)]
async fn event_that_is_turned_away_for_longer_than_the_grace_is_dead() {
    let store = MemoryStore::new();
    let id = insert_foreign(&store, "Made", 1).remove(0);
    let full = RateLimited::per_second(0, None);
    let routes = Routes::new().add(Route::event("Made").deliver_to(full.clone()));
    let builder = Outbox::builder(FaultyStore::on(&store), routes).busy_grace(secs(3600));
    let outbox = builder.start().expect("start");
    sleep(secs(3500)).await;
    assert_eq!((row(&store, &id).status, row(&store, &id).attempts), (Status::New, 0));
    eventually(HOUR, || status(&store, &id) == Status::Dead).await;
    assert_eq!(row(&store, &id).last_error.as_deref(), Some("the queue is full"));
    drop(outbox);
}

/// One of several queues behind a destination is full: its events wait, the others are delivered.
#[tokio::test(start_paused = true)]
async fn one_full_queue_does_not_close_the_route_for_other_events() {
    let store = MemoryStore::new();
    let taken = Recorder::with(|delivery| match delivery.aggregate_id() {
        Some("full") => Outcome::busy("the queue is full"),
        _ => Outcome::done(),
    });
    let routes = Routes::new().add(Route::fallback().deliver_to(taken.clone()));
    let outbox = Outbox::builder(FaultyStore::on(&store), routes).single_node().start().expect("start");
    let event = |aggregate: &str| {
        let event = posthaste::Event::builder("Made").aggregate("Queue", aggregate);
        event.json_text("{}").build().expect("a good event")
    };
    let full = commit(&store, &outbox, vec![event("full")]).await.remove(0);
    for n in 0..200 {
        let id = commit(&store, &outbox, vec![event("open")]).await.remove(0);
        eventually(secs(20), || status(&store, &id) == Status::Done).await;
        sleep(secs(n % 7)).await;
    }
    assert_eq!((status(&store, &full), row(&store, &full).attempts), (Status::New, 0));
    drop(outbox);
}

/// An event that was never sent says nothing about the destination.
#[tokio::test(start_paused = true)]
async fn event_that_is_refused_unsent_does_not_reopen_a_closed_route() {
    let store = MemoryStore::new();
    let recorder = Recorder::with(|delivery| match delivery.event_type() {
        "Broken" => Outcome::Unsendable("the topic has a space".to_owned()),
        _ => Outcome::no_connection("connection refused"),
    });
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let builder = Outbox::builder(FaultyStore::on(&store), routes);
    let outbox = builder.poll_interval(millis(100)).start().expect("start");
    let parked = insert_foreign(&store, "Made", 50);
    eventually(secs(5), || recorder.count() > 0).await;
    sleep(secs(60)).await;
    let tried = recorder.count();
    // An engine that considers the route open brings all of them back, whether it tries them or not.
    let writes = || parked.iter().map(|id| store.writes(id)).sum::<u64>();
    let before = writes();
    let broken = insert_foreign(&store, "Broken", 1).remove(0);
    eventually(secs(600), || status(&store, &broken) == Status::Dead).await;
    sleep(secs(1)).await;
    let (more, written) = (recorder.count() - tried, writes() - before);
    assert!(more < 20, "the parked events were not tried again because of it: {more}");
    assert!(written < 50, "nor were they brought back: {written}");
    drop(outbox);
}
