//! The trace of a request: captured into the events that it writes, and sent on with a new span per attempt.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste::trace::{CaptureTrace, TRACEPARENT, TRACESTATE, TraceContext};
use posthaste::{
    Event, EventBuilder, Headers, Limits, MemoryStore, MemoryWriter, Outbox, Outcome, Recorder, Route,
    Routes, WriterHook,
};
use posthaste_testkit::log::ask_every_subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

const CURRENT_TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER_TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const VENDOR_STATE: &str = "vendor=1,other=2";

fn valid_event() -> EventBuilder {
    Event::builder("Made").json(&1)
}

fn current() -> Option<TraceContext> {
    TraceContext::parse(CURRENT_TRACEPARENT, Some(VENDOR_STATE))
}

/// The headers of an event after a hook ran.
fn captured(hook: &CaptureTrace, event: EventBuilder) -> Headers {
    let events = hook.before_write(vec![event.build().expect("event")]).expect("events");
    Limits::default().check(events[0].parts()).expect("within the limits");
    events[0].headers().clone()
}

fn value<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.get(name).map(String::as_str)
}

#[test]
fn event_gets_the_span_in_which_it_is_written() {
    let headers = captured(&CaptureTrace::from_fn(current), valid_event().header("region", "eu"));
    assert_eq!(value(&headers, TRACEPARENT), Some(CURRENT_TRACEPARENT));
    assert_eq!(value(&headers, TRACESTATE), Some(VENDOR_STATE));
    assert_eq!(value(&headers, "region"), Some("eu"));
}

#[test]
fn event_that_names_its_trace_keeps_it() {
    let hook = CaptureTrace::from_fn(current);
    let headers = captured(&hook, valid_event().header(TRACEPARENT, OTHER_TRACEPARENT));
    assert_eq!(value(&headers, TRACEPARENT), Some(OTHER_TRACEPARENT));
    assert_eq!(value(&headers, TRACESTATE), None, "the state of another trace");

    let headers = captured(&hook, valid_event().header(TRACESTATE, "mine=1"));
    assert_eq!((value(&headers, TRACEPARENT), value(&headers, TRACESTATE)), (None, Some("mine=1")));
}

#[test]
fn nothing_is_captured_outside_of_a_trace() {
    assert_eq!(captured(&CaptureTrace::from_fn(|| None), valid_event()), Headers::new());
}

#[test]
fn current_span_is_read_once_per_write_and_only_if_an_event_needs_it() {
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let hook = CaptureTrace::from_fn(move || {
        *count.lock().expect("count") += 1;
        current()
    });
    captured(&hook, valid_event().header(TRACEPARENT, OTHER_TRACEPARENT));
    assert_eq!(*asked.lock().expect("count"), 0);
    hook.before_write((0..5).map(|_| valid_event().build().expect("event")).collect()).expect("events");
    assert_eq!(*asked.lock().expect("count"), 1);
}

#[test]
fn headers_never_pass_their_limits_for_a_trace() {
    let hook = CaptureTrace::from_fn(current);
    let with_headers = |n: usize| (0..n).fold(valid_event(), |event, n| event.header(format!("h{n}"), ""));
    let names = |headers: &Headers| (headers.contains_key(TRACEPARENT), headers.contains_key(TRACESTATE));
    assert_eq!(names(&captured(&hook, with_headers(Limits::HEADERS - 2))), (true, true));
    assert_eq!(names(&captured(&hook, with_headers(Limits::HEADERS - 1))), (true, false));
    assert_eq!(names(&captured(&hook, with_headers(Limits::HEADERS))), (false, false));

    let parent = TRACEPARENT.len() + CURRENT_TRACEPARENT.len();
    let both = parent + TRACESTATE.len() + VENDOR_STATE.len();
    let leaving = |room: usize| valid_event().header("h", "x".repeat(Limits::HEADER_BYTES - 1 - room));
    assert_eq!(names(&captured(&hook, leaving(both))), (true, true));
    assert_eq!(names(&captured(&hook, leaving(both - 1))), (true, false));
    assert_eq!(names(&captured(&hook, leaving(parent))), (true, false));
    assert_eq!(names(&captured(&hook, leaving(parent - 1))), (false, false));
}

