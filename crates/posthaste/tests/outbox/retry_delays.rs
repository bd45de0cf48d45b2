//! The delays between the attempts of an event, as its retry policy computes them.

use posthaste::{Config, MemoryStore, Outcome, Recorder, RetryPolicy, Status};

use crate::support::*;

// S4-11, S4-12, S4-13: the fifth failure is the last, so no delay follows it.
#[test]
fn kafka_polling_waits_100_200_400_and_800_ms_between_its_five_attempts() {
    let retry = Config::kafka_polling().retry.expect("set");
    for _ in 0..10 {
        let backoff = retry.backoff();
        assert_eq!(*backoff.delays, [100, 200, 400, 800].map(millis));
        let waits: Vec<_> = (1..=6).map(|count| backoff.after(count)).collect();
        assert_eq!(waits, [Some(100), Some(200), Some(400), Some(800), None, None].map(|ms| ms.map(millis)));
    }
    assert_eq!(retry.delay(5), millis(1600));
    assert_eq!(retry.delay(6), millis(1600), "the cap");
}

// S2-45, S2-46, S3-70, S3-106, S3-107
#[test]
fn default_retry_doubles_from_200_ms_to_a_minute_within_half_and_one_and_a_half() {
    let retry = RetryPolicy::default();
    let expected = [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000].map(millis);
    for (count, expected) in (1..).zip(expected) {
        let delays: Vec<_> = (0..1000).map(|_| retry.delay(count)).collect();
        let (least, most) = (delays.iter().min().expect("some"), delays.iter().max().expect("some"));
        assert!((expected.mul_f64(0.5)..expected.mul_f64(0.6)).contains(least), "{count}: {least:?}");
        assert!((expected.mul_f64(1.4)..=expected.mul_f64(1.5)).contains(most), "{count}: {most:?}");
    }
    let backoff = retry.backoff();
    assert_eq!((backoff.max_attempts, backoff.delays.len()), (10, 9));
    assert!(backoff.after(9).is_some() && backoff.after(10).is_none());
}

#[tokio::test(start_paused = true)]
async fn number_of_attempts_applies_whatever_the_order_of_the_setters_is() {
    let policy = || RetryPolicy::default().with_base_delay(millis(20));
    for number_first in [true, false] {
        let (store, failing) = (MemoryStore::new(), Recorder::with(|_| Outcome::retry("no")));
        insert_foreign(&store, "Made", 1);
        let builder = single_node(&store, routes_to(&failing));
        let builder = match number_first {
            true => builder.max_attempts(2).retry(policy()),
            false => builder.retry(policy()).max_attempts(2),
        };
        let outbox = builder.start().expect("start");
        eventually(secs(60), || count_in(&store, Status::Dead) == 1).await;
        assert_eq!(failing.count(), 2, "{number_first}");
        outbox.shutdown().await;
    }
}
