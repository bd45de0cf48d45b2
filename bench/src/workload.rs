//! The workload: events of a given size, written by several concurrent writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use posthaste::Event;
use tokio::task::JoinSet;

/// The type of every event.
pub(super) const EVENT_TYPE: &str = "Bench";

/// Size of a workload.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) events: u64,
    pub(super) writers: usize,
    pub(super) workers: usize,
    text: Arc<str>,
    body: Arc<str>,
}

impl Load {
    pub(super) fn new(events: u64, writers: usize, workers: usize, payload_bytes: usize) -> Self {
        // The JSON text has quotes around it.
        let text: Arc<str> = "x".repeat(payload_bytes.saturating_sub(2)).into();
        let body = format!("\"{text}\"").into();
        Self { events, writers, workers, text, body }
    }

    /// The payload as it is stored.
    pub(super) fn body(&self) -> &str {
        &self.body
    }

    pub(super) fn event(&self) -> anyhow::Result<Event> {
        Ok(Event::json(EVENT_TYPE, &*self.text)?)
    }

    pub(super) fn events(&self, count: u64) -> anyhow::Result<Vec<Event>> {
        (0..count).map(|_| self.event()).collect()
    }

    /// Calls `work` with 0, 1, …, `times` - 1 on all writers concurrently, each time with a clone of `with`. Returns
    /// how long it took.
    pub(super) async fn spread<T, F, Fut>(&self, times: u64, with: &T, work: F) -> anyhow::Result<Duration>
    where
        T: Clone + Send + Sync + 'static,
        F: Fn(T, Self, u64) -> Fut + Copy + Send + 'static,
        Fut: Future<Output = anyhow::Result<()>> + Send,
    {
        let next = Arc::new(AtomicU64::new(0));
        let started = Instant::now();
        let mut writers = JoinSet::new();
        for _ in 0..self.writers {
            let (next, with, load) = (Arc::clone(&next), with.clone(), self.clone());
            writers.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= times {
                        return anyhow::Ok(());
                    }
                    work(with.clone(), load.clone(), number).await?;
                    // A store whose futures are always ready must not starve the engine.
                    tokio::task::yield_now().await;
                }
            });
        }
        while let Some(writer) = writers.join_next().await {
            writer??;
        }
        Ok(started.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_has_the_size_that_was_asked_for() -> anyhow::Result<()> {
        for bytes in [2, 3, 200] {
            let load = Load::new(1, 1, 1, bytes);
            assert_eq!((load.event()?.payload().len(), load.body().len()), (bytes, bytes));
        }
        Ok(())
    }
}