/// Commits one event and delivers it until nothing is due.
async fn deliver(outbox: &Outbox, store: &MemoryStore, event: EventBuilder) {
    let mut tx = MemoryWriter::new(store, outbox).begin().await.expect("begin");
    tx.write(event.build().expect("event")).await.expect("write");
    tx.commit().await.expect("commit");
    outbox.idle().await.expect("idle");
}

fn routes_to(recorder: &Recorder) -> Routes {
    Routes::new().add(Route::event("Made").deliver_to(recorder.clone()).name("made"))
}

#[tokio::test(start_paused = true)]
async fn every_attempt_sends_another_span_of_the_same_trace_on() {
    let recorder = Recorder::with(|delivery| match delivery.attempt {
        1 | 2 => Outcome::retry_after(Duration::from_secs(1), "no"),
        _ => Outcome::done(),
    });
    let store = MemoryStore::new();
    let outbox = Outbox::builder(store.clone(), routes_to(&recorder))
        .single_node()
        .hook(CaptureTrace::from_fn(current))
        .start()
        .expect("start");
    deliver(&outbox, &store, valid_event()).await;
    recorder.wait_for(3).await;

    let written = current().expect("a context");
    let mut seen = vec![written.span_id()];
    for delivery in recorder.deliveries() {
        assert_eq!(TraceContext::of(&delivery), Some(written.clone()), "the event stays as it was written");
        let sent = delivery.trace.expect("a trace");
        assert_eq!(sent.trace_id(), written.trace_id());
        assert_eq!(sent.tracestate(), Some(VENDOR_STATE));
        assert!(sent.is_sampled());
        assert!(!seen.contains(&sent.span_id()), "{seen:?}");
        seen.push(sent.span_id());
    }
    assert_eq!(seen.len(), 4);
}

/// The output of a subscriber.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl LogBuffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("lines").clone()).expect("text")
    }
}

impl io::Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("lines").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogBuffer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn dispatch_is_a_debug_span_with_event_and_destination() {
    ask_every_subscriber();
    let lines = LogBuffer::default();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("posthaste::dispatch=debug")
        .with_span_events(FmtSpan::NEW)
        .with_ansi(false)
        .with_writer(lines.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (recorder, store) = (Recorder::new(), MemoryStore::new());
    let outbox = Outbox::builder(store.clone(), routes_to(&recorder))
        .single_node()
        .name("orders")
        .start()
        .expect("start");
    let around = tracing::error_span!(target: "posthaste::dispatch", "around").entered();
    deliver(&outbox, &store, valid_event().id("id-1").header(TRACEPARENT, CURRENT_TRACEPARENT)).await;
    drop(around);

    let text = lines.text();
    let dispatches: Vec<&str> = text.lines().filter(|line| line.contains("posthaste.dispatch{")).collect();
    let [dispatch] = dispatches.as_slice() else { panic!("{text}") };
    assert!(dispatch.contains("DEBUG"), "{dispatch}");
    let fields = r#"posthaste.dispatch{outbox="orders" route="made" events=1 event_id=id-1 event_type="Made" attempt=1}"#;
    assert!(dispatch.contains(fields), "{dispatch}");
    assert!(!dispatch.contains("around"), "the task that polls a worker is not its cause: {dispatch}");
    assert!(!text.contains("posthaste.deliver"), "it would not be recorded: {text}");
}

#[tokio::test(start_paused = true)]
async fn dispatch_of_a_batch_has_the_count_and_the_destination() {
    ask_every_subscriber();
    let lines = LogBuffer::default();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("posthaste::dispatch=debug")
        .with_span_events(FmtSpan::NEW)
        .with_ansi(false)
        .with_writer(lines.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let store = MemoryStore::new();
    let publisher = || Recorder::new().publisher(10);
    let route = Route::event("Made").name("made");
    let routes = Routes::new().add(route.fan_out_to("mail", publisher()).fan_out_to("search", publisher()));
    let outbox = Outbox::builder(store.clone(), routes).single_node().start().expect("start");
    let mut tx = MemoryWriter::new(&store, &outbox).begin().await.expect("begin");
    tx.write_all((0..3).map(|_| valid_event().build().expect("event")).collect::<Vec<_>>())
        .await
        .expect("write");
    tx.commit().await.expect("commit");
    outbox.idle().await.expect("idle");

    let text = lines.text();
    for destination in ["mail", "search"] {
        let fields = format!(r#"{{outbox="outbox" route="made" destination="{destination}" events=3}}"#);
        assert_eq!(text.matches(&fields).count(), 1, "{text}");
    }
}
