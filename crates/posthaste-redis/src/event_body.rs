//! The JSON body of an event, a value of the `entries` hash: encoding and decoding.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use posthaste::{Event, EventId, EventParts, GLOBAL, Headers, Timestamp, decode_headers};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A body as this crate writes it. The payload is last, so that a script can cut it off for a list.
#[derive(Serialize)]
struct BodyToWrite<'e> {
    event_type: &'e str,
    aggregate_type: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_id: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_id: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version: Option<u32>,
    #[serde(skip_serializing_if = "Headers::is_empty")]
    headers: &'e Headers,
    /// Microseconds since 1970.
    created_at: i64,
    /// Length of the payload before base64, in bytes.
    payload_bytes: usize,
    /// Encoding of the payload: absent for text, or `base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    payload: Cow<'e, str>,
}

const BASE64_ENCODING: &str = "base64";

/// The event as JSON.
pub(crate) fn encode(event: &Event) -> Vec<u8> {
    let (encoding, payload) = match std::str::from_utf8(event.payload()) {
        Ok(text) => (None, Cow::Borrowed(text)),
        Err(_) => (Some(BASE64_ENCODING), Cow::Owned(BASE64_STANDARD.encode(event.payload()))),
    };
    let body = BodyToWrite {
        event_type: event.event_type(),
        aggregate_type: event.aggregate_type(),
        aggregate_id: event.aggregate_id(),
        tenant_id: event.tenant_id(),
        topic: event.topic(),
        content_type: event.content_type(),
        schema_version: event.schema_version(),
        headers: event.headers(),
        created_at: event.occurred_at().as_micros(),
        payload_bytes: event.payload().len(),
        encoding,
        payload,
    };
    // Strings, numbers and a map of strings always serialize.
    serde_json::to_vec(&body).unwrap_or_default()
}

/// A body as it is read. Programs in any language may have written it, so every field is optional.
#[derive(Default, Deserialize)]
struct ParsedBody<'b> {
    #[serde(borrow, default)]
    event_type: Option<Cow<'b, str>>,
    #[serde(borrow, default)]
    aggregate_type: Option<Cow<'b, str>>,
    #[serde(borrow, default)]
    aggregate_id: Option<Cow<'b, str>>,
    #[serde(borrow, default)]
    tenant_id: Option<Cow<'b, str>>,
    #[serde(borrow, default)]
    topic: Option<Cow<'b, str>>,
    #[serde(borrow, default)]
    content_type: Option<Cow<'b, str>>,
    schema_version: Option<u32>,
    #[serde(borrow, default)]
    headers: Option<&'b RawValue>,
    created_at: Option<i64>,
    payload_bytes: Option<u64>,
    #[serde(borrow, default)]
    encoding: Option<Cow<'b, str>>,
    #[serde(borrow, default)]
    payload: Option<&'b RawValue>,
}

/// An event, as far as its body could be read.
pub(crate) struct DecodedEvent {
    pub(crate) event: Event,
    pub(crate) payload_bytes: u64,
    /// What could not be read. Contains no part of payload or headers.
    pub(crate) defect: Option<String>,
}

/// Which part of a body was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// Without payload, which the script cut off.
    Head,
}

