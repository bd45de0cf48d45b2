//! What is written to the log, at the finest level.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// Keeps every line of this thread's log as long as it lives.
pub struct Lines {
    text: Arc<Mutex<String>>,
    _guard: DefaultGuard,
}

impl Lines {
    pub fn keep() -> Self {
        LazyLock::force(&SECOND);
        let text = Arc::new(Mutex::new(String::new()));
        let guard = tracing::subscriber::set_default(Keeper(Arc::clone(&text)));
        Self { text, _guard: guard }
    }

    pub fn text(&self) -> String {
        lock(&self.text).clone()
    }
}

/// While there is one subscriber, tracing asks for that of the thread that first comes to a line whether the
/// line is wanted, and keeps the answer for all. That thread may be a test without a log. While there are
/// two, it asks them both.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

struct Keeper(Arc<Mutex<String>>);

impl Keeper {
    fn note(&self, metadata: &Metadata<'_>, record: impl FnOnce(&mut Fields)) {
        let mut fields = Fields(format!("{} {}", metadata.level(), metadata.target()));
        record(&mut fields);
        let _ = writeln!(lock(&self.0), "{}", fields.0);
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Keeper {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note(span.metadata(), |fields| span.record(fields));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut fields = Fields(String::new());
        values.record(&mut fields);
        lock(&self.0).push_str(&fields.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.note(event.metadata(), |fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn lock(text: &Mutex<String>) -> MutexGuard<'_, String> {
    text.lock().expect("nobody panics with it")
}
