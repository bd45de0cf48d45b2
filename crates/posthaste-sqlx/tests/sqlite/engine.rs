//! The engine on SQLite, end to end: retries, replays of dead events, closed routes, order, delivered rows, shutdown,
//! and a database in trouble.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use posthaste::admin::{Filter, PageRequest, Replay};
use posthaste::config::PurgeConfig;
use posthaste::store::OnDone;
use posthaste::{Admin as _, EventId, Outbox, Outcome, Recorder, RetryPolicy, Route, Routes, Status};
use sqlx::{ConnectOptions as _, Executor as _};

use crate::support::*;

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn quick_retries(max_attempts: u32) -> RetryPolicy {
    let retry = RetryPolicy::default().with_max_attempts(max_attempts).without_jitter();
    retry.with_base_delay(millis(20)).with_max_delay(millis(80))
}

async fn write(db: &Db, outbox: &Outbox, ids: &[&str]) {
    db.write(&Writer::new(&db.store, outbox), ids).await;
}

async fn until_status(db: &Db, id: &str, status: Status) {
    wait_until(&format!("{id} is {status}"), async || db.status(id).await == Some(status)).await;
}

#[tokio::test]
async fn failing_event_is_retried_after_growing_delays_and_then_dead() {
    let db = Db::new().await;
    let times = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&times);
    let recorder = Recorder::with(move |_| {
        seen.lock().expect("no panic").push(Instant::now());
        Outcome::retry("not today")
    });
    let outbox = db.engine(&recorder).retry(quick_retries(4)).start().unwrap();
    write(&db, &outbox, &["a"]).await;
    until_status(&db, "a", Status::Dead).await;
    let attempts: Vec<u32> = recorder.deliveries().iter().map(|delivery| delivery.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    let times = times.lock().expect("no panic").clone();
    for (pair, delay) in times.windows(2).zip([20, 40, 80]) {
        assert!(pair[1] - pair[0] >= millis(delay), "{:?} after a delay of {delay} ms", pair[1] - pair[0]);
    }
    let row = db.store.get(&EventId::from("a")).await.unwrap().unwrap().row;
    assert_eq!((row.attempts, row.last_error.as_deref()), (4, Some("not today")));
    assert!(row.done_at.is_some() && row.locked_by.is_none());
}

/// A file that was restored from a copy assigns numbers a second time.
#[tokio::test]
async fn two_events_with_the_same_number_are_archived_both() {
    let db = Db::new().await;
    let recorder = Recorder::new();
    let outbox =
        db.engine(&recorder).purge(PurgeConfig::default().with_on_done(OnDone::Archive)).start().unwrap();
    for id in ["a", "b"] {
        write(&db, &outbox, &[id]).await;
        until_status(&db, id, Status::Archived).await;
        db.execute("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'outbox_event'").await;
    }
    assert_eq!(db.int("SELECT count(*) FROM outbox_event_archive WHERE seq = 1").await, 2);
    outbox.shutdown().await;
}

#[tokio::test]
async fn replay_wakes_the_engine() {
    let db = Db::new().await;
    let mended = Arc::new(AtomicBool::new(false));
    let is_mended = Arc::clone(&mended);
    let recorder = Recorder::with(move |_| match is_mended.load(Ordering::SeqCst) {
        true => Outcome::done(),
        false => Outcome::Dead("rejected".to_owned()),
    });
    let outbox = db.start(&recorder);
    write(&db, &outbox, &["a", "b"]).await;
    for id in ["a", "b"] {
        until_status(&db, id, Status::Dead).await;
    }
    mended.store(true, Ordering::SeqCst);
    assert!(db.store.replay(&EventId::from("a"), &Replay::by("ann")).await.unwrap());
    within_timeout("the poller, which would sleep for an hour, is woken", recorder.wait_for(3)).await;
    until_status(&db, "a", Status::Done).await;
    assert_eq!(recorder.deliveries()[2].replays, 1);
    assert_eq!(db.store.replay_all(&Filter::dead(), 10, &Replay::by("ann")).await.unwrap(), 1);
    within_timeout("it is woken again", recorder.wait_for(4)).await;
    until_status(&db, "b", Status::Done).await;
}

