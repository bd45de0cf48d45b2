//! Routes: which event goes to which destinations, how fast, and to how many.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::admin::{Admin, Replay};
use posthaste::config::QueueConfig;
use posthaste::{
    Config, Delivery, Destination, Event, GLOBAL, MemoryStore, Outbox, Outcome, Profile, Recorder, Route,
    Routes, Status,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::support::*;

#[test]
fn routes_are_refused_by_a_check_as_by_an_outbox() {
    let routes = || routes_to(&Recorder::new()).add(Route::event("Made").rate(0.0));
    let mut config = Config::default();
    config.workers = Some(0);
    let checked = routes().check(&config).unwrap_err();
    assert_eq!(checked.problems.len(), 4, "{checked}");
    let built = Outbox::from_config(MemoryStore::new(), config, routes()).build().unwrap_err();
    assert_eq!(checked, built);
    assert_eq!(routes_to(&Recorder::new()).check(&Config::default()), Ok(()));
}

// S3-76
#[tokio::test(start_paused = true)]
async fn event_without_a_route_is_dead_immediately_on_a_single_node() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    let hot = commit_one(&store.inner, &outbox, "Unknown").await;
    let cold = insert_foreign(&store.inner, "Unknown", 1).remove(0);
    let good = commit_one(&store.inner, &outbox, "Made").await;
    outbox.idle().await.expect("idle");
    for id in [&hot, &cold] {
        let row = row(&store.inner, id);
        assert_eq!((row.status, row.attempts), (Status::Dead, 0));
        assert!(row.last_error.is_some_and(|reason| reason.starts_with("no route")));
    }
    assert_each_once(&recorder, &[good]);
}

// A rolling deployment
#[tokio::test(start_paused = true)]
async fn event_without_a_route_here_is_delivered_by_the_node_that_has_one() {
    let (store, recorder) = (FaultyStore::new().without_wake(), Recorder::new());
    let old_routes = Routes::new().handle("Old", async |_: Delivery| ());
    let old = Outbox::builder(store.clone(), old_routes).start().expect("start");
    let id = commit_one(&store.inner, &old, "Made").await;
    sleep(secs(60)).await;
    let waiting = row(&store.inner, &id);
    assert_eq!((waiting.status, waiting.attempts), (Status::New, 0));

    // The new engine polls at the same times as the old one, just after it.
    let new = Outbox::builder(store.clone(), routes_to(&recorder)).start().expect("start");
    eventually(secs(530), || status(&store.inner, &id) == Status::Done).await;
    assert_each_once(&recorder, &[id]);
    drop((old, new));
}

// S3-76
#[tokio::test(start_paused = true)]
async fn event_without_a_route_on_any_node_is_dead_after_the_grace() {
    let store = FaultyStore::new();
    let routes = Routes::new().handle("Old", async |_: Delivery| ());
    let outbox = Outbox::builder(store.clone(), routes).start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    sleep(secs(590)).await;
    assert_eq!(status(&store.inner, &id), Status::New);
    eventually(secs(60), || status(&store.inner, &id) == Status::Dead).await;
    let row = row(&store.inner, &id);
    assert_eq!(row.attempts, 0);
    assert!(row.last_error.is_some_and(|reason| reason.starts_with("no route")));
}

// T7
#[tokio::test(start_paused = true)]
async fn replayed_event_that_died_without_a_route_has_its_grace_again() {
    let store = FaultyStore::new();
    let routes = Routes::new().handle("Old", async |_: Delivery| ());
    let builder = Outbox::builder(store.clone(), routes).no_route_grace(secs(60));
    let outbox = builder.start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    eventually(secs(120), || status(&store.inner, &id) == Status::Dead).await;
    store.inner.replay(&id, &Replay::by("test")).await.expect("replay");

    sleep(secs(50)).await;
    let waiting = row(&store.inner, &id);
    assert_eq!(waiting.status, Status::New);
    assert!(waiting.last_error.is_some_and(|error| error.starts_with("no route")), "it was tried");
    eventually(secs(120), || status(&store.inner, &id) == Status::Dead).await;
}

