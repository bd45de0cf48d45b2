//! The SQL of PostgreSQL for foreign tables: column types and statements.

use crate::foreign::State;
use crate::foreign::catalogue::CatalogueQueries;
use crate::foreign::resolved_layout::{ColumnKind, Dialect, Nulls, ResolvedLayout, RightsQueries};
use crate::foreign::row_key::RowKey;
use crate::foreign::session::{BindValue, BoundQuery};

pub(crate) static DIALECT: Dialect = Dialect {
    server: "PostgreSQL",
    store: "PostgreSQL layout",
    table: r#""{table}""#,
    quote: '"',
    set_in: "",
    placeholder: |n| format!("${n}"),
    as_text: |column, kind| match kind {
        ColumnKind::Text => column.to_owned(),
        _ => format!("{column}::text"),
    },
    read_text: |text| text,
    integer: |value, bytes| format!("({value})::int{bytes}"),
    as_time: |column, kind| match kind {
        ColumnKind::Time => format!("({column} AT TIME ZONE 'UTC')"),
        _ => column.to_owned(),
    },
    now: "statement_timestamp()",
    nulls: Nulls { text: "NULL::text", bytes: "NULL::bytea", time: "NULL::timestamptz", list: "NULL::text[]" },
    // The server knows the size of bytes, and of text that is stored out of line, without reading them.
    length: |column, kind| match kind {
        ColumnKind::Bytes | ColumnKind::Text => format!("coalesce(octet_length({column}), 0)"),
        _ => format!("coalesce(octet_length({column}::text), 0)"),
    },
    as_key: |kind, placeholder| format!("{placeholder}::{}", key_type(kind)),
    before: |clock, placeholder| format!("{clock} - {placeholder}::int8 * interval '1 microsecond'"),
    clock: |kind| match kind {
        ColumnKind::ZonedTime => "statement_timestamp()",
        _ => "(statement_timestamp() AT TIME ZONE 'UTC')",
    },
    kind,
    pending,
    max_keys: usize::MAX,
    change,
    total: "SELECT greatest(reltuples, 0)::int8 FROM pg_class WHERE oid = to_regclass($1)",
    lock: "SELECT pg_try_advisory_lock(hashtextextended('posthaste ' || $1::text, 0))::int::int8 AS leads",
    // pg_locks shows the 64-bit key of an advisory lock as two 32-bit halves.
    held: "SELECT (EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()
  AND (classid::int8 << 32 | objid::int8) = hashtextextended('posthaste ' || $1::text, 0)))::int::int8 AS leads",
    catalogue: CatalogueQueries {
        table: r#""{table}""#,
        columns: "SELECT a.attname::text AS name,
  CASE WHEN y.typtype = 'e' THEN 'enum(' || (
      SELECT string_agg(quote_literal(e.enumlabel), ',') FROM pg_enum AS e WHERE e.enumtypid = y.oid) || ')'
    ELSE format_type(a.atttypid, NULL) END AS kind,
  CASE WHEN y.typname IN ('varchar', 'bpchar') AND a.atttypmod > 4 THEN (a.atttypmod - 4)::int8 END AS chars,
  (NOT a.attnotnull)::int::int8 AS nullable
FROM pg_attribute AS a JOIN pg_type AS y ON y.oid = a.atttypid
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped",
        // Partial indexes and indexes on expressions do not make these columns unique for all rows.
        unique: "SELECT i.indexrelid::text AS index_name, a.attname::text AS name
FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid
  AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL",
        // A view or a foreign data wrapper table has no indexes.
        has_indexes: "SELECT (relkind IN ('r', 'p'))::int::int8 AS has_indexes FROM pg_class WHERE oid = to_regclass($1)",
    },
    rights: RightsQueries {
        only_reads: "SELECT (pg_is_in_recovery() OR current_setting('transaction_read_only')::bool)::int::int8
  AS only_reads",
        // EXPLAIN checks the rights and runs no trigger.
        try_out: "EXPLAIN ",
        user: "SELECT quote_ident(current_user) AS user_name",
    },
};

