//! Values that a row can hold, but that some protocols cannot carry or would interpret differently.

use crate::event::{Event, EventId, EventParts, Headers};
use crate::time::Timestamp;

/// Events with each value in each field in turn, among valid values.
pub(super) fn events() -> Vec<Event> {
    let values = values();
    let mut events = Vec::new();
    for value in &values {
        for set_field in FIELDS {
            let mut parts = good(events.len());
            set_field(&mut parts, value);
            events.push(Event::from_parts(parts));
        }
    }
    events
}

/// The fields that can hold a value. The topic is last, because it changes where an event goes.
const FIELDS: &[fn(&mut EventParts, &str)] = &[
    |parts, value| parts.event_type = value.into(),
    |parts, value| parts.aggregate_type = value.into(),
    |parts, value| parts.aggregate_id = Some(value.into()),
    |parts, value| parts.tenant_id = Some(value.into()),
    |parts, value| parts.content_type = Some(value.into()),
    |parts, value| parts.headers = Headers::from([("note".to_owned(), value.to_owned())]),
    |parts, value| parts.headers = Headers::from([(value.to_owned(), "note".to_owned())]),
    |parts, value| parts.topic = Some(value.into()),
];

fn good(n: usize) -> EventParts {
    EventParts {
        id: EventId::from(format!("hostile-{n}")),
        event_type: "Hostile".into(),
        aggregate_type: "Order".into(),
        aggregate_id: Some("o-17".into()),
        tenant_id: Some("tenant".into()),
        topic: None,
        content_type: None,
        schema_version: Some(1),
        headers: Headers::new(),
        payload: "{}".into(),
        occurred_at: Timestamp::from_micros(1_700_000_000_000_000),
        available_at: None,
    }
}

fn values() -> Vec<String> {
    let plain = [
        "",
        " ",
        ".",
        "..",
        "a..b",
        ".a",
        "a.",
        "/",
        "../../etc/passwd",
        "*",
        ">",
        "orders.*",
        "orders.>",
        "#",
        "$JS.API.STREAM.DELETE.ORDERS",
        "$SYS.REQ.SERVER.PING",
        "_INBOX.x",
        "amq.direct",
        "amq.gen-1",
        "__consumer_offsets",
        "line\nbreak",
        "line\r\nX-Injected: yes",
        "tab\tbed",
        "\0",
        "nul\0inside",
        "\u{7f}",
        "\u{1b}[31mred",
        "\u{85}",
        "\u{2028}",
        "\u{feff}bom",
        "\u{202e}right to left",
        "é",
        "日本語",
        "🎉",
        "a\u{301}",
        "'; DROP TABLE outbox_event; --",
        "\"quoted\"",
        "back\\slash",
        "{aggregate_id}",
        "{nothing}",
        "{{",
        "}",
        "%00",
        "%0d%0a",
        "%s%n",
        "key=value&key=other",
        "name: value",
        "content-type",
        "Content-Length",
        "transfer-encoding",
        "Host",
        "traceparent",
        "outbox-event-id",
        "ce-id",
        "ce_id",
        "Nats-Msg-Id",
        "Nats-Expected-Last-Sequence",
        "Idempotency-Key",
        "webhook-signature",
        "id",
        "eventType",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "text/plain; charset=\"",
        "application/json\r\n\r\n",
        "null",
        "NaN",
        "-1",
        "true",
    ];
    let long = [254, 255, 256, 249, 250, 1_024, 8_192, 70_000].map(|length| "x".repeat(length));
    let wide = [64, 128, 300].map(|length| "ß".repeat(length));
    plain.into_iter().map(str::to_owned).chain(long).chain(wide).collect()
}