// S2-34, D11
#[tokio::test(start_paused = true)]
async fn fan_out_retries_only_the_destination_that_is_missing_the_event() {
    let store = FaultyStore::new();
    let (mail, search) = (Recorder::new(), Recorder::new());
    let kafka = Recorder::with(|delivery| match delivery.attempt {
        1 | 2 => Outcome::retry("no leader"),
        _ => Outcome::done(),
    });
    let route = Route::event("Made")
        .fan_out_to("mail", mail.clone())
        .fan_out_to("kafka", kafka.clone())
        .fan_out_to("search", search.clone());
    let outbox = single_node(&store, Routes::new().add(route)).retry(plain_retry(5)).start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    eventually(secs(1), || row(&store.inner, &id).attempts == 1).await;
    let failed = row(&store.inner, &id);
    assert_eq!(failed.progress.into_iter().collect::<Vec<_>>(), ["mail", "search"]);
    assert_eq!(failed.last_error.as_deref(), Some("kafka: no leader"));

    eventually(secs(2), || status(&store.inner, &id) == Status::Done).await;
    assert_eq!((mail.count(), kafka.count(), search.count()), (1, 3, 1));
}

// T7
#[tokio::test(start_paused = true)]
async fn replay_of_a_fan_out_keeps_its_progress_unless_it_is_reset() {
    let store = FaultyStore::new();
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let mail = Recorder::new();
    let kafka = Recorder::with({
        let broken = Arc::clone(&broken);
        move |_| if broken.load(Ordering::SeqCst) { Outcome::retry("no") } else { Outcome::done() }
    });
    let route = Route::event("Made").fan_out_to("mail", mail.clone()).fan_out_to("kafka", kafka.clone());
    let builder = single_node(&store, Routes::new().add(route)).retry(plain_retry(2));
    let outbox = builder.start().expect("start");
    let ids = commit(&store.inner, &outbox, events("Made", 2)).await;
    eventually(secs(2), || count_in(&store.inner, Status::Dead) == 2).await;
    assert_eq!((mail.count(), kafka.count()), (2, 4));

    broken.store(false, Ordering::SeqCst);
    assert!(store.inner.replay(&ids[0], &Replay::by("test")).await.expect("replay"));
    let all_over = Replay::by("test").with_forget_progress(true);
    assert!(store.inner.replay(&ids[1], &all_over).await.expect("replay"));
    outbox.idle().await.expect("idle");
    assert_eq!(count_in(&store.inner, Status::Done), 2);
    assert_eq!((mail.count_of(&ids[0]), mail.count_of(&ids[1])), (1, 2));
    let replayed = kafka.deliveries().pop().expect("a delivery");
    assert_eq!((replayed.replays, replayed.attempt), (1, 1), "T7: attempts start again");
}

// An outage of one destination
#[tokio::test(start_paused = true)]
async fn outage_of_one_destination_of_a_fan_out_keeps_the_progress_of_the_other() {
    let store = FaultyStore::new();
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let mail = Recorder::new();
    let kafka = Recorder::with({
        let broken = Arc::clone(&broken);
        move |_| match broken.load(Ordering::SeqCst) {
            true => Outcome::no_connection("refused"),
            false => Outcome::done(),
        }
    });
    let route = Route::event("Made").fan_out_to("mail", mail.clone()).fan_out_to("kafka", kafka.clone());
    let outbox = single_node(&store, Routes::new().add(route)).start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;
    sleep(secs(60)).await;
    assert_eq!(row(&store.inner, &id).attempts, 0);
    broken.store(false, Ordering::SeqCst);
    eventually(secs(320), || status(&store.inner, &id) == Status::Done).await;
    assert_eq!(mail.count(), 1);
}

#[derive(Serialize, Deserialize, posthaste::Event)]
#[event(type = "OrderPlaced", aggregate = "Order")]
struct OrderPlaced {
    #[event(aggregate_id)]
    order: u64,
}

