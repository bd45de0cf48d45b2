//! A foreign table as MySQL and MariaDB know it: its types, and its columns under the names of our own.

use crate::foreign::Field;
use crate::foreign::resolved_layout::{ColumnKind, Dialect, ResolvedLayout, RowChange};

pub(super) static DIALECT: Dialect = Dialect {
    quote: '`',
    set_in: "t.",
    placeholder: |_| "?".to_owned(),
    as_text: |column, kind| match kind {
        ColumnKind::Text => column.to_owned(),
        ColumnKind::UuidBytes => uuid_text(column),
        _ => format!("CAST({column} AS CHAR)"),
    },
    as_key: |kind, placeholder| key_value(kind, placeholder),
    before: |clock, placeholder| format!("{clock} - INTERVAL {placeholder} MICROSECOND"),
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
        ColumnKind::Time | ColumnKind::ZonedTime => "UTC_TIMESTAMP(6)",
        _ => "NULL",
    },
    kind,
};

/// The type of a column by what `information_schema` calls it.
fn kind(name: &str) -> Option<ColumnKind> {
    match name {
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => Some(ColumnKind::Text),
        "json" => Some(ColumnKind::Json),
        "tinyblob" | "blob" | "mediumblob" | "longblob" | "varbinary" => Some(ColumnKind::Bytes),
        "uuid" => Some(ColumnKind::Uuid),
        "binary(16)" => Some(ColumnKind::UuidBytes),
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Some(ColumnKind::Integer),
        "datetime" | "timestamp" => Some(ColumnKind::Time),
        _ if name.starts_with("enum(") => Some(ColumnKind::Choice),
        _ => None,
    }
}

/// The rows are picked in a subquery of its own, because the server can neither limit a change of several tables nor
/// look into the table that it changes. They are joined, because older servers would compare every row of the state
/// with a list. What was picked may have changed meanwhile, so the state is asked for again.
fn change(row_change: &RowChange) -> String {
    let RowChange { table, set, picked, guard, keys } = row_change;
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
pub(super) fn key_value(kind: ColumnKind, placeholder: &str) -> String {
    match kind {
        ColumnKind::UuidBytes => format!("UNHEX(REPLACE({placeholder}, '-', ''))"),
        _ => placeholder.to_owned(),
    }
}

/// What an event is made of.
pub(super) fn of_event(resolved: &ResolvedLayout) -> String {
    let payload = match resolved.column(Field::Payload) {
        Some((column, ColumnKind::Bytes)) => {
            format!("CAST(NULL AS CHAR) AS payload, {column} AS payload_bytes")
        }
        Some((column, _)) => {
            format!("CONVERT({column} USING utf8mb4) AS payload, CAST(NULL AS BINARY) AS payload_bytes")
        }
        None => "CAST(NULL AS CHAR) AS payload, CAST(NULL AS BINARY) AS payload_bytes".to_owned(),
    };
    let columns = [
        format!("{} AS topic", text(resolved, Field::Topic)),
        format!("{} AS content_type", text(resolved, Field::ContentType)),
        format!("{} AS schema_version", number(resolved, Field::SchemaVersion, "NULL")),
        payload,
    ];
    format!("{}, {}", of_both(resolved), columns.join(", "))
}

/// What an operator sees of a row.
pub(super) fn of_row(resolved: &ResolvedLayout) -> String {
    let columns = [
        format!("CAST({} AS SIGNED) AS payload_size", length(resolved, Field::Payload)),
        format!("CAST({} AS SIGNED) AS status", resolved.status_code()),
        "CAST(NULL AS CHAR) AS parked".to_owned(),
        format!("{} AS available_at", time(resolved, Field::CreatedAt)),
        format!("{} AS done_at", time(resolved, Field::SentAt)),
        format!("{} AS last_error", text(resolved, Field::Error)),
        "CAST(NULL AS CHAR) AS locked_by, CAST(NULL AS SIGNED) AS locked_at".to_owned(),
    ];
    format!("{}, {}", of_both(resolved), columns.join(", "))
}

/// How large a row is.
pub(super) fn size(resolved: &ResolvedLayout) -> String {
    format!("CAST({} + {} AS SIGNED)", length(resolved, Field::Payload), length(resolved, Field::Headers))
}

fn length(resolved: &ResolvedLayout, field: Field) -> String {
    let length = resolved.column(field).map(|(column, _)| format!("COALESCE(LENGTH({column}), 0)"));
    length.unwrap_or_else(|| "0".to_owned())
}

fn of_both(resolved: &ResolvedLayout) -> String {
    let created_at = time(resolved, Field::CreatedAt);
    let columns = [
        "CAST(0 AS SIGNED) AS seq".to_owned(),
        format!("{} AS event_id", text(resolved, Field::Id)),
        format!("{} AS event_type", text(resolved, Field::EventType)),
        format!("{} AS aggregate_type", text(resolved, Field::AggregateType)),
        format!("{} AS aggregate_id", text(resolved, Field::AggregateId)),
        format!("{} AS tenant_id", text(resolved, Field::Tenant)),
        format!("{} AS headers", text(resolved, Field::Headers)),
        format!("{created_at} AS created_at, {created_at} AS inserted_at"),
        format!("{} AS attempts", number(resolved, Field::Attempts, "0")),
        "CAST(0 AS SIGNED) AS deferrals, CAST(0 AS SIGNED) AS lost_leases, CAST(0 AS SIGNED) AS replays, \
         CAST(NULL AS CHAR) AS progress"
            .to_owned(),
    ];
    columns.join(", ")
}

/// A column as text, whatever its type and its character set are.
pub(super) fn text(resolved: &ResolvedLayout, field: Field) -> String {
    match resolved.column(field) {
        Some((column, ColumnKind::UuidBytes)) => uuid_text(&column),
        Some((column, _)) => format!("CONVERT({column} USING utf8mb4)"),
        None => "CAST(NULL AS CHAR)".to_owned(),
    }
}

fn number(resolved: &ResolvedLayout, field: Field, otherwise: &str) -> String {
    let value = resolved.column(field).map_or_else(|| otherwise.to_owned(), |(column, _)| column);
    format!("CAST({value} AS SIGNED)")
}

/// A column as microseconds since 1970.
pub(super) fn time(resolved: &ResolvedLayout, field: Field) -> String {
    match resolved.column(field) {
        Some((column, _)) => format!("TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', {column})"),
        None => "CAST(NULL AS SIGNED)".to_owned(),
    }
}
