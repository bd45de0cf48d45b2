//! Log deduplication: of the lines of one kind, the first five in ten seconds are written and the rest are counted.
//!
//! A kind is a call site together with the outbox and the route of the line, so a store that fails does not silence the
//! lines of another one. Lines below INFO always pass, because an operator who enables them wants all of them. Lines
//! about changes by operators always pass too, because for a foreign table such a line is the only record.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste_sqlx::foreign::AUDIT;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

/// Lines of one kind that are written in a window.
const MAX_LINES_PER_WINDOW: u64 = 5;
/// The length of a window.
const REPEAT_WINDOW: Duration = Duration::from_secs(10);
/// Kinds come from the code and the configuration, so they are few. This bounds their memory in any case.
const MAX_REPEAT_WINDOWS: usize = 1000;

/// The current window of one kind.
#[derive(Debug)]
struct RepeatWindow {
    /// When the first line of the window came.
    since: Instant,
    /// All lines since then, written or not.
    count: u64,
    /// The first line of the window.
    what: LineFields,
}

/// Lines of one kind that were not written.
#[derive(Debug, PartialEq, Eq)]
struct SuppressedLines {
    count: u64,
    what: LineFields,
}

/// The open windows of this process, by kind; `None` before the first line. Written by the filter, swept by `report`.
static REPEAT_WINDOWS: Mutex<Option<HashMap<String, RepeatWindow>>> = Mutex::new(None);

/// A filter that drops the lines beyond [`MAX_LINES_PER_WINDOW`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RepeatFilter;

impl<S: Subscriber> Filter<S> for RepeatFilter {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let (level, target) = (event.metadata().level(), event.metadata().target());
        if *level > Level::INFO || [AUDIT, module_path!()].contains(&target) {
            return true;
        }
        let mut what = LineFields::default();
        event.record(&mut what);
        let key = format!("{:?} {:?} {:?}", event.metadata().callsite(), what.outbox, what.route);
        let mut windows = lock();
        note(windows.get_or_insert_default(), key, what, Instant::now())
    }
}

/// Logs the number of dropped lines when a window ends. Runs until it is dropped.
pub async fn report_repeats() {
    let mut ticks = tokio::time::interval(REPEAT_WINDOW / 2);
    loop {
        ticks.tick().await;
        report(REPEAT_WINDOW);
    }
}

/// Logs the number of dropped lines of all open windows. Call it before the process ends.
pub fn report_now() {
    report(Duration::ZERO);
}

/// Ends and reports the windows that are at least this old.
fn report(age: Duration) {
    // The lock is released before lines are written, because the filter takes it for each of them.
    let suppressed = lock().as_mut().map(|windows| sweep(windows, Instant::now(), age)).unwrap_or_default();
    for SuppressedLines { count, what: LineFields { message, outbox, route } } in suppressed {
        tracing::warn!(count, of = message, outbox, route, "repeated log lines left out");
    }
}

/// Counts a line; returns whether it is written.
fn note(windows: &mut HashMap<String, RepeatWindow>, key: String, what: LineFields, now: Instant) -> bool {
    if windows.len() >= MAX_REPEAT_WINDOWS && !windows.contains_key(&key) {
        return true;
    }
    let window = windows.entry(key).or_insert(RepeatWindow { since: now, count: 0, what });
    window.count += 1;
    window.count <= MAX_LINES_PER_WINDOW
}

/// Removes the windows that are at least this old; returns those in which lines were dropped.
fn sweep(windows: &mut HashMap<String, RepeatWindow>, now: Instant, age: Duration) -> Vec<SuppressedLines> {
    let over = windows.extract_if(|_, window| now.saturating_duration_since(window.since) >= age);
    over.filter(|(_, window)| window.count > MAX_LINES_PER_WINDOW)
        .map(|(_, window)| SuppressedLines { count: window.count - MAX_LINES_PER_WINDOW, what: window.what })
        .collect()
}

fn lock() -> MutexGuard<'static, Option<HashMap<String, RepeatWindow>>> {
    REPEAT_WINDOWS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The fields of a line that its kind and its report need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LineFields {
    message: String,
    outbox: Option<String>,
    route: Option<String>,
}

impl Visit for LineFields {
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

    fn what(outbox: &str) -> LineFields {
        LineFields { message: "it broke".to_owned(), outbox: Some(outbox.to_owned()), route: None }
    }

    #[test]
    fn first_lines_of_a_kind_are_written_and_the_rest_counted() {
        let (mut windows, now) = (HashMap::new(), Instant::now());
        let mut write = |key: &str, at| note(&mut windows, key.to_owned(), what(key), at);
        let written = (0..100).filter(|_| write("a", now)).count();
        assert_eq!(written, 5);
        assert!(write("b", now), "another kind is not silenced");

        assert_eq!(sweep(&mut windows, now, REPEAT_WINDOW), [], "the window is not over");
        let later = now + REPEAT_WINDOW;
        assert_eq!(
            sweep(&mut windows, later, REPEAT_WINDOW),
            [SuppressedLines { count: 95, what: what("a") }]
        );
        assert!(note(&mut windows, "a".to_owned(), what("a"), later), "a new window begins");
    }

    #[test]
    fn lines_left_out_last_are_reported_at_the_end() {
        let (mut windows, now) = (HashMap::new(), Instant::now());
        for _ in 0..7 {
            note(&mut windows, "a".to_owned(), what("a"), now);
        }
        assert_eq!(sweep(&mut windows, now, Duration::ZERO), [SuppressedLines { count: 2, what: what("a") }]);
        assert_eq!(sweep(&mut windows, now, Duration::ZERO), [], "and only once");
    }

    #[test]
    fn kinds_are_bounded() {
        let (mut windows, now) = (HashMap::new(), Instant::now());
        for n in 0..MAX_REPEAT_WINDOWS + 10 {
            assert!(note(&mut windows, n.to_string(), what("a"), now));
        }
        assert_eq!(windows.len(), MAX_REPEAT_WINDOWS);
    }
}