// S3-18, S3-104
#[tokio::test(start_paused = true)]
async fn typed_handler_gets_its_type_and_an_undecodable_payload_is_dead() {
    let store = FaultyStore::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let routes = Routes::new().on({
        let seen = Arc::clone(&seen);
        move |placed: OrderPlaced, delivery: Delivery| {
            seen.lock().expect("seen").push((placed.order, delivery.aggregate_id().map(str::to_owned)));
            async {}
        }
    });
    let outbox = single_node(&store, routes).start().expect("start");
    let good = Event::of(&OrderPlaced { order: 7 }).expect("event");
    let bad = Event::builder("OrderPlaced").aggregate("Order", 8).json("s3ntinel").build().expect("event");
    let ids = commit(&store.inner, &outbox, vec![bad, good]).await;
    outbox.idle().await.expect("idle");

    assert_eq!(*seen.lock().expect("seen"), [(7, Some("7".to_owned()))]);
    let dead = row(&store.inner, &ids[0]);
    assert_eq!((dead.status, dead.attempts), (Status::Dead, 0));
    assert_eq!(status(&store.inner, &ids[1]), Status::Done);
}

// S3-100, S3-101, S3-103, S3-105
#[tokio::test(start_paused = true)]
async fn exact_route_comes_before_patterns_and_these_before_the_fallback() {
    let store = FaultyStore::new();
    let [exact, first, second, fallback] = [(); 4].map(|()| Recorder::new());
    let routes = Routes::new()
        .add(Route::fallback().deliver_to(fallback.clone()))
        .add(Route::pattern("Order:*").deliver_to(first.clone()))
        .add(Route::pattern("Order:Pl*").deliver_to(second.clone()))
        .add(Route::event("Placed").aggregate("Order").deliver_to(exact.clone()));
    let outbox = single_node(&store, routes).start().expect("start");
    for (aggregate, event_type) in
        [("Order", "Placed"), ("Order", "Plucked"), ("User", "Placed"), ("Order", "Paid")]
    {
        let event = Event::builder(event_type).aggregate(aggregate, 1).json(&1).build().expect("event");
        commit(&store.inner, &outbox, vec![event]).await;
    }
    outbox.idle().await.expect("idle");
    assert_eq!([exact.count(), first.count(), second.count(), fallback.count()], [1, 2, 0, 1]);
    assert_eq!(fallback.deliveries()[0].aggregate_type(), "User");
}

