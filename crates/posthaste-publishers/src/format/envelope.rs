//! The envelope format: one JSON object with all fields of the event, for consumers that cannot read headers.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste::trace::TRACEPARENT;
use posthaste::{Delivery, Headers};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{JSON_CONTENT_TYPE, Message, content_type, json, raw};

/// The JSON object. Field names are those of the accessors of `Event`.
#[derive(Serialize)]
struct Envelope<'a> {
    id: &'a str,
    event_type: &'a str,
    aggregate_type: &'a str,
    aggregate_id: Option<&'a str>,
    tenant_id: Option<&'a str>,
    schema_version: Option<u32>,
    occurred_at: String,
    headers: Cow<'a, Headers>,
    content_type: &'a str,
    /// The JSON text as the service wrote it, without reformatting numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    /// Set instead of `payload` if the payload is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

pub(super) fn message(delivery: &Delivery) -> Message<'_> {
    let payload = json(delivery);
    let envelope = Envelope {
        id: delivery.id().as_str(),
        event_type: delivery.event_type(),
        aggregate_type: delivery.aggregate_type(),
        aggregate_id: delivery.aggregate_id(),
        tenant_id: delivery.tenant_id(),
        schema_version: delivery.schema_version(),
        occurred_at: delivery.occurred_at().to_string(),
        headers: headers(delivery),
        content_type: content_type(delivery),
        payload,
        payload_base64: payload.is_none().then(|| STANDARD.encode(delivery.payload())),
    };
    let mut message = Message::payload(delivery);
    // Cannot fail: the object contains only strings, numbers and JSON that has been parsed.
    message.body = serde_json::to_vec(&envelope).unwrap_or_default().into();
    message.content_type = JSON_CONTENT_TYPE.into();
    raw::describe(delivery, &mut message);
    message
}

/// The event's headers and the delivery's `traceparent`. A JSON line has no headers other than these.
fn headers(delivery: &Delivery) -> Cow<'_, Headers> {
    let Some(trace) = &delivery.trace else { return Cow::Borrowed(delivery.headers()) };
    let mut headers = delivery.headers().clone();
    headers.insert(TRACEPARENT.to_owned(), trace.traceparent());
    Cow::Owned(headers)
}

#[cfg(test)]
mod tests {
    use posthaste::{Delivery, Event};
    use serde_json::Value;

    use super::super::Format;
    use super::super::tests::{order, order_with};

    fn body(delivery: &Delivery) -> (String, Value) {
        let message = Format::Envelope.message(delivery, "ce-");
        let text = String::from_utf8(message.body.to_vec()).expect("text");
        let value = serde_json::from_str(&text).expect("JSON");
        (text, value)
    }

    #[test]
    fn envelope_contains_every_field() {
        let order = order();
        let (text, value) = body(&order);
        for (name, expected) in [
            ("id", "0190-id"),
            ("event_type", "OrderPlaced"),
            ("aggregate_type", "Order"),
            ("aggregate_id", "o-17"),
            ("tenant_id", "acme"),
            ("occurred_at", "2023-11-14T22:13:20.000000Z"),
            ("content_type", "application/json"),
        ] {
            assert_eq!(value[name], expected, "{name}");
        }
        assert_eq!(value["schema_version"], 3);
        assert_eq!(value["headers"]["region"], "eu");
        let trace = order.trace.as_ref().map(posthaste::trace::TraceContext::traceparent);
        assert_eq!(value["headers"]["traceparent"].as_str(), trace.as_deref());
        assert!(text.ends_with(r#""payload":{"total": 42.10}}"#), "digit for digit: {text}");
    }

    #[test]
    fn payload_that_is_not_json_is_base64() {
        let event = Event::bytes("Scan", "image/png", vec![0_u8, 255]).expect("a good event");
        let (_, value) = body(&Delivery::first(event));
        assert_eq!(value["payload_base64"], "AP8=");
        assert_eq!(value["content_type"], "image/png");
        assert_eq!(value.get("payload"), None);
    }

    #[test]
    fn invalid_json_of_a_foreign_row_is_kept_as_base64() {
        let (_, value) = body(&order_with(|parts| parts.payload = "{not json".into()));
        assert_eq!(value["payload_base64"], "e25vdCBqc29u");
    }
}
