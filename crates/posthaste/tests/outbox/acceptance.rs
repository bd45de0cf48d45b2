//! Acceptance: the modes, and how an outbox is built, started and stopped.

use posthaste::config::QueueConfig;
use posthaste::memory::RawRow;
use posthaste::{
    CommitError, Config, Delivery, Event, MemoryWriter, Mode, Outbox, Outcome, Recorder, Route, Routes,
    Source, StartError, Status, WriteError,
};
use tokio::time::sleep;

use crate::support::*;

// S2-01, S2-51
#[tokio::test(start_paused = true)]
async fn rolled_back_event_is_never_delivered() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    let writer = MemoryWriter::new(&store.inner, &outbox);

    let mut rolled_back = writer.begin().await.expect("begin");
    rolled_back.write(event("Made")).await.expect("write");
    rolled_back.rollback().await.expect("rollback");
    let mut dropped = writer.begin().await.expect("begin");
    dropped.write_all(events("Made", 3)).await.expect("write");
    drop(dropped);
    let refused: Result<(), Refused> = writer
        .transaction(async |tx| {
            tx.write(event("Made")).await?;
            Err(Refused)
        })
        .await;
    assert!(refused.is_err());

    sleep(HOUR).await;
    outbox.idle().await.expect("idle");
    assert!(store.inner.is_empty());
    assert_eq!(recorder.count(), 0);
}

struct Refused;

impl From<WriteError> for Refused {
    fn from(_: WriteError) -> Self {
        Self
    }
}

impl From<CommitError> for Refused {
    fn from(_: CommitError) -> Self {
        Self
    }
}

// S2-02, S2-22, S2-37, S2-52, S3-02, S3-137
#[tokio::test(start_paused = true)]
async fn committed_event_goes_hot_without_a_read_of_the_store() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).poll_interval(HOUR).start().expect("start");
    eventually(secs(1), || store.count(Call::Claim) == 1).await;

    let id = commit_one(&store.inner, &outbox, "Made").await;
    recorder.wait_for(1).await;
    eventually(secs(1), || status(&store.inner, &id) == Status::Done).await;

    assert_each_once(&recorder, &[id]);
    assert_eq!(recorder.deliveries()[0].source, Source::Hot);
    assert_eq!(store.count(Call::Claim), 1, "the poll at the start, and no other");
    assert_eq!(store.count(Call::Renew), 0, "a proven commit needs no confirmation");
    assert_eq!(store.count(Call::Settle), 1);
}

// S2-23, S2-43, S2-53, S3-72, S3-86, S3-112
#[tokio::test(start_paused = true)]
async fn overflow_of_the_hot_queue_leaves_rows_to_the_poller_and_fails_no_write() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()));
    let queue = QueueConfig::default().with_hot(1);
    let outbox = single_node(&store, routes).workers(1).queue(queue).start().expect("start");
    let first = commit_one(&store.inner, &outbox, "Made").await;
    eventually(secs(1), || slow.gate.entered() == 1).await;

    let ids = commit(&store.inner, &outbox, events("Made", 10)).await;
    let late = commit_one(&store.inner, &outbox, "Made").await;
    sleep(millis(1)).await;
    let all: Vec<_> = std::iter::once(first).chain(ids).chain([late]).collect();
    assert!(all.iter().all(|id| status(&store.inner, id) == Status::New));

    slow.gate.open();
    outbox.idle().await.expect("idle");
    assert_each_once(&slow.inner, &all);
    assert_eq!(count_in(&store.inner, Status::Done), 12);
    let cold = slow.inner.deliveries().iter().filter(|it| it.source == Source::Cold).count();
    assert_eq!(cold, 10, "one ran, one waited, the rest went through the store");
}