#[tokio::test]
async fn events_of_a_closed_route_are_parked_and_come_back_when_it_opens() {
    let db = Db::new().await;
    let reachable = Arc::new(AtomicBool::new(false));
    let is_reachable = Arc::clone(&reachable);
    let closed = Recorder::with(move |_| match is_reachable.load(Ordering::SeqCst) {
        true => Outcome::done(),
        false => Outcome::no_connection("refused"),
    });
    let open = Recorder::new();
    let routes = Routes::new()
        .add(Route::event("Tested").name("closed").deliver_to(closed.clone()))
        .add(Route::fallback().deliver_to(open.clone()));
    let outbox = Outbox::builder(db.store.clone(), routes).single_node().poll_interval(HOUR).start().unwrap();
    write(&db, &outbox, &["first"]).await;
    within_timeout("the first one finds the destination closed", closed.wait_for(1)).await;
    write(&db, &outbox, &["a", "b", "c", "d", "e", "f"]).await;
    let mut tx = Writer::new(&db.store, &outbox).begin(&db.pool).await.unwrap();
    tx.write(posthaste::Event::builder("Other").json_text("{}").build().unwrap()).await.unwrap();
    tx.commit().await.unwrap();
    within_timeout("another route continues", open.wait_for(1)).await;
    wait_until("they are parked", async || db.store.stats().await.unwrap().parked >= 3).await;
    let page = PageRequest::first(10);
    let waiting = db.store.list(&Filter::status(Status::New), &page).await.unwrap().items;
    assert!(waiting.iter().all(|row| row.attempts == 0), "an outage spends no attempt: {waiting:?}");
    reachable.store(true, Ordering::SeqCst);
    wait_until("all that were parked are delivered, the first one too", async || {
        db.count(Status::Done).await == 8
    })
    .await;
}

