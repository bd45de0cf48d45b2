//! Message formats: the body and the headers of the message that is sent for an event.

mod cloud_events;
mod debezium;
mod envelope;
mod raw;

use std::borrow::Cow;
use std::str::FromStr;

use bytes::Bytes;
use posthaste::Delivery;
use posthaste::trace::{TRACEPARENT, TRACESTATE};

/// The format of a message. Every format carries the event's id, its headers, and the trace context of the
/// delivery.
///
/// ```
/// use posthaste_publishers::Format;
///
/// assert_eq!("cloudevents".parse(), Ok(Format::CloudEvents));
/// assert_eq!(Format::default(), Format::Raw);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The payload unchanged; all other fields in headers whose names begin with `outbox-`. The default.
    #[default]
    Raw,
    /// One JSON object with all fields. A payload that is not JSON is in it as base64.
    Envelope,
    /// CloudEvents 1.0 in binary mode: the payload unchanged, the attributes in headers.
    CloudEvents,
    /// CloudEvents 1.0 in structured mode: one JSON object.
    CloudEventsStructured,
    /// The message of Debezium's outbox event router: the payload unchanged, the id in the header `id`, the type in
    /// `eventType`. The default topic is `outbox.event.` and the aggregate type.
    Debezium,
}

/// The name is not the name of a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format: write raw, envelope, cloudevents, cloudevents-structured or debezium")]
#[non_exhaustive]
pub struct UnknownFormat;

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or(UnknownFormat)
    }
}

/// The message of an event, before a publisher converts it for its broker. Brokers differ in where the content type
/// goes.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) body: Bytes,
    pub(crate) content_type: Cow<'a, str>,
    /// Names have the upper and lower case that the format writes, and are unique when compared without case.
    pub(crate) headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// The content type of a payload that names none: it is JSON.
pub(crate) const JSON_CONTENT_TYPE: &str = "application/json";

impl Format {
    const ALL: [Self; 5] =
        [Self::Raw, Self::Envelope, Self::CloudEvents, Self::CloudEventsStructured, Self::Debezium];

    /// The name in URLs and settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Envelope => "envelope",
            Self::CloudEvents => "cloudevents",
            Self::CloudEventsStructured => "cloudevents-structured",
            Self::Debezium => "debezium",
        }
    }

    /// Converts an event into a message. `ce` is the prefix of CloudEvents attributes on this broker: `ce_` on
    /// Kafka, `ce-` on NATS and HTTP, `cloudEvents_` on AMQP.
    pub(crate) fn message<'a>(self, delivery: &'a Delivery, ce: &str) -> Message<'a> {
        let mut message = match self {
            Self::Raw => raw::message(delivery),
            Self::Envelope => envelope::message(delivery),
            Self::CloudEvents => cloud_events::binary(delivery, ce),
            Self::CloudEventsStructured => cloud_events::structured(delivery),
            Self::Debezium => debezium::message(delivery),
        };
        message.add_trace(delivery);
        message.add_headers_of_the_event(delivery, self.reserved(ce));
        message
    }

    /// The prefix that is reserved for this format's own headers.
    fn reserved(self, ce: &str) -> Option<&str> {
        match self {
            Self::Raw | Self::Envelope => Some(raw::HEADER_PREFIX),
            Self::CloudEvents => Some(ce),
            Self::CloudEventsStructured | Self::Debezium => None,
        }
    }

    /// The default topic template. `None` means that the topic must be set.
    pub(crate) fn default_target(self) -> Option<&'static str> {
        matches!(self, Self::Debezium).then_some("outbox.event.{aggregate_type}")
    }
}

impl<'a> Message<'a> {
    fn payload(delivery: &'a Delivery) -> Self {
        Self {
            body: delivery.payload().clone(),
            content_type: content_type(delivery).into(),
            headers: Vec::with_capacity(8 + delivery.headers().len()),
        }
    }

    fn add(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
        self.headers.push((name.into(), value.into()));
    }

    fn add_some<V: Into<Cow<'a, str>>>(&mut self, name: impl Into<Cow<'a, str>>, value: Option<V>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// Adds the trace context of the delivery. It replaces that of the code that wrote the event.
    fn add_trace(&mut self, delivery: &'a Delivery) {
        if let Some(trace) = &delivery.trace {
            self.add(TRACEPARENT, trace.traceparent());
            self.add_some(TRACESTATE, trace.tracestate());
        }
    }

    /// Adds the event's headers, except those whose names are reserved for the format or already present. A reserved
    /// name is left out even if the format adds no header of this name here: a consumer that copies the headers of a
    /// message into a new event must not give it the identity of the old one.
    fn add_headers_of_the_event(&mut self, delivery: &'a Delivery, reserved: Option<&str>) {
        let ours = self.headers.len();
        for (name, value) in delivery.headers() {
            let is_ours = |(other, _): &(Cow<'_, str>, Cow<'_, str>)| other.eq_ignore_ascii_case(name);
            let is_reserved = reserved.is_some_and(|prefix| begins_with(name, prefix));
            if !is_reserved && !self.headers[..ours].iter().any(is_ours) {
                self.add(name.as_str(), value.as_str());
            }
        }
    }

