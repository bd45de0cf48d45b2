//! Payload of an event as JSON, text or hexadecimal digits.

use posthaste::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json_text;

/// A payload in its most readable form.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// A JSON document on one line. Its numbers keep their digits.
    Json(#[schemars(with = "serde_json::Value")] Box<RawValue>),
    /// Text.
    Text(String),
    /// Other bytes, as two hexadecimal digits per byte.
    Hex(#[schemars(regex(pattern = "^([0-9a-f]{2})*$"))] String),
}

impl Payload {
    /// The payload of this event, in the form that its content type and its bytes allow.
    pub fn of(event: &Event) -> Self {
        let bytes = event.payload();
        let content_type = event.content_type();
        if content_type.is_none_or(|media| media.contains("json"))
            && let Some(raw) = json_text::document(bytes).map(json_text::compact).and_then(raw)
        {
            return Self::Json(raw);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if content_type.is_none_or(is_text) => Self::Text(text.to_owned()),
            _ => Self::Hex(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }
}

fn raw(document: String) -> Option<Box<RawValue>> {
    RawValue::from_string(document).ok()
}

fn is_text(media: &str) -> bool {
    media.starts_with("text/") || media.contains("json") || media.contains("xml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(event: &Event) -> String {
        serde_json::to_string(&Payload::of(event)).unwrap()
    }

    #[test]
    fn payload_is_shown_as_json_text_or_hex() {
        let json = Event::builder("A").json_text("{\"b\": 1.50,\n \"a\": 12345678901234567890}").build();
        assert_eq!(shown(&json.unwrap()), r#"{"json":{"b":1.50,"a":12345678901234567890}}"#);
        for (content_type, bytes, expected) in [
            ("application/cloudevents+json", &b"[1]"[..], r#"{"json":[1]}"#),
            ("application/json", b"[1", r#"{"text":"[1"}"#),
            ("text/plain", b"[1]", r#"{"text":"[1]"}"#),
            ("text/plain", b"\xff", r#"{"hex":"ff"}"#),
            ("application/protobuf", b"7\x00", r#"{"hex":"3700"}"#),
        ] {
            let event = Event::bytes("A", content_type, bytes).unwrap();
            assert_eq!(shown(&event), expected, "{content_type}");
        }
    }
}
