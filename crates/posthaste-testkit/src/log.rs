//! Log capture: records what a thread or the whole process logs during a test.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// Selects the spans and events to record.
pub type Filter = fn(&Metadata<'_>) -> bool;

/// An event, a new span, or values that were recorded in a span later.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// The level. TRACE for values recorded later.
    pub level: Level,
    /// The target.
    pub target: &'static str,
    /// All fields, including the message: ` name=value name=value`.
    pub fields: String,
}

/// The lines logged since this was made.
#[derive(Debug)]
pub struct Log {
    lines: LogLines,
    _guard: Option<DefaultGuard>,
}

type LogLines = Arc<Mutex<Vec<LogLine>>>;

impl Log {
    /// Records everything that this thread logs, at every level, until it is dropped.
    pub fn of_thread() -> Self {
        Self::of_thread_where(|_| true)
    }

    /// As [`of_thread`](Self::of_thread), for the lines that the filter selects.
    pub fn of_thread_where(filter: Filter) -> Self {
        ask_every_subscriber();
        let lines = LogLines::default();
        let subscriber = LogSubscriber { lines: Arc::clone(&lines), filter };
        Self { lines, _guard: Some(tracing::subscriber::set_default(subscriber)) }
    }

    /// Records what the whole process logs from the first call on. Later calls return the same log and ignore their
    /// filter.
    pub fn of_process_where(filter: Filter) -> Self {
        static LINES: OnceLock<LogLines> = OnceLock::new();
        let lines = LINES.get_or_init(|| {
            let lines = LogLines::default();
            let subscriber = LogSubscriber { lines: Arc::clone(&lines), filter };
            tracing::subscriber::set_global_default(subscriber).expect("this process has no other log");
            lines
        });
        Self { lines: Arc::clone(lines), _guard: None }
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<LogLine> {
        lock(&self.lines).clone()
    }

    /// Number of lines of this level whose fields contain this text.
    pub fn count(&self, level: Level, text: &str) -> usize {
        lock(&self.lines).iter().filter(|line| line.level == level && line.fields.contains(text)).count()
    }

    /// All lines so far, as text: `LEVEL target name=value name=value`.
    pub fn text(&self) -> String {
        let lines = lock(&self.lines);
        lines.iter().map(|line| format!("{} {}{}\n", line.level, line.target, line.fields)).collect()
    }
}

/// Makes tracing ask every subscriber of the process whether a log line is enabled.
///
/// While the process has one dispatcher, tracing asks only the subscriber of the thread that reaches a line first and
/// caches the result for all threads. That thread may belong to a test without a log. With two dispatchers tracing asks
/// both; this function registers the second. A test that sets a subscriber of its own must call this function first, or
/// its program cannot contain other tests.
pub fn ask_every_subscriber() {
    static SECOND_SUBSCRIBER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
    LazyLock::force(&SECOND_SUBSCRIBER);
}

struct LogSubscriber {
    lines: LogLines,
    filter: Filter,
}

impl LogSubscriber {
    fn note(&self, metadata: &Metadata<'static>, record: impl FnOnce(&mut Fields)) {
        self.push(*metadata.level(), metadata.target(), record);
    }

    fn push(&self, level: Level, target: &'static str, record: impl FnOnce(&mut Fields)) {
        let mut fields = Fields(String::new());
        record(&mut fields);
        lock(&self.lines).push(LogLine { level, target, fields: fields.0 });
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for LogSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        (self.filter)(metadata)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note(span.metadata(), |fields| span.record(fields));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.push(Level::TRACE, "recorded later", |fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.note(event.metadata(), |fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn lock(lines: &LogLines) -> MutexGuard<'_, Vec<LogLine>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}