    /// The size in bytes of body, content type and headers, without the overhead of the broker's protocol.
    pub(crate) fn size(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.body.len() + self.content_type.len() + headers
    }
}

/// Whether a name begins with a prefix, compared without case.
fn begins_with(name: &str, prefix: &str) -> bool {
    name.as_bytes().get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// The media type of the payload; JSON if the event names none.
fn content_type(delivery: &Delivery) -> &str {
    delivery.content_type().unwrap_or(JSON_CONTENT_TYPE)
}

/// The payload as JSON text, or `None` if its content type is not JSON or it does not parse.
fn json(delivery: &Delivery) -> Option<&serde_json::value::RawValue> {
    let type_name = content_type(delivery);
    let is_json = type_name == JSON_CONTENT_TYPE
        || type_name.starts_with("application/json;")
        || type_name.ends_with("+json");
    is_json.then(|| serde_json::from_slice(delivery.payload()).ok())?
}

#[cfg(test)]
pub(crate) mod tests {
    use posthaste::{Event, EventId, EventParts, Timestamp};

    use super::*;

    /// An event with a value in every field.
    pub(crate) fn order() -> Delivery {
        let event = Event::builder("OrderPlaced")
            .id(EventId::from("0190-id"))
            .aggregate("Order", "o-17")
            .tenant_id("acme")
            .schema_version(3)
            .header("region", "eu")
            .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            .header("tracestate", "vendor=1")
            .occurred_at(Timestamp::from_micros(1_700_000_000_000_000))
            .json_text(r#"{"total": 42.10}"#)
            .build();
        Delivery::first(event.expect("a good event"))
    }

    /// The same event with this change. It may have values that the builder refuses, as a row of a foreign table
    /// may.
    pub(crate) fn order_with(change: impl FnOnce(&mut EventParts)) -> Delivery {
        let mut parts = order().event.to_parts();
        change(&mut parts);
        Delivery::first(Event::from_parts(parts))
    }

    /// The headers of a message except `traceparent`, which is new each time.
    pub(crate) fn headers(message: &Message<'_>) -> Vec<(String, String)> {
        let headers = message.headers.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        headers.filter(|(name, _)| !name.ends_with("traceparent")).collect()
    }

    pub(crate) fn pairs(headers: &[(&str, &str)]) -> Vec<(String, String)> {
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_format_sends_the_trace_of_the_delivery() {
        let delivery = order();
        let trace = delivery.trace.as_ref().expect("a trace").traceparent();
        for format in Format::ALL {
            let message = format.message(&delivery, "ce-");
            let sent: Vec<&str> = message
                .headers
                .iter()
                .filter(|(name, _)| name == TRACEPARENT)
                .map(|(_, value)| value.as_ref())
                .collect();
            assert_eq!(sent, [trace.as_str()], "{format:?}");
        }
    }

    #[test]
    fn header_of_an_event_never_replaces_a_header_of_the_format() {
        let event = Event::builder("OrderPlaced")
            .header("Outbox-Event-Id", "forged")
            .header("CE-ID", "forged")
            .header("ID", "forged")
            .json_text("{}")
            .build();
        let delivery = Delivery::first(event.expect("a good event"));
        for (format, ours) in
            [(Format::Raw, "outbox-event-id"), (Format::CloudEvents, "ce-id"), (Format::Debezium, "id")]
        {
            let message = format.message(&delivery, "ce-");
            let of_that_name = message.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(ours));
            let values: Vec<&str> = of_that_name.map(|(_, value)| value.as_ref()).collect();
            assert_eq!(values, [delivery.id().as_str()], "{format:?}");
        }
    }

    #[test]
    fn reserved_header_is_dropped_even_if_the_format_sets_none() {
        let event = Event::builder("OrderPlaced")
            .header("Outbox-Tenant-Id", "another")
            .header("ce-subject", "another")
            .header("outboxed", "mine")
            .json_text("{}")
            .build();
        let delivery = Delivery::first(event.expect("a good event"));
        let names = |format: Format| -> Vec<String> {
            let message = format.message(&delivery, "ce-");
            message.headers.iter().map(|(name, _)| name.to_lowercase()).collect()
        };
        assert!(!names(Format::Raw).contains(&"outbox-tenant-id".to_owned()));
        assert!(names(Format::Raw).contains(&"ce-subject".to_owned()));
        assert!(!names(Format::CloudEvents).contains(&"ce-subject".to_owned()));
        assert!(names(Format::Raw).contains(&"outboxed".to_owned()));
    }

    #[test]
    fn error_for_an_unknown_format_names_every_format() {
        for name in ["raw", "envelope", "cloudevents", "cloudevents-structured", "debezium"] {
            assert!(name.parse::<Format>().is_ok(), "{name}");
            assert!(UnknownFormat.to_string().contains(name), "{name}");
        }
        assert_eq!("json".parse::<Format>(), Err(UnknownFormat));
    }
}