// S0-17, S0-21, S2-04, S2-35, S2-54, S3-79, S3-87
#[tokio::test(start_paused = true)]
async fn failing_event_is_retried_with_growing_attempts_and_then_dead() {
    let store = FaultyStore::new();
    let recorder = Recorder::with(|_| Outcome::retry("no"));
    let outbox = single_node(&store, routes_to(&recorder)).retry(plain_retry(3)).start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;

    for attempts in 1..=2 {
        eventually(secs(2), || row(&store.inner, &id).attempts == attempts).await;
        let row = row(&store.inner, &id);
        assert_eq!((row.status, row.last_error.as_deref()), (Status::Retry, Some("no")));
        assert_eq!(row.locked_by, None, "a settlement consumes the lease");
    }
    eventually(secs(2), || status(&store.inner, &id) == Status::Dead).await;
    let row = row(&store.inner, &id);
    assert_eq!((row.attempts, row.last_error.as_deref()), (3, Some("no")));
    assert!(row.done_at.is_some());
    let seen: Vec<u32> = recorder.deliveries().iter().map(|delivery| delivery.attempt).collect();
    assert_eq!(seen, [1, 2, 3]);

    sleep(HOUR).await;
    assert_eq!(recorder.count(), 3, "a DEAD event is left alone");
}

// S2-45, S2-46, S3-107
#[tokio::test(start_paused = true)]
async fn retries_come_when_they_are_due_not_with_the_next_interval() {
    let store = FaultyStore::new();
    let recorder = Recorder::with(|delivery| match delivery.attempt {
        4 => Outcome::done(),
        _ => Outcome::retry("no"),
    });
    let outbox = single_node(&store, routes_to(&recorder))
        .retry(plain_retry(10))
        .poll_interval(HOUR)
        .start()
        .expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;

    let took = eventually(secs(10), || status(&store.inner, &id) == Status::Done).await;
    assert!((millis(700)..millis(800)).contains(&took), "100 + 200 + 400 ms, not {took:?}");
    assert_eq!(recorder.count_of(&id), 4);
}

// S3-70, S3-81, S3-137
#[tokio::test(start_paused = true)]
async fn single_node_runs_four_workers_and_ten_attempts_by_default() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::with(|_| Outcome::retry("no"))));
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow.clone()));
    let outbox = single_node(&store, routes).start().expect("start");
    commit(&store.inner, &outbox, events("Made", 20)).await;
    sleep(secs(1)).await;
    assert_eq!(slow.gate.max_inside(), 4);

    slow.gate.open();
    eventually(HOUR, || count_in(&store.inner, Status::Dead) == 20).await;
    assert!(store.inner.rows().iter().all(|row| row.attempts == 10));
}

// S2-32, S3-02, S3-87, S3-138
#[tokio::test(start_paused = true)]
async fn multi_node_delivers_hot_and_what_other_programs_insert() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = Outbox::builder(store.clone(), routes_to(&recorder)).start().expect("start");
    let mut ids = commit(&store.inner, &outbox, events("Made", 5)).await;
    ids.extend(insert_foreign(&store.inner, "Made", 5));

    outbox.idle().await.expect("idle");
    assert_each_once(&recorder, &ids);
    let hot = recorder.deliveries().iter().filter(|delivery| delivery.source == Source::Hot).count();
    assert_eq!(hot, 5);
}

// S3-48, S3-49
#[tokio::test(start_paused = true)]
async fn tenant_reaches_the_handler_hot_and_cold_and_divides_nothing() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    let tenants = [Some("acme"), Some("zenith"), None];
    let made = |tenant: Option<&str>| {
        let builder = Event::builder("Made").json(&1);
        let builder = if let Some(tenant) = tenant { builder.tenant_id(tenant) } else { builder };
        builder.build().expect("event")
    };
    commit(&store.inner, &outbox, tenants.map(made).into()).await;
    outbox.idle().await.expect("idle");
    for tenant in tenants {
        let mut raw = RawRow::of_type("Made");
        raw.tenant_id = tenant.map(str::to_owned);
        store.inner.insert_raw(raw).expect("new");
    }
    outbox.idle().await.expect("idle");

    let deliveries = recorder.deliveries();
    for tenant in tenants {
        for source in [Source::Hot, Source::Cold] {
            let of_it = deliveries.iter().filter(|it| (it.tenant_id(), it.source) == (tenant, source));
            assert_eq!(of_it.count(), 1, "{tenant:?} {source:?}");
        }
    }
    assert_eq!(deliveries.len(), 6);
}

