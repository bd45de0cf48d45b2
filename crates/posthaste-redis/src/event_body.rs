//! The JSON body of an event in the hash of entries, with the payload last: encoding and decoding.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use posthaste::{Event, EventId, EventParts, GLOBAL, Headers, Timestamp, decode_headers};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A body as we write it. The payload is last, so that a script can leave it out of a list.
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
    payload_bytes: usize,
    /// How the payload is written; text as it is unless this says otherwise.
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
    // Texts, numbers and a map of texts: there is nothing in it that JSON cannot say.
    serde_json::to_vec(&body).unwrap_or_default()
}

/// A body as it was read, from our own Writers and from programs in any language.
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

/// An event as far as it could be read.
pub(crate) struct DecodedEvent {
    pub(crate) event: Event,
    pub(crate) payload_bytes: u64,
    /// What could not be read, without a word of payload or headers.
    pub(crate) defect: Option<String>,
}

/// Whether the body that was read has its payload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// A script left the payload out.
    Head,
}

/// Reads a body. Fields that a foreign program left out have the defaults of an event, its time that of
/// the insertion.
pub(crate) fn decode(id: &str, body: Option<&[u8]>, inserted_at: Timestamp, extent: Extent) -> DecodedEvent {
    let mut defect = None;
    let mut note = |text: String| _ = defect.get_or_insert(text);
    let body = body.unwrap_or_else(|| {
        note("the event has no body".to_owned());
        b"{}"
    });
    let parsed: ParsedBody<'_> = serde_json::from_slice(body).unwrap_or_else(|error| {
        // The text of the error may quote a value.
        note(format!("the body is not the JSON of an event (column {})", error.column()));
        ParsedBody::default()
    });
    let headers = decode_headers(parsed.headers.map(RawValue::get)).unwrap_or_else(|error| {
        note(error);
        Headers::new()
    });
    let payload = match (parsed.payload, extent) {
        (Some(raw), _) => read_payload(raw, parsed.encoding.as_deref()).unwrap_or_else(|error| {
            note(error.to_owned());
            Bytes::new()
        }),
        (None, Extent::Head) if parsed.payload_bytes.is_some() => Bytes::new(),
        (None, _) => {
            note("there is no payload".to_owned());
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

/// A text is the payload itself; any other value is the payload as it stands.
fn read_payload(raw: &RawValue, encoding: Option<&str>) -> Result<Bytes, &'static str> {
    let json = raw.get();
    if json == "null" {
        return Err("there is no payload");
    }
    if !json.starts_with('"') {
        return Ok(Bytes::copy_from_slice(json.as_bytes()));
    }
    let text: String = serde_json::from_str(json).map_err(|_| "the payload is not a text")?;
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
    fn foreign_body_needs_a_type_and_a_payload_alone() {
        let parsed = whole(r#"{ "event_type": "Minted", "payload": { "a" : [1, 2] } }"#);
        assert_eq!(parsed.defect, None);
        assert_eq!(parsed.event.event_type(), "Minted");
        assert_eq!(parsed.event.payload(), br#"{ "a" : [1, 2] }"#.as_slice());
        assert_eq!(parsed.event.occurred_at(), Timestamp::from_micros(7));
    }

    #[test]
    fn what_cannot_be_read_is_named_without_its_value() {
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
