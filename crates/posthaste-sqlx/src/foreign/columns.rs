//! Column lists: the columns of a foreign table under the names that an outbox of Posthaste gives them.

use super::Field;
use super::resolved_layout::{ColumnKind, ResolvedLayout};

/// The columns that a claim reads: the event, the clock of the server, and the time at which the row was written.
pub(super) fn to_deliver(resolved: &ResolvedLayout) -> String {
    let (event, now) = (of_event(resolved), resolved.dialect.now);
    format!("{event}, {now} AS store_now, {} AS written", resolved.written())
}

/// The columns of the event itself.
pub(super) fn of_event(resolved: &ResolvedLayout) -> String {
    let nulls = &resolved.dialect.nulls;
    let payload = match resolved.column(Field::Payload) {
        Some((column, ColumnKind::Bytes)) => {
            format!("{} AS payload, {column} AS payload_bytes", nulls.text)
        }
        _ => format!("{} AS payload, {} AS payload_bytes", resolved.text(Field::Payload), nulls.bytes),
    };
    let columns = [
        of_both(resolved),
        format!("{} AS topic", resolved.text(Field::Topic)),
        format!("{} AS content_type", resolved.text(Field::ContentType)),
        format!("{} AS schema_version", number(resolved, Field::SchemaVersion, "NULL", 8)),
        payload,
    ];
    columns.join(", ")
}

/// The columns of a row that an operator sees.
pub(super) fn of_row(resolved: &ResolvedLayout) -> String {
    let (nulls, integer) = (&resolved.dialect.nulls, resolved.dialect.integer);
    let columns = [
        of_both(resolved),
        format!("{} AS payload_size", size_of(resolved, Field::Payload)),
        format!("{} AS status", integer(&resolved.status_code(), 2)),
        format!("{} AS parked", nulls.text),
        format!("{} AS available_at", resolved.time(Field::CreatedAt)),
        format!("{} AS done_at", resolved.time(Field::SentAt)),
        format!("{} AS last_error", resolved.text(Field::Error)),
        format!("{} AS locked_by, {} AS locked_at", nulls.text, nulls.time),
    ];
    columns.join(", ")
}

/// The size of a row, in bytes.
pub(super) fn of_size(resolved: &ResolvedLayout) -> String {
    let (payload, headers) = (size_of(resolved, Field::Payload), size_of(resolved, Field::Headers));
    format!("{} AS event_id, {payload} + {headers} AS size", resolved.text(Field::Id))
}

fn of_both(resolved: &ResolvedLayout) -> String {
    let integer = resolved.dialect.integer;
    let text = |field, name| format!("{} AS {name}", resolved.text(field));
    let (zero, created_at) = (integer("0", 4), resolved.time(Field::CreatedAt));
    let columns = [
        format!("{} AS seq", integer("0", 8)),
        text(Field::Id, "event_id"),
        text(Field::EventType, "event_type"),
        text(Field::AggregateType, "aggregate_type"),
        text(Field::AggregateId, "aggregate_id"),
        text(Field::Tenant, "tenant_id"),
        text(Field::Headers, "headers"),
        format!("{created_at} AS created_at, {created_at} AS inserted_at"),
        format!("{} AS attempts", number(resolved, Field::Attempts, "0", 4)),
        format!("{zero} AS deferrals, {zero} AS lost_leases, {zero} AS replays"),
        format!("{} AS progress", resolved.dialect.nulls.list),
    ];
    columns.join(", ")
}

fn number(resolved: &ResolvedLayout, field: Field, otherwise: &str, bytes: u8) -> String {
    let column = resolved.column(field).map(|(column, _)| column);
    (resolved.dialect.integer)(column.as_deref().unwrap_or(otherwise), bytes)
}

/// The size of one column of an event, in bytes.
fn size_of(resolved: &ResolvedLayout, field: Field) -> String {
    let length = resolved.column(field).map(|(column, kind)| (resolved.dialect.length)(&column, kind));
    (resolved.dialect.integer)(length.as_deref().unwrap_or("0"), 8)
}