#[tokio::test]
async fn strict_mode_delivers_in_the_order_of_insertion() {
    let db = Db::new().await;
    let recorder = Recorder::with(|delivery| match delivery.id().as_str() {
        "event-07" => Outcome::retry("this one fails"),
        _ => Outcome::done(),
    });
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let outbox =
        Outbox::builder(db.store.clone(), routes).strict().poll_interval(HOUR).poll_batch(8).start().unwrap();
    let ids: Vec<String> = (0..40).map(|n| format!("event-{n:02}")).collect();
    for pair in ids.chunks(3) {
        write(&db, &outbox, &pair.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    within_timeout("all are delivered", recorder.wait_for(40)).await;
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    let order: Vec<String> = recorder.ids().iter().map(ToString::to_string).collect();
    assert_eq!(order, ids);
    assert_eq!((db.count(Status::Done).await, db.count(Status::Dead).await), (39, 1));
}

#[tokio::test]
async fn shutdown_releases_events_that_it_did_not_start() {
    let db = Db::new().await;
    let (started, never) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (start, wait) = (Arc::clone(&started), Arc::clone(&never));
    let routes = Routes::new().handle("Tested", move |_| {
        let (start, wait) = (Arc::clone(&start), Arc::clone(&wait));
        async move {
            start.notify_one();
            wait.notified().await;
        }
    });
    let outbox = Outbox::builder(db.store.clone(), routes).single_node().workers(1).drain(millis(50));
    let outbox = outbox.poll_interval(HOUR).start().unwrap();
    write(&db, &outbox, &["a", "b", "c", "d"]).await;
    within_timeout("the first one runs", started.notified()).await;
    within_timeout("the engine stops", outbox.shutdown()).await;
    assert_eq!(db.int("SELECT count(*) FROM outbox_event WHERE locked_by IS NULL AND status = 0").await, 3);
    let due = "SELECT count(*) FROM outbox_event WHERE locked_by IS NULL AND available_at <= inserted_at + 60000000";
    assert_eq!(db.int(due).await, 3, "due immediately");

    let recorder = Recorder::new();
    let next = db.start(&recorder);
    within_timeout("the next engine has them", recorder.wait_for(3)).await;
    within_timeout("the next engine is idle", next.idle()).await.unwrap();
    assert_eq!(recorder.count(), 3, "the one that was running is left to its lease");
}

// F41
#[tokio::test]
async fn database_that_is_busy_for_seconds_loses_nothing() {
    let db = Db::new().await;
    let recorder = Recorder::new();
    let outbox = db.engine(&recorder).poll_interval(millis(100)).start().unwrap();
    write(&db, &outbox, &["before"]).await;
    within_timeout("it is delivered", recorder.wait_for(1)).await;

    let mut other = db.options.connect().await.unwrap();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    let insert =
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('by-other', 'Tested', '{}')";
    other.execute(insert).await.unwrap();
    // Writers wait for the lock, and the engine cannot settle.
    let waiting = tokio::spawn({
        let (writer, pool) = (Writer::new(&db.store, &outbox), db.pool.clone());
        async move {
            let mut tx = writer.begin(&pool).await?;
            tx.write(event("waited")).await.expect("written");
            tx.commit().await.expect("committed");
            Ok::<(), posthaste::StoreError>(())
        }
    });
    let started = Instant::now();
    wait_until("three seconds are over", async || started.elapsed() > Duration::from_secs(3)).await;
    assert!(!waiting.is_finished(), "it waits for the lock");
    other.execute("COMMIT").await.unwrap();
    within_timeout("the writer has its turn", waiting).await.unwrap().expect("no busy error");
    within_timeout("both are delivered", recorder.wait_for(3)).await;
    wait_until("all are settled", async || db.count(Status::Done).await == 3).await;
    assert_eq!(delivered(&recorder), ["before", "by-other", "waited"], "once each");
}

/// Longer than the busy timeout: calls of the engine fail, and it recovers afterwards.
#[tokio::test]
async fn database_that_is_locked_for_longer_than_the_busy_timeout_loses_nothing() {
    let db = Db::new().await;
    let (arrived, locked) =
        (Arc::new(tokio::sync::Semaphore::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
    let (arrive, lock) = (Arc::clone(&arrived), Arc::clone(&locked));
    let routes = Routes::new().handle("Tested", move |_| {
        let (arrive, lock) = (Arc::clone(&arrive), Arc::clone(&lock));
        async move {
            arrive.add_permits(1);
            let _ = lock.acquire().await.map(drop);
        }
    });
    let outbox =
        Outbox::builder(db.store.clone(), routes).single_node().poll_interval(millis(100)).start().unwrap();
    write(&db, &outbox, &["delivered-but-not-settled"]).await;
    within_timeout("it is delivered", arrived.acquire()).await.unwrap().forget();
    let mut other = db.options.connect().await.unwrap();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    locked.add_permits(1);
    let started = Instant::now();
    wait_until("six seconds are over", async || started.elapsed() > Duration::from_secs(6)).await;
    assert_eq!(db.count(Status::New).await, 1, "it could not be settled");
    other.execute("ROLLBACK").await.unwrap();
    write(&db, &outbox, &["afterwards"]).await;
    wait_until("both are settled", async || db.count(Status::Done).await == 2).await;
    assert_eq!(arrived.available_permits(), 1, "the first one was not delivered again");
}

/// SQLite rolls back by itself when the disk is full, and the driver does not notice.
#[tokio::test]
async fn full_disk_is_survived() {
    let mut place = Place::new().await;
    place.options = place.options.pragma("max_page_count", "120");
    let store = place.builder().migrate().connect().await.unwrap();
    let db = Db { store, pool: place.pool(2).await, place };
    db.execute("CREATE TABLE ballast (bytes BLOB)").await;
    let recorder = Recorder::new();
    let _outbox = db.engine(&recorder).poll_interval(millis(50)).start().unwrap();
    let plain = db.plain_writer();
    let mut tx = plain.begin(&db.pool).await.unwrap();
    for n in 0..20 {
        tx.write(event(&format!("event{n}"))).await.unwrap();
    }
    tx.execute("UPDATE outbox_event SET available_at = 9000000000000000").await.unwrap();
    tx.commit().await.unwrap();
    // Until nothing fits, with smaller and smaller payloads.
    for size in [20_000, 4_000, 500, 50] {
        while run(&db.pool, &format!("INSERT INTO ballast VALUES (zeroblob({size}))")).await.is_ok() {}
    }
    let long = "x".repeat(120);
    db.execute(&format!("INSERT INTO outbox_event_control VALUES ('{long}', 0, 'x')")).await;
    // Archiving, claiming and settling need free pages.
    db.execute("UPDATE outbox_event SET available_at = 0").await;
    let _ = db.store.pause(&"y".repeat(100_000), "ann").await.expect_err("the disk is full");
    let _ = db.store.pause(&"y".repeat(100_000), "ann").await.expect_err("the disk is still full");
    db.execute("DROP TABLE ballast").await;
    within_timeout("everything is delivered", recorder.wait_for(20)).await;
    wait_until("everything is settled", async || db.count(Status::Done).await == 20).await;
}