/// The type of a column, from its name in `format_type`, or `enum(…)` with the values of an enumeration.
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

/// The type to which a text is cast for a comparison with a key column.
fn key_type(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Uuid => "uuid",
        ColumnKind::Integer => "int8",
        // In a comparison with text, the column would be cast to text and its index could not be used.
        ColumnKind::PaddedText => "bpchar",
        ColumnKind::Time => "timestamp",
        ColumnKind::ZonedTime => "timestamptz",
        _ => "text",
    }
}

/// The rows are picked once and locked, so no other transaction changes them before this one does.
fn change(resolved: &ResolvedLayout, state: State, set: Option<&str>, picked: &str) -> String {
    let (table, same, guard) = (&resolved.table, resolved.has_key_of("picked"), resolved.is(state));
    let what = match set {
        Some(set) => format!("UPDATE {table} AS t SET {set} FROM picked"),
        None => format!("DELETE FROM {table} AS t USING picked"),
    };
    format!("WITH picked AS MATERIALIZED ({picked} FOR UPDATE SKIP LOCKED) {what} WHERE {same} AND {guard}")
}

fn pending(resolved: &ResolvedLayout, columns: &str, keys: &[RowKey]) -> BoundQuery {
    let (table, list, is_listed) = (&resolved.table, list(resolved, &[]), is_listed(resolved));
    let pending = resolved.is(State::Pending);
    let text = format!("SELECT {columns} FROM {table} AS t JOIN {list} ON {is_listed} WHERE {pending}");
    with_keys(resolved, text, keys, Vec::new())
}

/// A statement that sets columns of pending rows, or deletes them, and returns their ids. `others` are the names and
/// types of further values per row.
pub(super) fn end(resolved: &ResolvedLayout, set: Option<&str>, others: &[(&str, &str)]) -> String {
    let (table, list, is_listed) = (&resolved.table, list(resolved, others), is_listed(resolved));
    let (id, pending) = (resolved.text(crate::foreign::Field::Id), resolved.is(State::Pending));
    let what = match set {
        Some(set) => format!("UPDATE {table} AS t SET {set} FROM {list}"),
        None => format!("DELETE FROM {table} AS t USING {list}"),
    };
    format!("{what} WHERE {is_listed} AND {pending} RETURNING {id} AS event_id")
}

/// A statement about these keys. It binds one list per key column, one with the times of writing, and then `others`.
pub(super) fn with_keys(
    resolved: &ResolvedLayout,
    text: String,
    keys: &[RowKey],
    others: Vec<BindValue>,
) -> BoundQuery {
    let part = |n: usize| keys.iter().map(|key| key.parts.get(n).cloned()).collect();
    let parts = (0..resolved.key().len()).map(|n| BindValue::Texts(part(n)));
    let written = BindValue::Texts(keys.iter().map(|key| key.written.clone()).collect());
    BoundQuery::new(text, parts.chain([written]).chain(others).collect())
}

/// The lists of [`with_keys`] as a table.
fn list(resolved: &ResolvedLayout, others: &[(&str, &str)]) -> String {
    let keys = (0..resolved.key().len()).map(|n| (format!("k{n}"), "text"));
    let others = others.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
    let (names, kinds): (Vec<_>, Vec<_>) = keys.chain([("written".to_owned(), "text")]).chain(others).unzip();
    let lists: Vec<String> = kinds.iter().zip(1..).map(|(kind, n)| format!("${n}::{kind}[]")).collect();
    format!("unnest({}) AS k({})", lists.join(", "), names.join(", "))
}

/// The condition that a row is one of those whose keys are bound, and not a newer row with the same key. The key is
/// compared in its own type, so that its index can be used.
fn is_listed(resolved: &ResolvedLayout) -> String {
    let keys = resolved.key().into_iter().enumerate();
    let same = keys.map(|(n, (column, kind))| format!("{column} = k.k{n}::{} AND ", key_type(kind)));
    format!("{}{} IS NOT DISTINCT FROM k.written", same.collect::<String>(), resolved.written())
}
