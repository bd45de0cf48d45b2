//! Log capture: keeps what a thread or the whole process logs while a test runs.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// Which spans and events are kept.
pub type Filter = fn(&Metadata<'_>) -> bool;

/// An event, a span that began, or values that a span got later.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// Its level; TRACE for values that a span got later.
    pub level: Level,
    /// Where it comes from.
    pub target: &'static str,
    /// Its fields, the message among them: ` name=value name=value`.
    pub fields: String,
}

/// What was logged since it was made.
#[derive(Debug)]
pub struct Log {
    lines: LogLines,
    _guard: Option<DefaultGuard>,
}

type LogLines = Arc<Mutex<Vec<LogLine>>>;

impl Log {
    /// Keeps everything that this thread logs, at every level, as long as it lives.
    pub fn of_thread() -> Self {
        Self::of_thread_where(|_| true)
    }

    /// The same for a part of it.
    pub fn of_thread_where(filter: Filter) -> Self {
        ask_every_subscriber();
        let lines = LogLines::default();
        let subscriber = LogSubscriber { lines: Arc::clone(&lines), filter };
        Self { lines, _guard: Some(tracing::subscriber::set_default(subscriber)) }
    }

    /// Keeps what the whole process logs from the first call on; later calls return the same, whatever they want.
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

    /// Everything so far.
    pub fn lines(&self) -> Vec<LogLine> {
        lock(&self.lines).clone()
    }

    /// How many lines of this level have this text among their fields.
    pub fn count(&self, level: Level, text: &str) -> usize {
        lock(&self.lines).iter().filter(|line| line.level == level && line.fields.contains(text)).count()
    }

    /// Everything so far, as text: `LEVEL target name=value name=value`.
    pub fn text(&self) -> String {
        let lines = lock(&self.lines);
        lines.iter().map(|line| format!("{} {}{}\n", line.level, line.target, line.fields)).collect()
    }
}

/// Lets tracing ask every subscriber of the process which lines are wanted.
///
/// While there is one subscriber, tracing asks that of the thread which first comes to a line, and keeps the answer
/// for all. That thread may be a test without a log. While there are two, it asks them both; here is the second.
/// A test that sets a subscriber of its own must call this first, or its program can have no other tests.
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