// S3-134, S3-136, S3-139
#[tokio::test(start_paused = true)]
async fn strict_mode_delivers_one_by_one_in_insertion_order_and_never_hot() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let slow = Slow::new(millis(3), recorder.clone());
    let routes = Routes::new().add(Route::event("Made").deliver_to(slow));
    let outbox = Outbox::builder(store.clone(), routes).strict().poll_batch(7).start().expect("start");
    for _ in 0..30 {
        commit(&store.inner, &outbox, events("Made", 3)).await;
        sleep(millis(2)).await;
    }
    assert!(store.inner.rows().iter().all(|row| row.locked_by.is_none() || row.locked_at.is_some()));

    outbox.idle().await.expect("idle");
    let inserted: Vec<_> = store.inner.rows().into_iter().map(|row| row.id).collect();
    assert_eq!(recorder.ids(), inserted);
    assert!(recorder.deliveries().iter().all(|delivery| delivery.source == Source::Cold));
}

// S3-135, S3-139
#[tokio::test(start_paused = true)]
async fn strict_mode_makes_a_failed_event_dead_and_goes_on_in_order() {
    let store = FaultyStore::new();
    let recorder = Recorder::with(|delivery| match delivery.payload_as::<u32>() {
        Ok(4) => Outcome::retry("no"),
        _ => Outcome::done(),
    });
    let outbox = Outbox::builder(store.clone(), routes_to(&recorder)).strict().start().expect("start");
    let batch = (0..10).map(|n: u32| Event::json("Made", &n).expect("event")).collect();
    let ids = commit(&store.inner, &outbox, batch).await;

    outbox.idle().await.expect("idle");
    sleep(HOUR).await;
    assert_eq!(recorder.ids(), ids, "in order, the failed one not twice");
    assert_eq!(status(&store.inner, &ids[4]), Status::Dead);
    assert_eq!(count_in(&store.inner, Status::Done), 9);
}

// S3-58, S3-99, S3-140
#[tokio::test(start_paused = true)]
async fn writer_only_writes_unleased_rows_and_touches_nothing() {
    let store = FaultyStore::new();
    let outbox = Outbox::builder(store.clone(), Routes::new()).writer_only().start().expect("start");
    let id = commit_one(&store.inner, &outbox, "Made").await;

    sleep(HOUR * 2).await;
    let row = row(&store.inner, &id);
    assert_eq!((row.status, row.locked_by, row.attempts), (Status::New, None, 0));
    assert_eq!(store.count(Call::Claim), 0);
    assert_eq!(outbox.poll_once().await.expect("poll"), 0);
    outbox.shutdown().await;
}

// S3-142, S3-143, S3-129
#[tokio::test(start_paused = true)]
async fn starting_twice_is_harmless_and_after_a_shutdown_an_error() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let outbox = single_node(&store, routes_to(&recorder)).build().expect("build");
    let early = commit_one(&store.inner, &outbox, "Made").await;
    outbox.start().expect("first");
    outbox.start().expect("second");
    let late = commit_one(&store.inner, &outbox, "Made").await;
    outbox.idle().await.expect("idle");
    assert_each_once(&recorder, &[early, late]);

    outbox.shutdown().await;
    assert!(matches!(outbox.start(), Err(StartError::ShutDown)));
    assert_eq!(outbox.shutdown().await, posthaste::ShutdownReport::default());
}

// S3-143
#[tokio::test(start_paused = true)]
async fn outbox_that_was_shut_down_before_its_start_does_not_start() {
    let outbox = Outbox::builder(FaultyStore::new(), routes_to(&Recorder::new()))
        .single_node()
        .build()
        .expect("build");
    outbox.shutdown().await;
    assert!(matches!(outbox.start(), Err(StartError::ShutDown)));
}

