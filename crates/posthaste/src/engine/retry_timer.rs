//! The retry timer: when events that this engine deferred or that failed here are due again, so that the poller does
//! not have to wait for its next interval.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::mutex::lock;

/// The most instants remembered. Events beyond that are found at the poller's interval.
const MAX_INSTANTS: usize = 10_000;

/// Filled by the settler and the workers, awaited by the poller.
#[derive(Debug, Default)]
pub(crate) struct RetryTimer {
    times: Mutex<BinaryHeap<Reverse<Instant>>>,
    earlier: Notify,
}

impl RetryTimer {
    pub(crate) fn add(&self, at: Instant) {
        let mut times = self.lock();
        let earlier = times.peek().is_none_or(|Reverse(first)| at < *first);
        if times.len() < MAX_INSTANTS {
            times.push(Reverse(at));
        }
        drop(times);
        if earlier {
            self.earlier.notify_one();
        }
    }

    /// Waits until the next instant is reached, and forgets all that are in the past.
    pub(crate) async fn next(&self) {
        loop {
            let earlier = self.earlier.notified();
            let first = self.lock().peek().map(|Reverse(first)| *first);
            match first {
                None => earlier.await,
                Some(first) if first <= Instant::now() => break,
                Some(first) => {
                    let _ = tokio::time::timeout_at(first, earlier).await;
                }
            }
        }
        let now = Instant::now();
        let mut times = self.lock();
        while times.peek().is_some_and(|Reverse(first)| *first <= now) {
            times.pop();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BinaryHeap<Reverse<Instant>>> {
        lock(&self.times)
    }
}
