//! Helpers: publishers, events and outcomes.

use std::sync::Arc;

use posthaste::admin::Severity;
use posthaste::{Delivery, Destination, Event, EventParts, Headers, Outcome};
use posthaste_publishers::Publisher;

use crate::secrets::SENTINEL;

pub(crate) fn publisher(url: &str) -> Arc<dyn Publisher> {
    // Webhooks to this machine must be allowed, which a URL alone cannot do.
    #[cfg(feature = "http")]
    if url.starts_with("http:") {
        return Arc::new(crate::http::local(url).build().expect("a good URL"));
    }
    posthaste_publishers::publisher(url).expect("a good URL")
}

/// Asserts that each URL is refused with its text, after the publisher's name.
pub(crate) fn assert_urls_refused(name: &str, urls: &[(&str, &str)]) {
    for (url, text) in urls {
        let error = posthaste_publishers::publisher(url).expect_err(url);
        assert_eq!(error.to_string(), format!("{name}: {text}"), "{url}");
    }
}

pub(crate) fn order() -> Delivery {
    let event = Event::builder("OrderPlaced").aggregate("Order", "o-17").header("region", "eu");
    Delivery::first(event.json_text(r#"{"total": 42.10}"#).build().expect("a good event"))
}

/// The same event with this change. It may have values that the builder refuses, as a row may.
pub(crate) fn changed(delivery: &Delivery, change: impl FnOnce(&mut EventParts)) -> Delivery {
    let mut parts = delivery.event.to_parts();
    change(&mut parts);
    Delivery::first(Event::from_parts(parts))
}

/// An event with this topic.
pub(crate) fn event_to(topic: &str) -> Delivery {
    changed(&order(), |parts| parts.topic = Some(topic.into()))
}

/// An event with this header and no other.
pub(crate) fn event_with(name: &str, value: &str) -> Delivery {
    changed(&order(), |parts| parts.headers = Headers::from([(name.to_owned(), value.to_owned())]))
}

/// An event with a payload of this size.
pub(crate) fn of_size(bytes: usize) -> Delivery {
    changed(&order(), |parts| parts.payload = "1".repeat(bytes).into())
}

pub(crate) async fn deliver_one(destination: &impl Destination, delivery: Delivery) -> Outcome {
    let mut outcomes = destination.deliver(&[delivery]).await;
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

/// Asserts that an event is delivered.
pub(crate) async fn assert_delivered(destination: &impl Destination) {
    let outcome = deliver_one(destination, order()).await;
    assert!(outcome.is_done(), "{outcome:?}");
}

/// Asserts that all events of a batch are delivered.
pub(crate) async fn assert_all_delivered(destination: &impl Destination, batch: &[Delivery]) {
    let outcomes = destination.deliver(batch).await;
    assert!(outcomes.len() == batch.len() && outcomes.iter().all(Outcome::is_done), "{outcomes:?}");
}

/// The kind of an outcome, and its text.
pub(crate) fn kind_and_text(outcome: &Outcome) -> (&'static str, String) {
    match outcome {
        Outcome::Done { .. } => ("done", String::new()),
        Outcome::Defer(_) => ("defer", String::new()),
        Outcome::Failed(error) => ("retry", error.to_string()),
        Outcome::FailedWithDelay(_, error) => ("retry after", error.to_string()),
        Outcome::Dead(reason) => ("dead", reason.clone()),
        Outcome::Unsendable(reason) => ("unsendable", reason.clone()),
        Outcome::Busy(busy) => ("busy", busy.error.to_string()),
        Outcome::Unreachable(why) if why.connection_failed => ("no connection", why.error.to_string()),
        Outcome::Unreachable(why) => ("no answer", why.error.to_string()),
        other => ("unknown", format!("{other:?}")),
    }
}

pub(crate) fn kinds(outcomes: &[Outcome]) -> Vec<&'static str> {
    outcomes.iter().map(|outcome| kind_and_text(outcome).0).collect()
}

/// Asserts the kind of an outcome and that its text contains no secret, and returns the text.
#[track_caller]
pub(crate) fn text_of(kind: &str, outcome: &Outcome) -> String {
    assert!(!format!("{outcome:?}").contains(SENTINEL), "{outcome:?}");
    let (actual, text) = kind_and_text(outcome);
    assert_eq!(actual, kind, "{outcome:?}");
    text
}

/// The findings of a diagnosis of this URL.
pub(crate) async fn codes(url: &str) -> Vec<(&'static str, Severity)> {
    codes_of(&*publisher(url)).await
}

pub(crate) async fn codes_of(publisher: &dyn Publisher) -> Vec<(&'static str, Severity)> {
    let findings = publisher.diagnose().await;
    println!("{findings:#?}");
    assert!(findings.iter().all(|finding| !finding.what.is_empty() && !finding.advice.is_empty()));
    findings.into_iter().map(|finding| (finding.code, finding.severity)).collect()
}
