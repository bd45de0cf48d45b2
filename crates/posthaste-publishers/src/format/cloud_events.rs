//! The CloudEvents 1.0 formats: binary mode and structured mode.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste::{Delivery, GLOBAL};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Message, content_type, json};

const SPEC_VERSION: &str = "1.0";

/// The context attributes of an event. CloudEvents allows only lower-case letters and digits in extension names.
/// `partitionkey`, `traceparent` and `tracestate` are documented extensions; `tenantid` and `schemaversion` are
/// ours.
fn attributes(delivery: &Delivery) -> Vec<(&'static str, String)> {
    let mut attributes = vec![
        ("specversion", SPEC_VERSION.to_owned()),
        ("id", delivery.id().as_str().to_owned()),
        ("source", source(delivery)),
        ("type", delivery.event_type().to_owned()),
        ("time", delivery.occurred_at().to_string()),
    ];
    let mut add = |name, value: Option<String>| attributes.extend(value.map(|value| (name, value)));
    add("subject", delivery.aggregate_id().map(str::to_owned));
    add("partitionkey", delivery.aggregate_id().map(str::to_owned));
    add("tenantid", delivery.tenant_id().map(str::to_owned));
    add("schemaversion", delivery.schema_version().map(|version| version.to_string()));
    add("traceparent", delivery.trace.as_ref().map(posthaste::trace::TraceContext::traceparent));
    add("tracestate", delivery.trace.as_ref().and_then(|trace| trace.tracestate()).map(str::to_owned));
    attributes
}

/// The attribute `source`: `/` and the aggregate type. CloudEvents requires that source and id together are unique.
fn source(delivery: &Delivery) -> String {
    match delivery.aggregate_type() {
        "" | GLOBAL => "/".to_owned(),
        aggregate => format!("/{}", uri_part(aggregate)),
    }
}

fn uri_part(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

pub(super) fn binary<'a>(delivery: &'a Delivery, prefix: &str) -> Message<'a> {
    let mut message = Message::payload(delivery);
    for (name, value) in attributes(delivery) {
        message.add(format!("{prefix}{name}"), value);
    }
    message
}

#[derive(Serialize)]
struct Structured<'a> {
    #[serde(flatten)]
    attributes: serde_json::Map<String, serde_json::Value>,
    datacontenttype: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
}

pub(super) fn structured(delivery: &Delivery) -> Message<'_> {
    let data = json(delivery);
    let attributes = attributes(delivery);
    let event = Structured {
        attributes: attributes.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect(),
        datacontenttype: content_type(delivery),
        data,
        data_base64: data.is_none().then(|| STANDARD.encode(delivery.payload())),
    };
    let mut message = Message::payload(delivery);
    // Cannot fail: the object contains only strings and JSON that has been parsed.
    message.body = serde_json::to_vec(&event).unwrap_or_default().into();
    message.content_type = "application/cloudevents+json".into();
    message
}

#[cfg(test)]
mod tests {
    use posthaste::{Delivery, Event};
    use serde_json::Value;

    use super::super::Format;
    use super::super::tests::{headers, order, pairs};

    #[test]
    fn binary_mode_has_the_attributes_in_headers() {
        let delivery = order();
        let message = Format::CloudEvents.message(&delivery, "ce_");
        assert_eq!(message.body, delivery.payload());
        assert_eq!(message.content_type, "application/json");
        let expected = [
            ("ce_specversion", "1.0"),
            ("ce_id", "0190-id"),
            ("ce_source", "/Order"),
            ("ce_type", "OrderPlaced"),
            ("ce_time", "2023-11-14T22:13:20.000000Z"),
            ("ce_subject", "o-17"),
            ("ce_partitionkey", "o-17"),
            ("ce_tenantid", "acme"),
            ("ce_schemaversion", "3"),
            ("ce_tracestate", "vendor=1"),
            ("tracestate", "vendor=1"),
            ("region", "eu"),
        ];
        assert_eq!(headers(&message), pairs(&expected));
    }

    #[test]
    fn structured_mode_is_one_object() {
        let delivery = order();
        let message = Format::CloudEventsStructured.message(&delivery, "ce_");
        assert_eq!(message.content_type, "application/cloudevents+json");
        let value: Value = serde_json::from_slice(&message.body).expect("JSON");
        for (name, expected) in [
            ("specversion", "1.0"),
            ("id", "0190-id"),
            ("source", "/Order"),
            ("type", "OrderPlaced"),
            ("subject", "o-17"),
            ("datacontenttype", "application/json"),
        ] {
            assert_eq!(value[name], expected, "{name}");
        }
        let text = String::from_utf8_lossy(&message.body);
        assert!(text.contains(r#""data":{"total": 42.10}"#), "digit for digit: {text}");
    }

    #[test]
    fn bytes_are_base64_in_structured_mode() {
        let event = Event::bytes("Scan", "image/png", vec![0_u8, 255]).expect("a good event");
        let delivery = Delivery::first(event);
        let message = Format::CloudEventsStructured.message(&delivery, "ce_");
        let value: Value = serde_json::from_slice(&message.body).expect("JSON");
        assert_eq!(value["data_base64"], "AP8=");
        assert_eq!(value["datacontenttype"], "image/png");
        assert_eq!(value["source"], "/");
    }

    #[test]
    fn source_is_a_uri_reference_for_any_aggregate_type() {
        let event =
            Event::builder("T").aggregate("注 文/..", "1").json_text("{}").build().expect("a good event");
        let delivery = Delivery::first(event);
        let message = Format::CloudEvents.message(&delivery, "ce-");
        let source = message.headers.iter().find(|(name, _)| name == "ce-source").expect("a source");
        assert_eq!(source.1, "/%E6%B3%A8%20%E6%96%87%2F%2E%2E");
    }
}