// S3-142
#[test]
fn start_outside_a_runtime_is_an_error_and_can_be_repeated_inside_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("runtime");
    let outbox = Outbox::builder(FaultyStore::new(), Routes::new()).single_node().build().expect("build");
    assert!(matches!(outbox.start(), Err(StartError::NoRuntime)));
    runtime.block_on(async {
        outbox.start().expect("start");
        outbox.shutdown().await;
    });
}

// S3-21, S3-141
#[tokio::test(start_paused = true)]
async fn configuration_builds_every_mode() {
    for (mode, delivered, hot) in [
        (Mode::SingleNode, 2, true),
        (Mode::MultiNode, 2, true),
        (Mode::Strict, 2, false),
        (Mode::WriterOnly, 0, false),
    ] {
        let (store, recorder) = (FaultyStore::new(), Recorder::new());
        let mut config = Config::default();
        config.mode = mode;
        let routes = if mode == Mode::WriterOnly { Routes::new() } else { routes_to(&recorder) };
        let outbox = Outbox::from_config(store.clone(), config, routes).build().expect("a good config");
        assert!(format!("{outbox:?}").contains("built"));
        outbox.start().expect("start");
        commit(&store.inner, &outbox, events("Made", 2)).await;
        outbox.idle().await.expect("idle");
        assert_eq!(recorder.count(), delivered, "{mode:?}");
        assert_eq!(recorder.deliveries().iter().any(|it| it.source == Source::Hot), hot, "{mode:?}");
        outbox.shutdown().await;
    }
}

// S3-138, S3-21
#[test]
fn several_nodes_have_a_lease_by_default() {
    let config: Config = toml::from_str("mode = \"multi_node\"").expect("toml");
    assert_eq!(config.lease.duration, secs(30));
    Outbox::from_config(FaultyStore::new(), config, Routes::new()).build().expect("a good configuration");
}

// S3-101, S3-102
#[test]
fn second_route_for_the_same_events_is_refused() {
    let recorder = Recorder::new();
    let routes = routes_to(&recorder).add(Route::event("Made").name("other").deliver_to(recorder.clone()));
    let error = Outbox::builder(FaultyStore::new(), routes).single_node().build().expect_err("duplicate");
    assert_eq!(error.problems.len(), 1);
    assert!(error.to_string().contains("another route takes the same events"), "{error}");

    let same_type_of_another_aggregate = Route::event("Made").aggregate("Order").deliver_to(recorder.clone());
    let routes = routes_to(&recorder).add(same_type_of_another_aggregate);
    Outbox::builder(FaultyStore::new(), routes).single_node().build().expect("different keys");
}

// S3-103, S3-142
#[test]
fn builder_reports_every_problem_together() {
    let routes = Routes::new()
        .handle("Made", async |_: Delivery| ())
        .handle("Made", async |_: Delivery| ())
        .add(Route::event("Nowhere"))
        .add(Route::fallback().deliver_to(Recorder::new()).concurrency(0).rate(-1.0).batch(0));
    let error = Outbox::builder(FaultyStore::new(), routes)
        .single_node()
        .name("")
        .workers(0)
        .poll_batch(0)
        .payload_bytes(0)
        .retry(plain_retry(1).with_max_attempts(0))
        .queue(QueueConfig::default().with_hot(0).with_cold(0).with_bytes(0))
        .metrics_prefix("1")
        .build()
        .expect_err("all wrong");

    let text = error.to_string();
    for setting in [
        "name",
        "workers",
        "poller.batch",
        "payload_bytes",
        "retry.max_attempts",
        "queue.hot",
        "queue.cold",
        "metrics.prefix",
        "Made",
        "Nowhere",
        "fallback",
    ] {
        assert!(error.problems.iter().any(|problem| problem.setting.contains(setting)), "{setting}: {text}");
    }
    let of_fallback = error.problems.iter().filter(|problem| problem.setting.contains("fallback")).count();
    assert_eq!(of_fallback, 3, "concurrency, rate and batch: {text}");
}
