//! Waiting in real time: until a condition holds, or while it must keep holding.

use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::time::{interval, timeout};

/// Longer than any test, for intervals that must not elapse.
pub const HOUR: Duration = Duration::from_secs(3600);

/// Maximum wait for something that should happen soon.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for a future, and fails if it does not finish within 30 seconds.
pub async fn within_timeout<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(WAIT_TIMEOUT, work).await.unwrap_or_else(|_| panic!("not within {WAIT_TIMEOUT:?}: {what}"))
}

/// Repeats a check until it returns true, and fails after 30 seconds. For conditions without a signal: the work of
/// another process, or rows that another connection changes.
pub async fn wait_until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    within_timeout(what, async {
        let mut ticks = interval(Duration::from_millis(10));
        while !is_so().await {
            ticks.tick().await;
        }
    })
    .await;
}

/// Repeats a check for this long, and fails as soon as it returns false.
pub async fn assert_throughout(span: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    let mut ticks = interval(Duration::from_millis(20));
    while started.elapsed() < span {
        ticks.tick().await;
        assert!(is_so().await, "not so after {:?}: {what}", started.elapsed());
    }
}

/// Polls a future at most `polls` times and then drops it, sometimes a moment later, so that work it has started may be
/// finished or in progress. Returns its output if it finished.
pub async fn drop_after<F: Future>(polls: usize, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut left = polls;
    let output = std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match work.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // Half of the time, without waiting for the next wake-up.
            Poll::Pending if left == 0 && fastrand::bool() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    let output = output.await;
    if output.is_none() {
        let moment = Duration::from_micros(fastrand::u64(0..150));
        let started = Instant::now();
        while started.elapsed() < moment {
            std::hint::spin_loop();
        }
    }
    output
}
