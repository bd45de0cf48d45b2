//! Keeps a log readable when one thing goes wrong many times: the first lines of a kind are written, the
//! others of the next ten seconds are counted.
//!
//! A kind is a place in the code together with the outbox and the route that it speaks of: a store that
//! fails does not silence another. Nothing below INFO is left out, because who asks for it wants all of it, and
//! nothing of what operators did, because such a line may be the only record.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste_sqlx::foreign::AUDIT;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

/// So many lines of a kind are written.
const MAX_LINES_PER_WINDOW: u64 = 5;
/// In so long a time.
const WINDOW: Duration = Duration::from_secs(10);
/// Kinds come from the code and the configuration; this bounds them all the same.
const MAX_KINDS: usize = 1000;

/// The lines of a kind in the window that runs.
#[derive(Debug)]
struct Kind {
    since: Instant,
    count: u64,
    what: What,
}

/// What was left out of the log.
#[derive(Debug, PartialEq, Eq)]
struct LeftOut {
    count: u64,
    what: What,
}

static KINDS: Mutex<Option<HashMap<String, Kind>>> = Mutex::new(None);

/// Leaves out repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeats;

impl<S: Subscriber> Filter<S> for Repeats {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let (level, target) = (event.metadata().level(), event.metadata().target());
        if *level > Level::INFO || [AUDIT, module_path!()].contains(&target) {
            return true;
        }
        let mut what = What::default();
        event.record(&mut what);
        let key = format!("{:?} {:?} {:?}", event.metadata().callsite(), what.outbox, what.route);
        let mut kinds = lock();
        note(kinds.get_or_insert_default(), key, what, Instant::now())
    }
}

/// Says every ten seconds what was left out. Runs until it is dropped.
pub async fn report_repeats() {
    let mut ticks = tokio::time::interval(WINDOW / 2);
    loop {
        ticks.tick().await;
        report(WINDOW);
    }
}

/// Says what was left out and not yet reported: nobody will when the program ends.
pub fn report_now() {
    report(Duration::ZERO);
}

/// Of windows that are at least so old.
fn report(age: Duration) {
    // The lock is not held while lines are written, because each of them is looked at too.
    let left_out = lock().as_mut().map(|kinds| sweep(kinds, Instant::now(), age)).unwrap_or_default();
    for LeftOut { count, what: What { message, outbox, route } } in left_out {
        tracing::warn!(count, of = message, outbox, route, "log lines left out, all of the same kind");
    }
}

/// Counts a line; answers whether it is written.
fn note(kinds: &mut HashMap<String, Kind>, key: String, what: What, now: Instant) -> bool {
    if kinds.len() >= MAX_KINDS && !kinds.contains_key(&key) {
        return true;
    }
    let kind = kinds.entry(key).or_insert(Kind { since: now, count: 0, what });
    kind.count += 1;
    kind.count <= MAX_LINES_PER_WINDOW
}

/// Ends the windows that are at least so old.
fn sweep(kinds: &mut HashMap<String, Kind>, now: Instant, age: Duration) -> Vec<LeftOut> {
    let over = kinds.extract_if(|_, kind| now.saturating_duration_since(kind.since) >= age);
    over.filter(|(_, kind)| kind.count > MAX_LINES_PER_WINDOW)
        .map(|(_, kind)| LeftOut { count: kind.count - MAX_LINES_PER_WINDOW, what: kind.what })
        .collect()
}

fn lock() -> MutexGuard<'static, Option<HashMap<String, Kind>>> {
    KINDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a line speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct What {
    message: String,
    outbox: Option<String>,
    route: Option<String>,
}

impl Visit for What {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            "outbox" => self.outbox = Some(value.to_owned()),
            "route" => self.route = Some(value.to_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(outbox: &str) -> What {
        What { message: "it broke".to_owned(), outbox: Some(outbox.to_owned()), route: None }
    }

    #[test]
    fn first_lines_of_a_kind_are_written_and_the_others_counted() {
        let (mut kinds, now) = (HashMap::new(), Instant::now());
        let mut write = |key: &str, at| note(&mut kinds, key.to_owned(), what(key), at);
        let written = (0..100).filter(|_| write("a", now)).count();
        assert_eq!(written, 5);
        assert!(write("b", now), "another kind is not silenced");

        assert_eq!(sweep(&mut kinds, now, WINDOW), [], "the window is not over");
        let later = now + WINDOW;
        assert_eq!(sweep(&mut kinds, later, WINDOW), [LeftOut { count: 95, what: what("a") }]);
        assert!(note(&mut kinds, "a".to_owned(), what("a"), later), "and begins anew");
    }

    #[test]
    fn what_was_left_out_last_is_reported_at_the_end() {
        let (mut kinds, now) = (HashMap::new(), Instant::now());
        for _ in 0..7 {
            note(&mut kinds, "a".to_owned(), what("a"), now);
        }
        assert_eq!(sweep(&mut kinds, now, Duration::ZERO), [LeftOut { count: 2, what: what("a") }]);
        assert_eq!(sweep(&mut kinds, now, Duration::ZERO), [], "and only once");
    }

    #[test]
    fn kinds_are_bounded() {
        let (mut kinds, now) = (HashMap::new(), Instant::now());
        for n in 0..MAX_KINDS + 10 {
            assert!(note(&mut kinds, n.to_string(), what("a"), now));
        }
        assert_eq!(kinds.len(), MAX_KINDS);
    }
}
