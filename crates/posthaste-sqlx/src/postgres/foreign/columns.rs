//! A foreign table as PostgreSQL knows it: its types, and its columns under the names of our own.

use crate::foreign::Field;
use crate::foreign::text::{Changing, Dialect, Kind, Words};

pub(super) static DIALECT: Dialect = Dialect {
    quote: '"',
    set_in: "",
    place: |n| format!("${n}"),
    as_text: |column, kind| match kind {
        Kind::Text => column.to_owned(),
        _ => format!("{column}::text"),
    },
    as_key: |kind, place| format!("{place}::{}", key_type(kind)),
    before: |clock, place| format!("{clock} - {place}::int8 * interval '1 microsecond'"),
    store: "PostgreSQL layout",
    time,
    now: "statement_timestamp()",
    of_event,
    of_row,
    total: "SELECT greatest(reltuples, 0)::int8 FROM pg_class WHERE oid = to_regclass($1)",
    change,
    clock: |kind| match kind {
        Kind::ZonedTime => "statement_timestamp()",
        _ => "(statement_timestamp() AT TIME ZONE 'UTC')",
    },
    kind,
};

/// The type of a column by the name that `format_type` has for it, or `enum(…)` with the values of an
/// enumeration.
fn kind(name: &str) -> Option<Kind> {
    match name {
        "text" | "character varying" => Some(Kind::Text),
        "character" => Some(Kind::PaddedText),
        "json" | "jsonb" => Some(Kind::Json),
        "bytea" => Some(Kind::Bytes),
        "uuid" => Some(Kind::Uuid),
        "smallint" | "integer" | "bigint" => Some(Kind::Integer),
        "boolean" => Some(Kind::Boolean),
        "timestamp without time zone" => Some(Kind::Time),
        "timestamp with time zone" => Some(Kind::ZonedTime),
        _ if name.starts_with("enum(") => Some(Kind::Choice),
        _ => None,
    }
}

/// The rows are picked once, and nobody else changes them meanwhile.
fn change(changing: &Changing) -> String {
    let Changing { table, set, picked, guard, keys } = changing;
    let same: Vec<String> = keys.iter().enumerate().map(|(n, key)| format!("{key} = picked.k{n}")).collect();
    let what = match set {
        Some(set) => format!("UPDATE {table} AS t SET {set} FROM picked"),
        None => format!("DELETE FROM {table} AS t USING picked"),
    };
    let same = same.join(" AND ");
    format!("WITH picked AS MATERIALIZED ({picked} FOR UPDATE SKIP LOCKED) {what} WHERE {same} AND {guard}")
}

/// What a text is turned into to be compared with a key's column.
pub(super) fn key_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Uuid => "uuid",
        Kind::Integer => "int8",
        // Compared with a text, the column would be turned into one, and its index would be of no use.
        Kind::PaddedText => "bpchar",
        Kind::Time => "timestamp",
        Kind::ZonedTime => "timestamptz",
        _ => "text",
    }
}

/// What an event is made of.
pub(super) fn of_event(words: &Words) -> String {
    let text = |field, name| format!("{} AS {name}", text(words, field));
    let payload = match words.column(Field::Payload) {
        Some((column, Kind::Bytes)) => format!("NULL::text AS payload, {column} AS payload_bytes"),
        Some((column, _)) => format!("{column}::text AS payload, NULL::bytea AS payload_bytes"),
        None => "NULL::text AS payload, NULL::bytea AS payload_bytes".to_owned(),
    };
    let version = match words.column(Field::SchemaVersion) {
        Some((column, _)) => format!("{column}::int8 AS schema_version"),
        None => "NULL::int8 AS schema_version".to_owned(),
    };
    let columns = [text(Field::Topic, "topic"), text(Field::ContentType, "content_type"), version, payload];
    format!("{}, {}", of_both(words), columns.join(", "))
}

/// What an operator sees of a row.
pub(super) fn of_row(words: &Words) -> String {
    let columns = [
        format!("{} AS payload_size", length(words, Field::Payload)),
        format!("({})::int2 AS status", words.status_code()),
        "0::int4 AS deferrals, NULL::text AS parked".to_owned(),
        format!("{} AS available_at", time(words, Field::CreatedAt)),
        format!("{} AS done_at", time(words, Field::SentAt)),
        format!("{} AS last_error", text(words, Field::Error)),
        "NULL::text AS locked_by, NULL::timestamptz AS locked_at".to_owned(),
    ];
    format!("{}, {}", of_both(words), columns.join(", "))
}

/// How large a row is.
pub(super) fn size(words: &Words) -> String {
    format!("{} + {}", length(words, Field::Payload), length(words, Field::Headers))
}

/// How many bytes an event has of a column. Of bytes and of text that are stored apart PostgreSQL knows it without
/// reading them.
fn length(words: &Words, field: Field) -> String {
    match words.column(field) {
        Some((column, Kind::Bytes | Kind::Text)) => format!("coalesce(octet_length({column}), 0)::int8"),
        Some((column, _)) => format!("coalesce(octet_length({column}::text), 0)::int8"),
        None => "0::int8".to_owned(),
    }
}

fn of_both(words: &Words) -> String {
    let text = |field, name| format!("{} AS {name}", text(words, field));
    let created_at = time(words, Field::CreatedAt);
    let attempts = match words.column(Field::Attempts) {
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
            "{attempts} AS attempts, 0::int4 AS lost_leases, 0::int4 AS replays, NULL::text[] AS progress"
        ),
    ];
    columns.join(", ")
}

fn text(words: &Words, field: Field) -> String {
    words.column(field).map_or_else(|| "NULL::text".to_owned(), |(column, _)| format!("{column}::text"))
}

/// A column as a `timestamptz`.
pub(super) fn time(words: &Words, field: Field) -> String {
    match words.column(field) {
        Some((column, Kind::Time)) => format!("({column} AT TIME ZONE 'UTC')"),
        Some((column, _)) => column,
        None => "NULL::timestamptz".to_owned(),
    }
}