/// Decodes a body. Missing fields get the defaults of an event; a missing `created_at` is the insertion time.
pub(crate) fn decode(id: &str, body: Option<&[u8]>, inserted_at: Timestamp, extent: Extent) -> DecodedEvent {
    let mut defect = None;
    let mut record = |text: String| _ = defect.get_or_insert(text);
    let body = body.unwrap_or_else(|| {
        record("the event has no body".to_owned());
        b"{}"
    });
    let parsed: ParsedBody<'_> = serde_json::from_slice(body).unwrap_or_else(|error| {
        // Only the position, because the error's text may quote a value.
        record(format!("the body is not the JSON of an event (column {})", error.column()));
        ParsedBody::default()
    });
    let headers = decode_headers(parsed.headers.map(RawValue::get)).unwrap_or_else(|error| {
        record(error);
        Headers::new()
    });
    let payload = match (parsed.payload, extent) {
        (Some(raw), _) => read_payload(raw, parsed.encoding.as_deref()).unwrap_or_else(|error| {
            record(error.to_owned());
            Bytes::new()
        }),
        (None, Extent::Head) if parsed.payload_bytes.is_some() => Bytes::new(),
        (None, _) => {
            record("there is no payload".to_owned());
            Bytes::new()
        }
    };
    let payload_bytes =
        parsed.payload_bytes.filter(|_| extent == Extent::Head).unwrap_or(payload.len() as u64);
    let boxed = |text: Option<Cow<'_, str>>| text.map(|text| text.into_owned().into_boxed_str());
    let event = Event::from_parts(EventParts {
        id: EventId::from(id),
        event_type: boxed(parsed.event_type).unwrap_or_default(),
        aggregate_type: boxed(parsed.aggregate_type).unwrap_or_else(|| GLOBAL.into()),
        aggregate_id: boxed(parsed.aggregate_id),
        tenant_id: boxed(parsed.tenant_id),
        topic: boxed(parsed.topic),
        content_type: boxed(parsed.content_type),
        schema_version: parsed.schema_version,
        headers,
        payload,
        occurred_at: parsed.created_at.map_or(inserted_at, Timestamp::from_micros),
        available_at: None,
    });
    DecodedEvent { event, payload_bytes, defect }
}

/// A JSON string contains the payload; any other JSON value is the payload itself.
fn read_payload(raw: &RawValue, encoding: Option<&str>) -> Result<Bytes, &'static str> {
    let json = raw.get();
    if json == "null" {
        return Err("there is no payload");
    }
    if !json.starts_with('"') {
        return Ok(Bytes::copy_from_slice(json.as_bytes()));
    }
    let text: String = serde_json::from_str(json).map_err(|_| "the payload is not a valid JSON string")?;
    match encoding {
        None => Ok(text.into()),
        Some(BASE64_ENCODING) => {
            BASE64_STANDARD.decode(text).map(Bytes::from).map_err(|_| "the payload is not base64")
        }
        Some(_) => Err("the payload has an unknown encoding"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(body: &str) -> DecodedEvent {
        decode("id", Some(body.as_bytes()), Timestamp::from_micros(7), Extent::Whole)
    }

    // S1-10
    #[test]
    fn body_is_json_with_the_payload_last() {
        let event = Event::builder("Minted").header("payload", "x").json_text("{\"a\":1}").build().unwrap();
        let body = String::from_utf8(encode(&event)).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&body).is_ok());
        assert!(body.ends_with(r#","payload":"{\"a\":1}"}"#), "{body}");
    }

    #[test]
    fn foreign_body_needs_only_a_type_and_a_payload() {
        let parsed = whole(r#"{ "event_type": "Minted", "payload": { "a" : [1, 2] } }"#);
        assert_eq!(parsed.defect, None);
        assert_eq!(parsed.event.event_type(), "Minted");
        assert_eq!(parsed.event.payload(), br#"{ "a" : [1, 2] }"#.as_slice());
        assert_eq!(parsed.event.occurred_at(), Timestamp::from_micros(7));
    }

    #[test]
    fn defect_does_not_contain_the_unreadable_value() {
        for body in [
            "sEcret",
            r#"{"event_type":"A","payload":"1","headers":{"a":["sEcret"]}}"#,
            r#"{"event_type":"A","payload":"1","schema_version":"sEcret"}"#,
            r#"{"event_type":"A","payload":"sEcret","encoding":"base64"}"#,
            r#"{"event_type":"A","payload":"sEcret","encoding":"rot13"}"#,
            r#"{"event_type":"A","payload":null}"#,
            r#"{"event_type":"A"}"#,
        ] {
            let defect = whole(body).defect.unwrap_or_else(|| panic!("{body}"));
            assert!(!defect.contains("sEcret"), "{defect}");
        }
    }
}
