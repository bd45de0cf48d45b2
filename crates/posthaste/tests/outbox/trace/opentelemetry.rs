//! Traces through OpenTelemetry: what a tracing system receives of an event, from the request to the consumer.

use std::collections::HashMap;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{SpanContext, Status, TraceContextExt as _, TracerProvider as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, Sampler, SdkTracerProvider, SpanData};
use posthaste::trace::{CaptureTrace, TRACEPARENT, TRACESTATE, TraceContext};
use posthaste::{
    Delivery, Event, EventBuilder, Headers, MemoryStore, MemoryWriter, Outbox, Outcome, Recorder, Routes,
    WriterHook,
};
use posthaste_testkit::log::ask_every_subscriber;
use tracing::subscriber::DefaultGuard;
use tracing::{Instrument as _, info_span};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::support::routes_to;

const FOREIGN_TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A tracing system that listens to this thread.
struct Traces {
    exporter: InMemorySpanExporter,
    _provider: SdkTracerProvider,
    _guard: DefaultGuard,
}

impl Traces {
    fn listen(sampler: Sampler) -> Self {
        ask_every_subscriber();
        let exporter = InMemorySpanExporter::default();
        let provider =
            SdkTracerProvider::builder().with_sampler(sampler).with_simple_exporter(exporter.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        Self { exporter, _provider: provider, _guard: guard }
    }

    fn spans(&self, name: &str) -> Vec<SpanData> {
        let spans = self.exporter.get_finished_spans().expect("spans");
        spans.into_iter().filter(|span| span.name == name).collect()
    }

    fn only(&self, name: &str) -> SpanData {
        let mut spans = self.spans(name);
        assert_eq!(spans.len(), 1, "{name}: {spans:?}");
        spans.remove(0)
    }
}

fn all() -> Sampler {
    Sampler::ParentBased(Box::new(Sampler::AlwaysOn))
}

fn valid_event() -> EventBuilder {
    Event::builder("Made").json(&1)
}

/// An outbox that captures traces, and its store.
fn start(routes: Routes) -> (MemoryStore, Outbox) {
    let store = MemoryStore::new();
    let builder =
        Outbox::builder(store.clone(), routes).single_node().hook(CaptureTrace::from_opentelemetry());
    (store, builder.start().expect("start"))
}

async fn commit(store: &MemoryStore, outbox: &Outbox, events: Vec<Event>) {
    let mut tx = MemoryWriter::new(store, outbox).begin().await.expect("begin");
    tx.write_all(events).await.expect("write");
    tx.commit().await.expect("commit");
}

/// A request that writes this many events.
async fn request(store: &MemoryStore, outbox: &Outbox, events: usize) {
    let events = (0..events).map(|_| valid_event().build().expect("event")).collect();
    commit(store, outbox, events).instrument(info_span!("request")).await;
    outbox.idle().await.expect("idle");
}

fn ids(span: &SpanContext) -> (String, String) {
    (span.trace_id().to_string(), span.span_id().to_string())
}

fn span_ids(context: &TraceContext) -> (String, String) {
    (context.trace_id(), context.span_id())
}

fn sent(delivery: &Delivery) -> (String, String) {
    span_ids(delivery.trace.as_ref().expect("a trace"))
}

fn links(span: &SpanData) -> Vec<(String, String)> {
    span.links.iter().map(|link| ids(&link.span_context)).collect()
}

#[tokio::test(start_paused = true)]
async fn trace_leads_from_the_request_to_the_message_of_the_destination() {
    let traces = Traces::listen(all());
    let recorder = Recorder::new();
    let (store, outbox) = start(routes_to(&recorder));
    request(&store, &outbox, 1).await;

    let [delivery] = &recorder.deliveries()[..] else { panic!("one delivery") };
    let request = traces.only("request");
    let (dispatch, deliver) = (traces.only("posthaste.dispatch"), traces.only("posthaste.deliver"));
    let written = TraceContext::of(delivery).expect("captured");
    assert_eq!(span_ids(&written), ids(&request.span_context), "written in the request");
    assert_eq!(sent(delivery), ids(&deliver.span_context), "the span that is sent on exists");
    assert_eq!(deliver.span_context.trace_id(), request.span_context.trace_id());
    assert_eq!(deliver.parent_span_id, request.span_context.span_id());
    assert_eq!(links(&deliver), [ids(&dispatch.span_context)]);
    assert_eq!(links(&dispatch), [ids(&request.span_context)]);
    assert_ne!(dispatch.span_context.trace_id(), request.span_context.trace_id());
    assert_eq!(deliver.status, Status::Unset);
}

#[tokio::test(start_paused = true)]
async fn batch_is_one_dispatch_with_a_link_and_a_span_for_each_event() {
    let traces = Traces::listen(all());
    let recorder = Recorder::new().publisher(10);
    let (store, outbox) = start(routes_to(&recorder));
    let traceless = valid_event().build().expect("event");
    let foreign = valid_event().header(TRACEPARENT, FOREIGN_TRACEPARENT).build().expect("event");
    // Outside any request, so the first event has no trace.
    commit(&store, &outbox, vec![traceless, foreign]).await;
    request(&store, &outbox, 2).await;

    let deliveries = recorder.deliveries();
    let dispatches = traces.spans("posthaste.dispatch");
    assert_eq!(dispatches.len(), 1, "they were committed before a worker ran");
    let written = deliveries.iter().filter_map(|delivery| TraceContext::of(delivery));
    assert_eq!(links(&dispatches[0]), written.map(|written| span_ids(&written)).collect::<Vec<_>>());
    assert_eq!(deliveries[0].trace, None);
    let sent: Vec<_> = deliveries[1..].iter().map(sent).collect();
    let exported = traces.spans("posthaste.deliver");
    assert_eq!(exported.iter().map(|span| ids(&span.span_context)).collect::<Vec<_>>(), sent);
    assert!(exported.iter().all(|span| links(span) == [ids(&dispatches[0].span_context)]));
}

#[tokio::test(start_paused = true)]
async fn handler_works_in_the_trace_of_the_request() {
    let traces = Traces::listen(all());
    let handler = async |_: Delivery| {
        async {}.instrument(info_span!("charge")).await;
    };
    let (store, outbox) = start(Routes::new().handle("Made", handler));
    request(&store, &outbox, 1).await;

    let charge = traces.only("charge");
    assert_eq!(charge.span_context.trace_id(), traces.only("request").span_context.trace_id());
    assert_eq!(charge.parent_span_id, traces.only("posthaste.deliver").span_context.span_id());
}

#[tokio::test(start_paused = true)]
async fn failed_attempt_is_marked_and_the_next_one_has_spans_of_its_own() {
    let traces = Traces::listen(all());
    let recorder = Recorder::with(|delivery| match delivery.attempt {
        1 => Outcome::retry_after(Duration::from_secs(1), "s3ntinel"),
        _ => Outcome::done(),
    });
    let (store, outbox) = start(routes_to(&recorder));
    request(&store, &outbox, 1).await;
    recorder.wait_for(2).await;
    outbox.idle().await.expect("idle");

    for name in ["posthaste.dispatch", "posthaste.deliver"] {
        let spans = traces.spans(name);
        assert_eq!(spans.len(), 2, "{name}");
        assert!(matches!(spans[0].status, Status::Error { .. }), "{:?}", spans[0]);
        assert_eq!(spans[1].status, Status::Unset);
        assert!(!format!("{spans:?}").contains("s3ntinel"), "no text of a destination");
    }
    let exported = traces.spans("posthaste.deliver");
    let sent: Vec<_> = recorder.deliveries().iter().map(sent).collect();
    assert_eq!(exported.iter().map(|span| ids(&span.span_context)).collect::<Vec<_>>(), sent);
}

#[tokio::test(start_paused = true)]
async fn tracestate_is_passed_on_to_the_destination() {
    let traces = Traces::listen(all());
    let recorder = Recorder::new();
    let (store, outbox) = start(routes_to(&recorder));
    let incoming = remote(FOREIGN_TRACEPARENT, "vendor=1");
    let span = {
        let _in_it = incoming.attach();
        info_span!("request")
    };
    commit(&store, &outbox, vec![valid_event().build().expect("event")]).instrument(span).await;
    outbox.idle().await.expect("idle");

    let [delivery] = &recorder.deliveries()[..] else { panic!("one delivery") };
    assert_eq!(delivery.headers().get(TRACESTATE).map(String::as_str), Some("vendor=1"));
    assert_eq!(delivery.trace.as_ref().and_then(TraceContext::tracestate), Some("vendor=1"));
    assert_eq!(traces.only("posthaste.deliver").span_context.trace_state().header(), "vendor=1");
}

#[tokio::test(start_paused = true)]
async fn unsampled_trace_stays_unsampled() {
    let traces = Traces::listen(all());
    let recorder = Recorder::new();
    let (store, outbox) = start(routes_to(&recorder));
    let unsampled = FOREIGN_TRACEPARENT.replace("-01", "-00");
    commit(&store, &outbox, vec![valid_event().header(TRACEPARENT, &unsampled).build().expect("event")])
        .await;
    outbox.idle().await.expect("idle");

    let written = TraceContext::parse(&unsampled, None).expect("a context");
    let sent = recorder.deliveries()[0].trace.clone().expect("a trace");
    assert_eq!((sent.trace_id(), sent.is_sampled()), (written.trace_id(), false));
    assert_ne!(sent.span_id(), written.span_id());
    assert!(traces.spans("posthaste.deliver").is_empty());
    assert_eq!(links(&traces.only("posthaste.dispatch")), [span_ids(&written)]);
}

#[tokio::test(start_paused = true)]
async fn trace_continues_where_the_sampler_records_nothing() {
    let traces = Traces::listen(Sampler::AlwaysOff);
    let recorder = Recorder::new();
    let (store, outbox) = start(routes_to(&recorder));
    commit(
        &store,
        &outbox,
        vec![valid_event().header(TRACEPARENT, FOREIGN_TRACEPARENT).build().expect("event")],
    )
    .await;
    outbox.idle().await.expect("idle");

    let written = TraceContext::parse(FOREIGN_TRACEPARENT, None).expect("a context");
    let sent = recorder.deliveries()[0].trace.clone().expect("a trace");
    assert_eq!((sent.trace_id(), sent.is_sampled()), (written.trace_id(), true));
    assert_ne!(sent.span_id(), written.span_id());
    assert!(traces.exporter.get_finished_spans().expect("spans").is_empty());
}

fn captured() -> Headers {
    let events = vec![valid_event().build().expect("event")];
    let events = CaptureTrace::from_opentelemetry().before_write(events).expect("events");
    events[0].headers().clone()
}

fn remote(traceparent: &str, tracestate: &str) -> Context {
    let headers = [(TRACEPARENT, traceparent), (TRACESTATE, tracestate)];
    let headers: HashMap<_, _> = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    TraceContextPropagator::new().extract(&headers)
}

#[test]
fn nothing_is_captured_outside_of_any_span() {
    assert_eq!(captured(), Headers::new(), "nothing is listening");
    let _traces = Traces::listen(all());
    assert_eq!(captured(), Headers::new(), "no span");
}

#[test]
fn context_of_opentelemetry_is_captured_where_there_is_no_span() {
    let _in_it = remote(FOREIGN_TRACEPARENT, "vendor=1").attach();
    let headers = captured();
    assert_eq!(headers.get(TRACEPARENT).map(String::as_str), Some(FOREIGN_TRACEPARENT));
    assert_eq!(headers.get(TRACESTATE).map(String::as_str), Some("vendor=1"));
}

#[test]
fn span_is_captured_before_the_context_around_it() {
    let _traces = Traces::listen(all());
    let _around = remote(FOREIGN_TRACEPARENT, "vendor=1").attach();
    let span = info_span!(parent: None, "request").entered();
    let own = tracing_opentelemetry::OpenTelemetrySpanExt::context(&*span);
    let captured = TraceContext::parse(&captured()[TRACEPARENT], None).expect("a context");
    assert_eq!(span_ids(&captured), ids(own.span().span_context()));
}
