//! Bounds of the queues, in events and in bytes, and of the error text in a row.

use posthaste::config::QueueConfig;
use posthaste::memory::RawRow;
use posthaste::{Event, LAST_ERROR_MAX_LENGTH, Outcome, Recorder};
use tokio::time::sleep;

use crate::support::*;

// S2-41, S2-42, S2-56, S3-86, S3-111, S3-114, Invariant 4
#[tokio::test(start_paused = true)]
async fn engine_never_holds_more_than_its_bounds() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new().publisher(10)));
    let queue = QueueConfig::default().with_hot(300).with_cold(200);
    let builder = single_node(&store, routes_to(&slow)).workers(4).queue(queue).poll_batch(500);
    let outbox = builder.publish_timeout(DAY).start().expect("start");
    let mut ids = Vec::new();
    let mut most = 0;
    for _ in 0..100 {
        ids.extend(commit(&store.inner, &outbox, events("Made", 100)).await);
        ids.extend(insert_foreign(&store.inner, "Made", 100));
        sleep(millis(50)).await;
        most = most.max(outbox.held());
    }
    assert!(most <= 300 + 200 + 4 * 10, "{most}");
    assert!(most >= 300, "and it uses them: {most}");

    slow.gate.open();
    for _ in 0..2000 {
        sleep(millis(1)).await;
        most = most.max(outbox.held());
    }
    outbox.idle().await.expect("idle");
    assert!(most <= 300 + 200 + 4 * 10 + 1000, "{most}");
    assert_each_once(&slow.inner, &ids);
}

// S2-44, S3-73, S3-91, S3-98, S3-114
#[tokio::test(start_paused = true)]
async fn poller_claims_only_what_fits_and_nothing_while_the_cold_queue_is_full() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let queue = QueueConfig::default().with_cold(5);
    let builder = single_node(&store, routes_to(&slow)).workers(1).queue(queue);
    let outbox = builder.poll_interval(secs(1)).start().expect("start");
    let ids = insert_foreign(&store.inner, "Made", 30);
    sleep(secs(3)).await;
    assert_eq!(outbox.held(), 6, "one runs, five wait");
    let claims = store.count(Call::Claim);
    sleep(secs(30)).await;
    assert_eq!(outbox.poll_once().await.expect("poll"), 0);
    assert_eq!(store.count(Call::Claim), claims, "no room, no claim");
    let untouched = ids.iter().filter(|id| store.inner.writes(id) == 0).count();
    assert_eq!(untouched, 24, "nothing was claimed in vain");

    slow.gate.open();
    outbox.idle().await.expect("idle");
    assert_each_once(&slow.inner, &ids);
}

// Invariant 4: errors; S0-20, S3-68
#[tokio::test(start_paused = true)]
async fn error_of_any_length_is_kept_with_4000_characters() {
    let store = FaultyStore::new();
    let long = "ü".repeat(LAST_ERROR_MAX_LENGTH + 1);
    let recorder = Recorder::with(move |delivery| match delivery.payload_as::<u32>() {
        Ok(0) => Outcome::Dead(long.clone()),
        Ok(1) => Outcome::retry(long.clone()),
        Ok(2) => Outcome::retry_after(HOUR, long.clone()),
        _ => Outcome::no_answer(long.clone()),
    });
    let outbox = single_node(&store, routes_to(&recorder)).start().expect("start");
    let batch = (0..4u32).map(|n| Event::json("Made", &n).expect("event")).collect();
    let ids = commit(&store.inner, &outbox, batch).await;
    recorder.wait_for(4).await;
    sleep(millis(10)).await;
    for id in ids {
        let error = row(&store.inner, &id).last_error.expect("an error");
        assert_eq!(error.chars().count(), LAST_ERROR_MAX_LENGTH);
        assert!(error.ends_with("ü..."));
    }
}

// Invariant 4: bytes
#[tokio::test(start_paused = true)]
async fn queues_hold_no_more_bytes_than_allowed() {
    let (store, slow) = (FaultyStore::new(), Gated::new(Recorder::new()));
    let queue = QueueConfig::default().with_bytes(8 << 20);
    let builder = single_node(&store, routes_to(&slow)).workers(2).queue(queue);
    let outbox = builder.start().expect("start");
    let big = bytes::Bytes::from(vec![b'x'; (1 << 20) - 10]);
    let mut ids = Vec::new();
    for _ in 0..60 {
        let event = Event::bytes("Made", "text/plain", big.clone()).expect("event");
        ids.extend(commit(&store.inner, &outbox, vec![event]).await);
        let raw = RawRow::of_type("Made").with_payload(big.clone());
        ids.push(raw.id.clone());
        store.inner.insert_raw(raw);
        sleep(millis(200)).await;
        assert!(outbox.held() <= 8 + 2, "{} MiB", outbox.held());
    }
    slow.gate.open();
    outbox.idle().await.expect("idle");
    assert_each_once(&slow.inner, &ids);
}

// Invariants 1 and 4: a row of another program may be of any size
#[tokio::test(start_paused = true)]
async fn event_larger_than_the_byte_bound_is_delivered_alone() {
    let (store, recorder) = (FaultyStore::new(), Recorder::new());
    let queue = QueueConfig::default().with_bytes(1 << 20);
    let outbox = single_node(&store, routes_to(&recorder)).queue(queue).start().expect("start");
    let huge = RawRow::of_type("Made").with_payload(vec![b'1'; 2 << 20]);
    let mut ids = insert_foreign(&store.inner, "Made", 10);
    ids.push(huge.id.clone());
    store.inner.insert_raw(huge);
    let exact = Event::bytes("Made", "text/plain", vec![b'1'; 1 << 20]).expect("as large as may be");
    ids.extend(commit(&store.inner, &outbox, vec![exact]).await);
    ids.extend(insert_foreign(&store.inner, "Made", 10));

    eventually(secs(60), || recorder.count() >= 22).await;
    sleep(HOUR).await;
    assert_each_once(&recorder, &ids);
}
