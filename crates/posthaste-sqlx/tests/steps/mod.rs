//! Small words for common steps, for the tests of every store.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "every test file uses a part of it")]

#[macro_use]
pub mod cases;
mod findings;
pub mod log;
pub mod payloads;
#[macro_use]
pub mod script;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use posthaste::{BoxError, Event, Recorder, WriterHook};

pub use findings::{assert_found, diagnosed, diagnosed_with, found, statement_of};

pub const HOUR: Duration = Duration::from_secs(3600);

pub fn event(id: &str) -> Event {
    Event::builder("Tested").id(id).json_text("{}").build().expect("a good event")
}

pub fn events(ids: &[&str]) -> Vec<Event> {
    ids.iter().map(|id| event(id)).collect()
}

/// What was delivered, sorted, repeats included.
pub fn delivered(recorder: &Recorder) -> Vec<String> {
    let mut ids: Vec<String> = recorder.ids().iter().map(ToString::to_string).collect();
    ids.sort();
    ids
}

pub fn set_of(ids: impl IntoIterator<Item = impl ToString>) -> BTreeSet<String> {
    ids.into_iter().map(|id| id.to_string()).collect()
}

/// Waits for something that has to happen soon, on real time.
pub async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let patience = Duration::from_secs(30);
    tokio::time::timeout(patience, work).await.unwrap_or_else(|_| panic!("not within {patience:?}: {what}"))
}

/// Asks again and again until the answer is yes. For what gives no signal: another process, or rows
/// that somebody else changes.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    soon(what, async {
        let mut look = tokio::time::interval(Duration::from_millis(10));
        while !is_so().await {
            look.tick().await;
        }
    })
    .await;
}

/// Polls a future at most so many times, then drops it, sometimes a little later: what it asked for
/// may have happened by then, or be happening.
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

/// Notes every call of a hook, in order: `name id,id`.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, name: &str, events: &[Event]) {
        let ids: Vec<&str> = events.iter().map(|event| event.id().as_str()).collect();
        self.0.lock().expect("no test panics in it").push(format!("{name} {}", ids.join(",")));
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lock().expect("no test panics in it").clone()
    }

    /// The calls of one hook.
    pub fn of(&self, name: &str) -> Vec<String> {
        let ids = |line: &String| line.strip_prefix(name).map(|ids| ids.trim_start().to_owned());
        self.lines().iter().filter_map(ids).collect()
    }
}

impl WriterHook for Log {
    fn before_write(&self, events: Vec<Event>) -> Result<Vec<Event>, BoxError> {
        self.note("before_write", &events);
        Ok(events)
    }

    fn after_write(&self, events: &[Event]) {
        self.note("after_write", events);
    }

    fn after_commit(&self, events: &[Event]) {
        self.note("after_commit", events);
    }

    fn after_rollback(&self, events: &[Event]) {
        self.note("after_rollback", events);
    }
}
