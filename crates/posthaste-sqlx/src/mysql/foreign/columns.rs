//! A foreign table as MySQL and MariaDB know it: its types, and its columns under the names of our own.

use crate::foreign::Field;
use crate::foreign::text::{Changing, Dialect, Kind, Words};

pub(super) static DIALECT: Dialect = Dialect {
    quote: '`',
    set_in: "t.",
    place: |_| "?".to_owned(),
    as_text: |column, kind| match kind {
        Kind::Text => column.to_owned(),
        Kind::UuidBytes => uuid_text(column),
        _ => format!("CAST({column} AS CHAR)"),
    },
    as_key: |kind, place| key_value(kind, place),
    before: |clock, place| format!("{clock} - INTERVAL {place} MICROSECOND"),
    store: "MySQL layout",
    time,
    now: "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))",
    of_event,
    of_row,
    total: "SELECT CAST(COALESCE(MAX(table_rows), 0) AS SIGNED) FROM information_schema.tables \
            WHERE table_schema = DATABASE() AND table_name = ?",
    change,
    clock: |kind| match kind {
        // A TIMESTAMP is turned from the session's zone, which is UTC.
        Kind::Time | Kind::ZonedTime => "UTC_TIMESTAMP(6)",
        _ => "NULL",
    },
    kind,
};

/// The type of a column by what `information_schema` calls it.
fn kind(name: &str) -> Option<Kind> {
    match name {
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => Some(Kind::Text),
        "json" => Some(Kind::Json),
        "tinyblob" | "blob" | "mediumblob" | "longblob" | "varbinary" => Some(Kind::Bytes),
        "uuid" => Some(Kind::Uuid),
        "binary(16)" => Some(Kind::UuidBytes),
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Some(Kind::Integer),
        "datetime" | "timestamp" => Some(Kind::Time),
        _ if name.starts_with("enum(") => Some(Kind::Choice),
        _ => None,
    }
}

/// The rows are picked in a subquery of its own, because the server can neither limit a change of several tables nor
/// look into the table that it changes. They are joined, because older servers would compare every row of the state
/// with a list. What was picked may have changed meanwhile, so the state is asked for again.
fn change(changing: &Changing) -> String {
    let Changing { table, set, picked, guard, keys } = changing;
    let same: Vec<String> = keys.iter().enumerate().map(|(n, key)| format!("{key} = picked.k{n}")).collect();
    let joined = format!("{table} AS t JOIN ({picked}) AS picked ON {}", same.join(" AND "));
    match set {
        Some(set) => format!("UPDATE {joined} SET {set} WHERE {guard}"),
        None => format!("DELETE t FROM {joined} WHERE {guard}"),
    }
}

/// Sixteen bytes as people write a UUID.
fn uuid_text(column: &str) -> String {
    let dashes = [9, 14, 19, 24];
    let text = dashes
        .iter()
        .fold(format!("HEX({column})"), |text, place| format!("INSERT({text}, {place}, 0, '-')"));
    format!("LOWER({text})")
}

/// A text that is bound, as a key's column has it.
pub(super) fn key_value(kind: Kind, place: &str) -> String {
    match kind {
        Kind::UuidBytes => format!("UNHEX(REPLACE({place}, '-', ''))"),
        _ => place.to_owned(),
    }
}

/// What an event is made of.
pub(super) fn of_event(words: &Words) -> String {
    let payload = match words.column(Field::Payload) {
        Some((column, Kind::Bytes)) => format!("CAST(NULL AS CHAR) AS payload, {column} AS payload_bytes"),
        Some((column, _)) => {
            format!("CONVERT({column} USING utf8mb4) AS payload, CAST(NULL AS BINARY) AS payload_bytes")
        }
        None => "CAST(NULL AS CHAR) AS payload, CAST(NULL AS BINARY) AS payload_bytes".to_owned(),
    };
    let columns = [
        format!("{} AS topic", text(words, Field::Topic)),
        format!("{} AS content_type", text(words, Field::ContentType)),
        format!("{} AS schema_version", number(words, Field::SchemaVersion, "NULL")),
        payload,
    ];
    format!("{}, {}", of_both(words), columns.join(", "))
}

/// What an operator sees of a row.
pub(super) fn of_row(words: &Words) -> String {
    let columns = [
        format!("CAST({} AS SIGNED) AS payload_size", length(words, Field::Payload)),
        format!("CAST({} AS SIGNED) AS status", words.status_code()),
        "CAST(0 AS SIGNED) AS deferrals, CAST(NULL AS CHAR) AS parked".to_owned(),
        format!("{} AS available_at", time(words, Field::CreatedAt)),
        format!("{} AS done_at", time(words, Field::SentAt)),
        format!("{} AS last_error", text(words, Field::Error)),
        "CAST(NULL AS CHAR) AS locked_by, CAST(NULL AS SIGNED) AS locked_at".to_owned(),
    ];
    format!("{}, {}", of_both(words), columns.join(", "))
}

/// How large a row is.
pub(super) fn size(words: &Words) -> String {
    format!("CAST({} + {} AS SIGNED)", length(words, Field::Payload), length(words, Field::Headers))
}

fn length(words: &Words, field: Field) -> String {
    let length = words.column(field).map(|(column, _)| format!("COALESCE(LENGTH({column}), 0)"));
    length.unwrap_or_else(|| "0".to_owned())
}

fn of_both(words: &Words) -> String {
    let created_at = time(words, Field::CreatedAt);
    let columns = [
        "CAST(0 AS SIGNED) AS seq".to_owned(),
        format!("{} AS event_id", text(words, Field::Id)),
        format!("{} AS event_type", text(words, Field::EventType)),
        format!("{} AS aggregate_type", text(words, Field::AggregateType)),
        format!("{} AS aggregate_id", text(words, Field::AggregateId)),
        format!("{} AS tenant_id", text(words, Field::Tenant)),
        format!("{} AS headers", text(words, Field::Headers)),
        format!("{created_at} AS created_at, {created_at} AS inserted_at"),
        format!("{} AS attempts", number(words, Field::Attempts, "0")),
        "CAST(0 AS SIGNED) AS lost_leases, CAST(0 AS SIGNED) AS replays, CAST(NULL AS CHAR) AS progress"
            .to_owned(),
    ];
    columns.join(", ")
}

/// A column as text, whatever its type and its character set are.
pub(super) fn text(words: &Words, field: Field) -> String {
    match words.column(field) {
        Some((column, Kind::UuidBytes)) => uuid_text(&column),
        Some((column, _)) => format!("CONVERT({column} USING utf8mb4)"),
        None => "CAST(NULL AS CHAR)".to_owned(),
    }
}

fn number(words: &Words, field: Field, otherwise: &str) -> String {
    let value = words.column(field).map_or_else(|| otherwise.to_owned(), |(column, _)| column);
    format!("CAST({value} AS SIGNED)")
}

/// A column as microseconds since 1970.
pub(super) fn time(words: &Words, field: Field) -> String {
    match words.column(field) {
        Some((column, _)) => format!("TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', {column})"),
        None => "CAST(NULL AS SIGNED)".to_owned(),
    }
}
