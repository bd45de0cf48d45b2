//! Events that are hard to encode: values that text, JSON or hex encodings could damage.

use posthaste::{Event, EventId, EventParts, Timestamp};
use proptest::prelude::*;

/// An event with this JSON text as its payload.
pub fn json(id: &str, text: &str) -> Event {
    Event::builder("Tested").id(id).json_text(text).build().expect(text)
}

/// An event with these bytes as its payload.
pub fn bytes(id: &str, content_type: &str, payload: impl Into<Vec<u8>>) -> Event {
    Event::builder("Tested").id(id).bytes(content_type, payload.into()).build().expect(id)
}

/// Events whose payloads text, JSON or hex encodings could damage.
pub fn odd_events() -> Vec<Event> {
    let all_bytes: Vec<u8> = (0..=255).collect();
    vec![
        json("escapes", r#"{"a":"\u0000\u0001\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}"#),
        json("spaces", " {\t\"a\" : \r\n 1.50e+2 , \"a\":1 }\n"),
        json("unicode", "\"é \u{2028}\u{2029}\u{7f}\u{fffd}\u{10ffff} مرحبا 😀\""),
        json("number", "12345678901234567890.10"),
        json("null", "null"),
        json("quotes", r#""it's; -- '""#),
        json("empty-string", "\"\""),
        bytes("binary", "application/octet-stream", all_bytes),
        bytes("empty", "application/octet-stream", []),
        bytes("nul-in-text", "text/plain", b"before\0after".to_vec()),
        bytes("only-nul", "text/plain", vec![0; 5]),
        bytes("plain-text", "text/plain; charset=utf-8", "é"),
        bytes("not-utf-8", "text/plain", b"\xff\xfe{}".to_vec()),
        bytes("looks-like-hex", "text/plain", "00ff"),
        bytes("large", "application/octet-stream", vec![0xab; 300_000]),
        // Only a transforming hook can produce an event without a media type.
        untyped("untyped-nul", b"{\"a\":\"\0\"}"),
        untyped("untyped-binary", b"\x00\xff"),
        untyped("untyped-empty", b""),
        everything(),
    ]
}

/// An event without a media type.
pub fn untyped(id: &str, payload: &'static [u8]) -> Event {
    let parts = EventParts { payload: payload.into(), content_type: None, ..json(id, "{}").to_parts() };
    Event::from_parts(parts)
}

/// An event with all fields set, full of characters that are special in SQL, JSON or HTML.
pub fn everything() -> Event {
    Event::builder("Größe/'\"`;--")
        .id("~!@#$%^&*()_+{}|:\"<>?`-=[]\\;',./")
        .aggregate("Ägg'reg\"at", "№ 7 \u{202e}\u{1f4a9}")
        .tenant_id("{\"json\":[1]}")
        .topic("12.50")
        .schema_version(u32::MAX)
        .header("quote", "\"'\\ {} [] \u{1f600}")
        .header("empty", "")
        .header("x!#$%&'*+-.^_`|~", "1e5")
        .json_text("{}")
        .occurred_at(Timestamp::from_micros(1_700_000_000_123_456))
        .build()
        .expect("a good event")
}

/// All fields that must survive a round trip, as text for comparison. The due time is not among them.
pub fn all_of(event: &Event) -> [String; 12] {
    let parts = event.parts();
    [
        parts.id.to_string(),
        format!("{:?}", parts.event_type),
        format!("{:?}", parts.aggregate_type),
        format!("{:?}", parts.aggregate_id),
        format!("{:?}", parts.tenant_id),
        format!("{:?}", parts.topic),
        format!("{:?}", parts.content_type),
        format!("{:?}", parts.schema_version),
        format!("{:?}", parts.headers.iter().collect::<Vec<_>>()),
        format!("{} bytes", parts.payload.len()),
        format!("{:?}", parts.payload),
        parts.occurred_at.as_micros().to_string(),
    ]
}

/// Generates any event that a store must be able to keep.
pub fn any_event() -> impl Strategy<Value = Event> {
    let name = || "[^\\p{Cc}]{1,20}";
    let payload = prop_oneof![
        any::<String>().prop_map(|text| (None, serde_json::to_vec(&text).expect("text"))),
        prop::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| (Some("application/x".into()), bytes)),
        any::<String>().prop_map(|text| (Some("text/plain".into()), text.into_bytes())),
    ];
    let headers = prop::collection::btree_map("[!-9;-~]{1,10}", "[^\\p{Cc}]{0,20}", 0..4);
    let names =
        (name(), name(), prop::option::of(name()), prop::option::of(name()), prop::option::of(name()));
    let micros = -1_000_000_000_000_000_i64..4_000_000_000_000_000;
    (names, payload, headers, prop::option::of(any::<u32>()), micros).prop_map(
        |(names, (content_type, payload), headers, schema_version, occurred_at)| {
            let (event_type, aggregate_type, aggregate_id, tenant_id, topic) = names;
            Event::from_parts(EventParts {
                id: EventId::uuid_v7(),
                event_type: format!("x{event_type}").into(),
                aggregate_type: aggregate_type.into(),
                aggregate_id: aggregate_id.map(Into::into),
                tenant_id: tenant_id.map(Into::into),
                topic: topic.map(Into::into),
                content_type,
                schema_version,
                headers: headers.into_iter().collect(),
                payload: payload.into(),
                occurred_at: Timestamp::from_micros(occurred_at),
                available_at: None,
            })
        },
    )
}
