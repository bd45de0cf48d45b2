//! What the answers look like, as JSON Schema.

use serde_json::{Map, Value, json};

/// Every schema by its name.
pub(super) fn schemas() -> Value {
    let names = || json!({"type": "array", "items": {"type": "string"}});
    json!({
        "Error": object(&[("error", text()), ("advice", text())]),
        "Live": object(&[("live", json!({"const": true}))]),
        "Ready": object(&[
            ("ready", json!({"type": "boolean"})),
            ("outboxes", list(object(&[
                ("outbox", text()),
                ("ready", json!({"type": "boolean"})),
                ("reason", json!({"enum": ["store_not_open", "store_silent", "late", "stopping", null]})),
                ("oldest_pending_seconds", seconds()),
            ]))),
        ]),
        "Outboxes": object(&[("outboxes", list(object(&[
            ("outbox", text()),
            ("open", json!({"type": "boolean"})),
            ("routes", names()),
            ("paused", json!({"type": ["array", "null"], "items": {"type": "string"}})),
        ])))]),
        "Stats": object(&[
            ("pending", object(&["new", "retry", "due", "leased", "parked", "scheduled"].map(|name| (name, count())))),
            ("done", count()),
            ("dead", count()),
            ("archived", count()),
            ("oldest_pending_seconds", seconds()),
            ("paused", names()),
            ("estimated", object(
                &["pending", "done", "dead", "archived"].map(|name| (name, json!({"type": "boolean"}))),
            )),
        ]),
        "Backlog": object(&[
            ("groups", list(object(&[
                ("key", text_or_null()),
                ("count", count()),
                ("oldest_seconds", seconds()),
            ]))),
            ("complete", json!({"type": "boolean"})),
        ]),
        "Row": object(&row()),
        "Event": event(),
        "Events": object(&[("events", list(reference("Row"))), ("next", next())]),
        "Count": object(&[("count", count())]),
        "Groups": object(&[("groups", list(object(&[
            ("aggregate_type", text()),
            ("event_type", text()),
            ("reason", text()),
            ("count", count()),
            ("first", text_or_null()),
            ("last", text_or_null()),
        ])))]),
        "Changed": object(&[
            ("action", json!({"enum": ["replay", "discard", "purge"]})),
            ("changed", count()),
            ("more", json!({"type": "boolean"})),
            ("unchanged", names()),
        ]),
        "RouteChanged": object(&[
            ("action", json!({"enum": ["pause", "resume"]})),
            ("route", text()),
            ("changed", json!({"type": "boolean"})),
        ]),
        "Audit": object(&[
            ("entries", list(object(&[
                ("seq", json!({"type": "integer"})),
                ("at", text()),
                ("actor", text()),
                ("action", text()),
                ("target", text()),
                ("rows", count()),
            ]))),
            ("next", next()),
        ]),
        "Findings": object(&[("findings", list(object(&[
            ("code", text()),
            ("severity", json!({"enum": ["note", "warning", "problem"]})),
            ("what", text()),
            ("advice", text()),
        ])))]),
    })
}

fn row() -> Vec<(&'static str, Value)> {
    vec![
        ("seq", json!({"type": "integer"})),
        ("id", text()),
        ("event_type", text()),
        ("aggregate_type", text()),
        ("aggregate_id", text_or_null()),
        ("tenant_id", text_or_null()),
        ("payload_bytes", count()),
        ("status", json!({"enum": ["NEW", "RETRY", "DONE", "DEAD", "ARCHIVED"]})),
        ("attempts", count()),
        ("deferrals", count()),
        ("lost_leases", count()),
        ("replays", count()),
        ("parked", text_or_null()),
        ("progress", json!({"type": "array", "items": {"type": "string"}})),
        ("available_at", text()),
        ("created_at", text()),
        ("inserted_at", text()),
        ("done_at", text_or_null()),
        ("last_error", text_or_null()),
        ("locked_by", text_or_null()),
        ("locked_at", text_or_null()),
        ("malformed", text_or_null()),
    ]
}

/// A row and what only the event knows; headers and payload are for operators.
fn event() -> Value {
    let mut properties = row();
    properties.push(("topic", text_or_null()));
    properties.push(("content_type", text_or_null()));
    properties.push(("schema_version", json!({"type": ["integer", "null"], "minimum": 0})));
    let mut schema = object(&properties);
    schema["properties"]["headers"] = json!({"type": "object", "additionalProperties": {"type": "string"}});
    schema["properties"]["payload"] = json!({"oneOf": [
        object(&[("json", json!(true))]),
        object(&[("text", text())]),
        object(&[("hex", json!({"type": "string", "pattern": "^([0-9a-f]{2})*$"}))]),
    ]});
    schema
}

/// An object with all of these properties and no others.
fn object(properties: &[(&str, Value)]) -> Value {
    let required: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn text_or_null() -> Value {
    json!({"type": ["string", "null"]})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn seconds() -> Value {
    json!({"type": ["number", "null"], "minimum": 0})
}

fn next() -> Value {
    json!({"type": ["integer", "null"], "description": "The `after` of the next page; null on the last"})
}