#[tokio::test(start_paused = true)]
async fn route_of_an_event_type_takes_every_aggregate_but_those_with_a_route_of_their_own() {
    let store = FaultyStore::new();
    let [any, users, global, pattern] = [(); 4].map(|()| Recorder::new());
    let routes = Routes::new()
        .add(Route::pattern("*:Placed").deliver_to(pattern.clone()))
        .add(Route::event("Placed").aggregate("User").deliver_to(users.clone()))
        .add(Route::event("Placed").aggregate(GLOBAL).tenant("acme").deliver_to(global.clone()))
        .add(Route::event("Placed").deliver_to(any.clone()));
    let outbox = single_node(&store, routes).start().expect("start");
    for (aggregate, tenant) in [("User", None), ("Order", None), (GLOBAL, None), (GLOBAL, Some("acme"))] {
        let event = Event::builder("Placed").aggregate(aggregate, 1).json(&1);
        let event = tenant.into_iter().fold(event, posthaste::EventBuilder::tenant_id);
        commit(&store.inner, &outbox, vec![event.build().expect("event")]).await;
    }
    outbox.idle().await.expect("idle");
    assert_eq!([any.count(), users.count(), global.count(), pattern.count()], [2, 1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn tenant_chooses_among_routes_of_the_same_events() {
    let store = FaultyStore::new();
    let [acme, first, any, exact_acme, exact, rest_bolt, rest] = [(); 7].map(|()| Recorder::new());
    let routes = Routes::new()
        .add(Route::pattern("Order:*").tenant("acme-*").deliver_to(acme.clone()))
        .add(Route::pattern("Order:P*").deliver_to(first.clone()))
        .add(Route::pattern("Order:*").deliver_to(any.clone()))
        .add(Route::event("Sent").deliver_to(exact.clone()))
        .add(Route::event("Sent").tenant("acme-1").deliver_to(exact_acme.clone()))
        .add(Route::fallback().deliver_to(rest.clone()))
        .add(Route::fallback().tenant("bolt").deliver_to(rest_bolt.clone()));
    let outbox = single_node(&store, routes).start().expect("start");
    for (aggregate, event_type, tenant) in [
        ("Order", "Placed", Some("acme-1")),
        ("Order", "Placed", Some("bolt")),
        ("Order", "Sold", None),
        (GLOBAL, "Sent", Some("acme-1")),
        (GLOBAL, "Sent", None),
        ("User", "Born", Some("bolt")),
        ("User", "Born", None),
    ] {
        let event = Event::builder(event_type).aggregate(aggregate, 1).json(&1);
        let event = tenant.into_iter().fold(event, posthaste::EventBuilder::tenant_id);
        commit(&store.inner, &outbox, vec![event.build().expect("event")]).await;
    }
    outbox.idle().await.expect("idle");
    for (n, route) in [acme, first, any, exact_acme, exact, rest_bolt, rest].iter().enumerate() {
        assert_eq!(route.count(), 1, "route {n}");
    }
}

#[test]
fn routes_of_the_same_events_and_tenants_are_refused() {
    let pattern = || Route::pattern("Order:*").tenant("acme").deliver_to(Recorder::new());
    let exact = || Route::event("Sent").tenant("acme").deliver_to(Recorder::new());
    let routes = Routes::new()
        .add(pattern())
        .add(pattern().name("again"))
        .add(exact())
        .add(exact().name("and again"))
        .add(Route::fallback().tenant("").deliver_to(Recorder::new()));
    let error = Outbox::builder(MemoryStore::new(), routes).single_node().build().expect_err("refused");
    let settings: Vec<&str> = error.problems.iter().map(|problem| problem.setting.as_str()).collect();
    assert_eq!(settings, [r#"routes."again""#, r#"routes."and again""#, r#"routes."fallback@""#]);
}

// S2-38: concurrency
#[tokio::test(start_paused = true)]
async fn route_with_a_concurrency_never_exceeds_it_and_leaves_workers_to_other_routes() {
    let store = FaultyStore::new();
    let (few, many) = (Gated::new(Recorder::new()), Gated::new(Recorder::new()));
    let routes = Routes::new()
        .add(Route::event("Few").deliver_to(few.clone()).concurrency(2))
        .add(Route::event("Many").deliver_to(many.clone()));
    let outbox = single_node(&store, routes).workers(6).start().expect("start");
    let mut batch = events("Few", 30);
    batch.extend(events("Many", 30));
    commit(&store.inner, &outbox, batch).await;
    sleep(secs(1)).await;
    assert_eq!((few.gate.entered(), many.gate.entered()), (2, 4));

    many.gate.open();
    few.gate.admit(5);
    sleep(secs(1)).await;
    assert_eq!((few.gate.entered(), few.gate.max_inside()), (7, 2));
    few.gate.open();
    outbox.idle().await.expect("idle");
    assert_eq!((few.gate.max_inside(), few.inner.count(), many.inner.count()), (2, 30, 30));
}

#[tokio::test(start_paused = true)]
async fn route_with_a_rate_keeps_to_it_and_reaches_it() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let times = Arc::new(Mutex::new(Vec::new()));
    let timed = Recorder::with({
        let times = Arc::clone(&times);
        move |_| {
            times.lock().expect("times").push(Instant::now());
            Outcome::done()
        }
    });
    let routes = routes_to(&recorder).add(Route::event("Slow").deliver_to(timed.clone()).rate(50.0));
    let outbox = single_node(&store, routes).start().expect("start");
    let started = Instant::now();
    let mut batch = events("Slow", 500);
    batch.extend(events("Made", 100));
    commit(&store.inner, &outbox, batch).await;
    eventually(secs(1), || recorder.count() == 100).await;
    eventually(secs(20), || timed.count() == 500).await;

    let took = started.elapsed();
    assert!((millis(9_700)..millis(10_300)).contains(&took), "500 at 50 per second, not {took:?}");
    let times = times.lock().expect("times");
    let busiest = (0..times.len())
        .map(|from| times[from..].iter().take_while(|at| **at < times[from] + secs(1)).count())
        .max();
    assert!(busiest <= Some(52), "{busiest:?} in one second");
}

// Invariant 7: a limited route with a backlog
#[tokio::test(start_paused = true)]
async fn cold_backlog_of_a_route_with_a_rate_holds_up_no_other_route() {
    let (store, limited, free) = (FaultyStore::new(), Recorder::new(), Recorder::new());
    let routes = routes_to(&free).add(Route::event("Slow").deliver_to(limited.clone()).rate(1.0));
    let backlog = insert_foreign(&store.inner, "Slow", 2000);
    let others = insert_foreign(&store.inner, "Made", 1);
    let outbox = single_node(&store, routes).start().expect("start");

    eventually(secs(10), || free.count() == 1).await;
    assert_each_once(&free, &others);
    eventually(secs(2100), || limited.count() == 2000).await;
    outbox.idle().await.expect("idle");
    assert_each_once(&limited, &backlog);
}

// Invariant 7: a limited route with a backlog
#[tokio::test(start_paused = true)]
async fn hot_backlog_of_a_route_with_a_rate_holds_up_no_other_route() {
    let (store, limited, free) = (FaultyStore::new(), Recorder::new(), Recorder::new());
    let routes = routes_to(&free).add(Route::event("Slow").deliver_to(limited.clone()).rate(1.0));
    let outbox = single_node(&store, routes).start().expect("start");
    for _ in 0..30 {
        commit(&store.inner, &outbox, events("Slow", 100)).await;
        sleep(millis(1)).await;
    }

    let id = commit_one(&store.inner, &outbox, "Made").await;
    eventually(secs(1), || free.count() == 1).await;
    assert_each_once(&free, &[id]);
}

/// The only problem of a route: its setting and its advice.
#[track_caller]
fn refusal(route: Route) -> (String, String) {
    let built = Outbox::builder(FaultyStore::new(), Routes::new().add(route)).single_node().build();
    let mut problems = built.expect_err("a bad route").problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    let problem = problems.remove(0);
    (problem.setting, problem.advice)
}

#[test]
fn timeout_of_a_route_is_longer_than_zero_and_at_most_a_day() {
    let day = HOUR * 24;
    let route = |timeout| Route::event("Made").deliver_to(Recorder::new()).timeout(timeout);
    for good in [Duration::from_nanos(1), day] {
        let routes = Routes::new().add(route(good));
        assert!(Outbox::builder(FaultyStore::new(), routes).single_node().build().is_ok(), "{good:?}");
    }
    for bad in [Duration::ZERO, day + Duration::from_nanos(1), Duration::MAX] {
        let (setting, advice) = refusal(route(bad));
        assert_eq!(setting, r#"routes."Made""#, "{bad:?}");
        assert!(advice.starts_with("timeout must be"), "{advice}");
    }
}

#[test]
fn batch_size_of_a_destination_is_1_to_10000_events() {
    let route = |batch| Route::event("Made").deliver_to(Recorder::new().publisher(batch));
    for good in [1, 10_000] {
        let routes = Routes::new().add(route(good));
        assert!(Outbox::builder(FaultyStore::new(), routes).single_node().build().is_ok(), "{good}");
    }
    for bad in [0, 10_001] {
        let (setting, advice) = refusal(route(bad));
        assert_eq!(setting, r#"routes."Made""#, "{bad}");
        assert!(advice.starts_with("the batch size of its destination"), "{advice}");
    }
}

#[test]
fn destination_of_a_fan_out_has_a_name_without_control_characters() {
    for bad in ["a\0", "a\nb", "\u{85}"] {
        let (setting, advice) = refusal(Route::event("Made").fan_out_to(bad, Recorder::new()));
        assert_eq!(setting, r#"routes."Made""#, "{bad:?}");
        assert!(advice.ends_with("must not contain control characters"), "{advice}");
    }
}

/// Records the size of every batch.
#[derive(Clone)]
struct BatchSizes {
    sizes: Arc<Mutex<Vec<usize>>>,
    takes: Duration,
}

#[async_trait]
impl Destination for BatchSizes {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        self.sizes.lock().expect("sizes").push(batch.len());
        sleep(self.takes).await;
        batch.iter().map(|_| Outcome::done()).collect()
    }

    fn profile(&self) -> Profile {
        Profile::publisher(100)
    }
}

// S2-03: natural batches
#[tokio::test(start_paused = true)]
async fn batch_has_the_queued_events_and_never_waits_for_more() {
    let store = FaultyStore::new();
    let batches = BatchSizes { sizes: Arc::default(), takes: millis(20) };
    let routes = Routes::new().add(Route::event("Made").deliver_to(batches.clone()).batch(30));
    let outbox = single_node(&store, routes).workers(1).start().expect("start");
    let started = Instant::now();
    commit_one(&store.inner, &outbox, "Made").await;
    eventually(millis(5), || batches.sizes.lock().expect("sizes").len() == 1).await;
    assert!(started.elapsed() < millis(5), "one event is delivered immediately");

    commit(&store.inner, &outbox, events("Made", 70)).await;
    sleep(millis(200)).await;
    assert_eq!(*batches.sizes.lock().expect("sizes"), [1, 30, 30, 10]);
    outbox.idle().await.expect("idle");
    assert_eq!(count_in(&store.inner, Status::Done), 71);
}

// S2-10, S2-56, S3-03, S3-82, D10
#[tokio::test(start_paused = true)]
async fn hot_and_cold_events_share_the_workers_two_to_one() {
    use posthaste::config::{Fairness, QueueConfig};
    for (fairness, cold_in_first_60) in [(Fairness::Weighted, 20), (Fairness::HotFirst, 0)] {
        let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
        let queue = QueueConfig::default().with_fairness(fairness);
        let builder = single_node(&store, routes_to(&slow)).workers(1).queue(queue).poll_batch(1000);
        let outbox = builder.start().expect("start");
        commit_one(&store.inner, &outbox, "Made").await;
        eventually(secs(1), || slow.gate.entered() == 1).await;
        insert_foreign(&store.inner, "Made", 100);
        outbox.poll_once().await.expect("poll");
        commit(&store.inner, &outbox, events("Made", 100)).await;
        slow.gate.open();
        outbox.idle().await.expect("idle");

        let sources: Vec<_> = slow.inner.deliveries().iter().map(|delivery| delivery.source).collect();
        let cold = sources[1..61].iter().filter(|source| **source == posthaste::Source::Cold).count();
        assert_eq!(cold, cold_in_first_60, "{fairness:?}");
        assert_eq!(sources.len(), 201);
    }
}

// A route's share of the queue fills and drains many times without waiting for the next poll.
#[tokio::test(start_paused = true)]
async fn backlog_of_one_of_two_routes_drains_without_waiting_for_the_poll_interval() {
    for (cold, batch, count) in [(8, 50, 100), (100, 50, 2000), (1000, 500, 4000)] {
        let (store, recorder) = (FaultyStore::new(), Recorder::new());
        let slow = Slow::new(millis(1), recorder.clone());
        let routes = routes_to(&slow).add(Route::event("Other").deliver_to(Recorder::new()));
        insert_foreign(&store.inner, "Made", count);
        let queue = QueueConfig::default().with_cold(cold);
        let builder = single_node(&store, routes).queue(queue).poll_batch(batch);
        let outbox = builder.poll_interval(secs(60)).start().expect("start");

        let took = eventually(secs(600), || recorder.count() == count).await;

        assert!(took < secs(5), "{count} events of a millisecond each took {took:?}");
        outbox.shutdown().await;
    }
}

#[test]
fn routes_with_ambiguous_parts_have_different_names() {
    let one = Route::event("c").aggregate("a:b").deliver_to(Recorder::new());
    let other = Route::event("b:c").aggregate("a").deliver_to(Recorder::new());
    let of_a_tenant = Route::event("c").aggregate("d").tenant("shop").deliver_to(Recorder::new());
    let of_all = Route::event("c@shop").aggregate("d").deliver_to(Recorder::new());
    let routes = Routes::new().add(one).add(other).add(of_a_tenant).add(of_all);
    assert!(Outbox::builder(MemoryStore::new(), routes).single_node().build().is_ok());
}
