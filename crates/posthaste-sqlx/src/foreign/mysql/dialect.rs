//! The SQL of MySQL and MariaDB for foreign tables: column types and statements.

use crate::foreign::State;
use crate::foreign::catalogue::CatalogueQueries;
use crate::foreign::resolved_layout::{ColumnKind, Dialect, Nulls, ResolvedLayout, RightsQueries};
use crate::foreign::row_key::RowKey;
use crate::foreign::session::{BindValue, BoundQuery};
use crate::mysql::value::{MAX_KEYS, placeholder_count};

pub(crate) static DIALECT: Dialect = Dialect {
    server: "MySQL",
    store: "MySQL layout",
    table: "`{table}`",
    quote: '`',
    set_in: "t.",
    placeholder: |_| "?".to_owned(),
    as_text: |column, kind| match kind {
        ColumnKind::Text => column.to_owned(),
        ColumnKind::UuidBytes => uuid_text(column),
        _ => format!("CAST({column} AS CHAR)"),
    },
    read_text: |text| format!("CONVERT({text} USING utf8mb4)"),
    integer: |value, _| format!("CAST({value} AS SIGNED)"),
    as_time: |column, _| format!("TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', {column})"),
    now: "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))",
    nulls: Nulls {
        text: "CAST(NULL AS CHAR)",
        bytes: "CAST(NULL AS BINARY)",
        time: "CAST(NULL AS SIGNED)",
        list: "CAST(NULL AS CHAR)",
    },
    length: |column, _| format!("COALESCE(LENGTH({column}), 0)"),
    as_key: |kind, placeholder| match kind {
        ColumnKind::UuidBytes => format!("UNHEX(REPLACE({placeholder}, '-', ''))"),
        _ => placeholder.to_owned(),
    },
    before: |clock, placeholder| format!("{clock} - INTERVAL {placeholder} MICROSECOND"),
    clock: |kind| match kind {
        // The server converts a TIMESTAMP from the time zone of the session, which is UTC.
        ColumnKind::Time | ColumnKind::ZonedTime => "UTC_TIMESTAMP(6)",
        _ => "NULL",
    },
    kind,
    pending,
    max_keys: MAX_KEYS,
    change,
    total: "SELECT CAST(COALESCE(MAX(table_rows), 0) AS SIGNED) FROM information_schema.tables \
            WHERE table_schema = DATABASE() AND table_name = ?",
    // Names of locks are global to the server and limited to 64 characters, hence the hash.
    lock: "SELECT CAST(COALESCE(GET_LOCK(CONCAT('posthaste:', SHA1(CONCAT(DATABASE(), '.', ?))), 0), 0) AS SIGNED)
  AS leads",
    held: "SELECT CAST(IS_USED_LOCK(CONCAT('posthaste:', SHA1(CONCAT(DATABASE(), '.', ?)))) <=> CONNECTION_ID()
  AS SIGNED) AS leads",
    catalogue: CatalogueQueries {
        table: "{table}",
        columns: "SELECT CONVERT(column_name USING utf8mb4) AS name,
  CONVERT(IF(column_type = 'binary(16)' OR data_type = 'enum', column_type, data_type) USING utf8mb4) AS kind,
  CAST(character_maximum_length AS SIGNED) AS chars, CAST(is_nullable = 'YES' AS SIGNED) AS nullable
FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?",
        unique: "SELECT CONVERT(index_name USING utf8mb4) AS index_name, CONVERT(column_name USING utf8mb4) AS name
FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = ? AND non_unique = 0",
        // A view has no indexes.
        has_indexes: "SELECT COUNT(*) AS has_indexes FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = ? AND table_type = 'BASE TABLE'",
    },
    rights: RightsQueries {
        only_reads: "SELECT CAST(@@read_only AS SIGNED) AS only_reads",
        try_out: "",
        user: "SELECT CONCAT(QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', 1)), '@', \
               QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', -1))) AS user_name",
    },
};

/// The type of a column, from its name in `information_schema`.
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

/// Sixteen bytes in the text form of a UUID.
fn uuid_text(column: &str) -> String {
    let dashes = [9, 14, 19, 24];
    let text = dashes
        .iter()
        .fold(format!("HEX({column})"), |text, place| format!("INSERT({text}, {place}, 0, '-')"));
    format!("LOWER({text})")
}

/// The rows are picked in a derived table, because the server can neither limit a change of several tables nor, in a
/// subquery, read the table that it changes. The picked rows are joined, because older servers would compare every row
/// of the state with a list. A picked row may have changed since, so the state is checked again.
fn change(resolved: &ResolvedLayout, state: State, set: Option<&str>, picked: &str) -> String {
    let (table, same, guard) = (&resolved.table, resolved.has_key_of("picked"), resolved.is(state));
    let joined = format!("{table} AS t JOIN ({picked}) AS picked ON {same}");
    match set {
        Some(set) => format!("UPDATE {joined} SET {set} WHERE {guard}"),
        None => format!("DELETE t FROM {joined} WHERE {guard}"),
    }
}

fn pending(resolved: &ResolvedLayout, columns: &str, keys: &[RowKey]) -> BoundQuery {
    let (table, pending) = (&resolved.table, resolved.is(State::Pending));
    with_keys(resolved, &format!("SELECT {columns} FROM {table} AS t WHERE {IS_LISTED} AND {pending}"), keys)
}

/// Ends pending rows: sets columns, or deletes the rows.
pub(super) fn end(resolved: &ResolvedLayout, set: Option<&str>, keys: &[RowKey]) -> BoundQuery {
    let (table, pending) = (&resolved.table, resolved.is(State::Pending));
    let what = match set {
        Some(set) => format!("UPDATE {table} AS t SET {set}"),
        None => format!("DELETE t FROM {table} AS t"),
    };
    with_keys(resolved, &format!("{what} WHERE {IS_LISTED} AND {pending}"), keys)
}

/// The condition that a row is one of those whose keys are bound.
const IS_LISTED: &str = "({names}) IN ({keys})";

/// A statement about at most [`MAX_KEYS`] keys. Unused placeholders repeat the last key, so that few different texts
/// are prepared.
fn with_keys(resolved: &ResolvedLayout, text: &str, keys: &[RowKey]) -> BoundQuery {
    let count = placeholder_count(keys.len());
    let placeholders = vec![placeholders(resolved); count].join(", ");
    let text = text.replace("{names}", &resolved.key_names()).replace("{keys}", &placeholders);
    let fill = keys.last().into_iter().cycle().take(count - keys.len());
    BoundQuery::new(text, keys.iter().chain(fill).flat_map(parts).collect()).repeated()
}

/// The condition that a row has the bound key.
pub(super) fn has_key(resolved: &ResolvedLayout) -> String {
    format!("({}) = {}", resolved.key_names(), placeholders(resolved))
}

/// The values that [`has_key`] binds.
pub(super) fn parts(key: &RowKey) -> impl Iterator<Item = BindValue> {
    key.parts.iter().map(|part| part.as_str().into())
}

/// The placeholders of one key.
fn placeholders(resolved: &ResolvedLayout) -> String {
    let values = resolved.key().into_iter().map(|(_, kind)| (DIALECT.as_key)(kind, "?"));
    format!("({})", values.collect::<Vec<_>>().join(", "))
}
