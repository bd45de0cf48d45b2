//! The statements of the engine about a foreign table, put together once when it is opened. A statement about a list
//! of keys has `{keys}` in it, where their placeholders go.

use std::sync::Arc;

use crate::foreign::resolved_layout::ResolvedLayout;
use crate::foreign::{Ending, Field, State};

use super::columns::{self, key_value};

#[derive(Debug)]
pub(super) struct ForeignStatements {
    /// The quoted name, as in `FROM`.
    pub(super) table: String,
    /// The placeholders of one key.
    pub(super) key: String,
    /// Ids, keys and times of pending rows, oldest first; a LIMIT follows.
    pub(super) pending: String,
    /// The sizes of the rows of some keys.
    pub(super) sizes: String,
    /// The rows of some keys, and when they were written.
    pub(super) read: String,
    /// Delivered rows by what becomes of them.
    pub(super) keep: String,
    pub(super) delete: String,
    pub(super) archive: String,
    /// As if something had been delivered.
    pub(super) nothing: Arc<str>,
    /// The same of some keys whose rows are pending, locked until the transaction ends.
    pub(super) still_pending: String,
    /// One failed attempt: the limit and the error come before the key, and after it when the row was written.
    pub(super) count: String,
    /// What one row says of its attempts.
    pub(super) counted: String,
    /// One row that is given up: the reason comes before the key, and after it when the row was written.
    pub(super) give_up: String,
}

impl ForeignStatements {
    pub(super) fn new(resolved: &ResolvedLayout, table: &str) -> Self {
        let pending = resolved.is(State::Pending);
        let keys = resolved.key();
        let names: Vec<&str> = keys.iter().map(|(column, _)| column.as_str()).collect();
        let id = columns::text(resolved, Field::Id);
        let parts: Vec<String> = keys
            .iter()
            .map(|(column, kind)| (resolved.dialect.as_text)(column, *kind))
            .map(converted)
            .collect();
        let written = written(resolved);
        let whole = format!("{id}, {}, {written}", parts.join(", "));
        let one = format!("({}) = {{keys}} AND {written} <=> ?", names.join(", "));
        let placeholders: Vec<String> = keys.iter().map(|(_, kind)| key_value(*kind, "?")).collect();
        let listed = format!("({}) IN ({{keys}})", names.join(", "));
        let delete = format!("DELETE t FROM {table} AS t WHERE {listed} AND {pending}");
        let ended = |state| {
            format!("UPDATE {table} AS t SET {} WHERE {listed} AND {pending}", resolved.set(state, "NULL"))
        };
        let keep = match resolved.layout.ending() {
            Ending::Status | Ending::Time => ended(State::Sent),
            Ending::Deleted => delete.clone(),
        };
        Self {
            table: table.to_owned(),
            key: format!("({})", placeholders.join(", ")),
            pending: format!(
                "SELECT {whole} FROM {table} AS t WHERE {pending} ORDER BY {}",
                resolved.order()
            ),
            sizes: format!(
                "SELECT {id}, {} FROM {table} AS t WHERE {listed} AND {pending}",
                columns::size(resolved)
            ),
            read: format!(
                "SELECT {}, {} AS store_now, {written} AS written FROM {table} AS t WHERE {listed} AND {pending}",
                columns::of_event(resolved),
                resolved.dialect.now
            ),
            // A layout without the state keeps what it cannot archive.
            archive: match resolved.layout.value_of(State::Archived) {
                Some(_) => ended(State::Archived),
                None => keep.clone(),
            },
            nothing: resolved.write_nothing(table).into(),
            still_pending: format!(
                "SELECT {whole} FROM {table} AS t WHERE {listed} AND {pending} FOR UPDATE"
            ),
            keep,
            delete,
            count: count(resolved, table, &pending, &one),
            counted: counted(resolved, table, &names),
            give_up: format!(
                "UPDATE {table} AS t SET {} WHERE {one} AND {pending}",
                resolved.set(State::Failed, "?")
            ),
        }
    }
}

/// When a row was written, as text; nothing where the table does not say so.
fn written(resolved: &ResolvedLayout) -> String {
    resolved.written().map_or_else(|| "CAST(NULL AS CHAR)".to_owned(), converted)
}

fn converted(text: String) -> String {
    format!("CONVERT({text} USING utf8mb4)")
}

/// One statement counts and decides, on the count that the table has at that moment. What reads the count stands
/// before what changes it: the server goes from left to right.
fn count(resolved: &ResolvedLayout, table: &str, pending: &str, one: &str) -> String {
    let (Some((attempts, _)), Some((status, _))) =
        (resolved.column(Field::Attempts), resolved.column(Field::Status))
    else {
        return String::new();
    };
    let failed = resolved.layout.value_of(State::Failed).map(ToString::to_string).unwrap_or_default();
    // Without a column for it the error goes nowhere, but it is bound all the same.
    let error = match resolved.column(Field::Error) {
        Some((column, _)) => format!("{column} = ?"),
        None => format!("{status} = IF(? IS NULL, {status}, {status})"),
    };
    let grown = format!("LEAST(GREATEST(COALESCE({attempts}, 0), 0), 2147483646) + 1");
    format!(
        "UPDATE {table} AS t SET {status} = CASE WHEN {grown} >= ? THEN '{failed}' ELSE {status} END, {error}, \
         {attempts} = {grown} WHERE {one} AND {pending}"
    )
}

fn counted(resolved: &ResolvedLayout, table: &str, names: &[&str]) -> String {
    let Some((attempts, _)) = resolved.column(Field::Attempts) else { return String::new() };
    format!(
        "SELECT CAST(COALESCE({attempts}, 0) AS SIGNED), CAST({} AS SIGNED) FROM {table} AS t WHERE ({}) = {{keys}}",
        resolved.is(State::Failed),
        names.join(", ")
    )
}
