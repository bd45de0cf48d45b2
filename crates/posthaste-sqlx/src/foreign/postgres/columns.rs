//! A foreign table as PostgreSQL knows it: its types, and its columns under the names of our own.

use crate::foreign::Field;
use crate::foreign::resolved_layout::{ColumnKind, Dialect, ResolvedLayout, RowChange};

pub(super) static DIALECT: Dialect = Dialect {
    quote: '"',
    set_in: "",
    placeholder: |n| format!("${n}"),
    as_text: |column, kind| match kind {
        ColumnKind::Text => column.to_owned(),
        _ => format!("{column}::text"),
    },
    as_key: |kind, placeholder| format!("{placeholder}::{}", key_type(kind)),
    before: |clock, placeholder| format!("{clock} - {placeholder}::int8 * interval '1 microsecond'"),
    store: "PostgreSQL layout",
    time,
    now: "statement_timestamp()",
    of_event,
    of_row,
    total: "SELECT greatest(reltuples, 0)::int8 FROM pg_class WHERE oid = to_regclass($1)",
    change,
    clock: |kind| match kind {
        ColumnKind::ZonedTime => "statement_timestamp()",
        _ => "(statement_timestamp() AT TIME ZONE 'UTC')",
    },
    kind,
};

/// The type of a column by the name that `format_type` has for it, or `enum(…)` with the values of an
/// enumeration.
fn kind(name: &str) -> Option<ColumnKind> {
    match name {
        "text" | "character varying" => Some(ColumnKind::Text),
        "character" => Some(ColumnKind::PaddedText),
        "json" | "jsonb" => Some(ColumnKind::Json),
        "bytea" => Some(ColumnKind::Bytes),
        "uuid" => Some(ColumnKind::Uuid),
        "smallint" | "integer" | "bigint" => Some(ColumnKind::Integer),
        "boolean" => Some(ColumnKind::Boolean),
        "timestamp without time zone" => Some(ColumnKind::Time),
        "timestamp with time zone" => Some(ColumnKind::ZonedTime),
        _ if name.starts_with("enum(") => Some(ColumnKind::Choice),
        _ => None,
    }
}

/// The rows are picked once, and nobody else changes them meanwhile.
fn change(row_change: &RowChange) -> String {
    let RowChange { table, set, picked, guard, keys } = row_change;
    let same: Vec<String> = keys.iter().enumerate().map(|(n, key)| format!("{key} = picked.k{n}")).collect();
    let what = match set {
        Some(set) => format!("UPDATE {table} AS t SET {set} FROM picked"),
        None => format!("DELETE FROM {table} AS t USING picked"),
    };
    let same = same.join(" AND ");
    format!("WITH picked AS MATERIALIZED ({picked} FOR UPDATE SKIP LOCKED) {what} WHERE {same} AND {guard}")
}

/// What a text is turned into to be compared with a key's column.
pub(super) fn key_type(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Uuid => "uuid",
        ColumnKind::Integer => "int8",
        // Compared with a text, the column would be turned into one, and its index would be of no use.
        ColumnKind::PaddedText => "bpchar",
        ColumnKind::Time => "timestamp",
        ColumnKind::ZonedTime => "timestamptz",
        _ => "text",
    }
}

/// What an event is made of.
pub(super) fn of_event(resolved: &ResolvedLayout) -> String {
    let text = |field, name| format!("{} AS {name}", text(resolved, field));
    let payload = match resolved.column(Field::Payload) {
        Some((column, ColumnKind::Bytes)) => format!("NULL::text AS payload, {column} AS payload_bytes"),
        Some((column, _)) => format!("{column}::text AS payload, NULL::bytea AS payload_bytes"),
        None => "NULL::text AS payload, NULL::bytea AS payload_bytes".to_owned(),
    };
    let version = match resolved.column(Field::SchemaVersion) {
        Some((column, _)) => format!("{column}::int8 AS schema_version"),
        None => "NULL::int8 AS schema_version".to_owned(),
    };
    let columns = [text(Field::Topic, "topic"), text(Field::ContentType, "content_type"), version, payload];
    format!("{}, {}", of_both(resolved), columns.join(", "))
}

/// What an operator sees of a row.
pub(super) fn of_row(resolved: &ResolvedLayout) -> String {
    let columns = [
        format!("{} AS payload_size", length(resolved, Field::Payload)),
        format!("({})::int2 AS status", resolved.status_code()),
        "NULL::text AS parked".to_owned(),
        format!("{} AS available_at", time(resolved, Field::CreatedAt)),
        format!("{} AS done_at", time(resolved, Field::SentAt)),
        format!("{} AS last_error", text(resolved, Field::Error)),
        "NULL::text AS locked_by, NULL::timestamptz AS locked_at".to_owned(),
    ];
    format!("{}, {}", of_both(resolved), columns.join(", "))
}

/// How large a row is.
pub(super) fn size(resolved: &ResolvedLayout) -> String {
    format!("{} + {}", length(resolved, Field::Payload), length(resolved, Field::Headers))
}

/// How many bytes an event has of a column. Of bytes and of text that are stored apart PostgreSQL knows it without
/// reading them.
fn length(resolved: &ResolvedLayout, field: Field) -> String {
    match resolved.column(field) {
        Some((column, ColumnKind::Bytes | ColumnKind::Text)) => {
            format!("coalesce(octet_length({column}), 0)::int8")
        }
        Some((column, _)) => format!("coalesce(octet_length({column}::text), 0)::int8"),
        None => "0::int8".to_owned(),
    }
}

fn of_both(resolved: &ResolvedLayout) -> String {
    let text = |field, name| format!("{} AS {name}", text(resolved, field));
    let created_at = time(resolved, Field::CreatedAt);
    let attempts = match resolved.column(Field::Attempts) {
        Some((column, _)) => format!("{column}::int4"),
        None => "0::int4".to_owned(),
    };
    let columns = [
        "0::int8 AS seq".to_owned(),
        text(Field::Id, "event_id"),
        text(Field::EventType, "event_type"),
        text(Field::AggregateType, "aggregate_type"),
        text(Field::AggregateId, "aggregate_id"),
        text(Field::Tenant, "tenant_id"),
        text(Field::Headers, "headers"),
        format!("{created_at} AS created_at, {created_at} AS inserted_at"),
        format!(
            "{attempts} AS attempts, 0::int4 AS deferrals, 0::int4 AS lost_leases, 0::int4 AS replays, \
             NULL::text[] AS progress"
        ),
    ];
    columns.join(", ")
}

fn text(resolved: &ResolvedLayout, field: Field) -> String {
    resolved.column(field).map_or_else(|| "NULL::text".to_owned(), |(column, _)| format!("{column}::text"))
}

/// A column as a `timestamptz`.
pub(super) fn time(resolved: &ResolvedLayout, field: Field) -> String {
    match resolved.column(field) {
        Some((column, ColumnKind::Time)) => format!("({column} AT TIME ZONE 'UTC')"),
        Some((column, _)) => column,
        None => "NULL::timestamptz".to_owned(),
    }
}
