//! Waiting on real time: for something that has to happen, or while nothing may change.

use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::time::{interval, timeout};

/// Longer than any test: the interval of a poller that has to be woken.
pub const HOUR: Duration = Duration::from_secs(3600);

/// The longest that a test waits for something that takes a moment.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for something that has to happen soon, and fails if it does not.
pub async fn within_timeout<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(WAIT_TIMEOUT, work).await.unwrap_or_else(|_| panic!("not within {WAIT_TIMEOUT:?}: {what}"))
}

/// Asks again and again until the answer is yes. For what gives no signal: another process, or rows that somebody
/// else changes.
pub async fn wait_until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    within_timeout(what, async {
        let mut ticks = interval(Duration::from_millis(10));
        while !is_so().await {
            ticks.tick().await;
        }
    })
    .await;
}

/// Asks again and again for this long, and fails as soon as the answer is no.
pub async fn assert_throughout(span: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    let mut ticks = interval(Duration::from_millis(20));
    while started.elapsed() < span {
        ticks.tick().await;
        assert!(is_so().await, "not so after {:?}: {what}", started.elapsed());
    }
}

/// Polls a future at most so many times, then drops it, sometimes a little later: what it asked for may have happened
/// by then, or be happening.
pub async fn drop_after<F: Future>(polls: usize, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut left = polls;
    let answer = std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match work.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            // Every other time without waiting for the answer.
            Poll::Pending if left == 0 && fastrand::bool() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    let answer = answer.await;
    if answer.is_none() {
        let moment = Duration::from_micros(fastrand::u64(0..150));
        let started = Instant::now();
        while started.elapsed() < moment {
            std::hint::spin_loop();
        }
    }
    answer
}
