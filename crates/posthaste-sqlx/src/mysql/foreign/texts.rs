//! The statements of the engine about a foreign table, put together once when it is opened. A statement about a list
//! of keys has `{keys}` in it, where their places go.

use std::sync::Arc;

use crate::foreign::text::Words;
use crate::foreign::{Ending, Field, State};

use super::columns::{self, key_value};

#[derive(Debug)]
pub(super) struct Texts {
    /// The quoted name, as in `FROM`.
    pub(super) table: String,
    /// The places of one key.
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

impl Texts {
    pub(super) fn new(words: &Words, table: &str) -> Self {
        let pending = words.is(State::Pending);
        let keys = words.key();
        let names: Vec<&str> = keys.iter().map(|(column, _)| column.as_str()).collect();
        let id = columns::text(words, Field::Id);
        let parts: Vec<String> =
            keys.iter().map(|(column, kind)| (words.dialect.as_text)(column, *kind)).map(converted).collect();
        let written = written(words);
        let whole = format!("{id}, {}, {written}", parts.join(", "));
        let one = format!("({}) = {{keys}} AND {written} <=> ?", names.join(", "));
        let places: Vec<String> = keys.iter().map(|(_, kind)| key_value(*kind, "?")).collect();
        let listed = format!("({}) IN ({{keys}})", names.join(", "));
        let delete = format!("DELETE t FROM {table} AS t WHERE {listed} AND {pending}");
        let ended = |state| {
            format!("UPDATE {table} AS t SET {} WHERE {listed} AND {pending}", words.set(state, "NULL"))
        };
        let keep = match words.layout.ending() {
            Ending::Status | Ending::Time => ended(State::Sent),
            Ending::Deleted => delete.clone(),
        };
        Self {
            table: table.to_owned(),
            key: format!("({})", places.join(", ")),
            pending: format!("SELECT {whole} FROM {table} AS t WHERE {pending} ORDER BY {}", words.order()),
            sizes: format!(
                "SELECT {id}, {} FROM {table} AS t WHERE {listed} AND {pending}",
                columns::size(words)
            ),
            read: format!(
                "SELECT {}, {} AS store_now, {written} AS written FROM {table} AS t WHERE {listed} AND {pending}",
                columns::of_event(words),
                words.dialect.now
            ),
            // A layout without the state keeps what it cannot archive.
            archive: match words.layout.value_of(State::Archived) {
                Some(_) => ended(State::Archived),
                None => keep.clone(),
            },
            nothing: words.write_nothing(table).into(),
            still_pending: format!(
                "SELECT {whole} FROM {table} AS t WHERE {listed} AND {pending} FOR UPDATE"
            ),
            keep,
            delete,
            count: count(words, table, &pending, &one),
            counted: counted(words, table, &names),
            give_up: format!(
                "UPDATE {table} AS t SET {} WHERE {one} AND {pending}",
                words.set(State::Failed, "?")
            ),
        }
    }
}

/// When a row was written, as text; nothing where the table does not say so.
fn written(words: &Words) -> String {
    words.written().map_or_else(|| "CAST(NULL AS CHAR)".to_owned(), converted)
}

fn converted(text: String) -> String {
    format!("CONVERT({text} USING utf8mb4)")
}

/// One statement counts and decides, on the count that the table has at that moment. What reads the count stands
/// before what changes it: the server goes from left to right.
fn count(words: &Words, table: &str, pending: &str, one: &str) -> String {
    let (Some((attempts, _)), Some((status, _))) =
        (words.column(Field::Attempts), words.column(Field::Status))
    else {
        return String::new();
    };
    let failed = words.layout.value_of(State::Failed).map(ToString::to_string).unwrap_or_default();
    // Without a column for it the error goes nowhere, but it is bound all the same.
    let error = match words.column(Field::Error) {
        Some((column, _)) => format!("{column} = ?"),
        None => format!("{status} = IF(? IS NULL, {status}, {status})"),
    };
    let grown = format!("LEAST(GREATEST(COALESCE({attempts}, 0), 0), 2147483646) + 1");
    format!(
        "UPDATE {table} AS t SET {status} = CASE WHEN {grown} >= ? THEN '{failed}' ELSE {status} END, {error}, \
         {attempts} = {grown} WHERE {one} AND {pending}"
    )
}

fn counted(words: &Words, table: &str, names: &[&str]) -> String {
    let Some((attempts, _)) = words.column(Field::Attempts) else { return String::new() };
    format!(
        "SELECT CAST(COALESCE({attempts}, 0) AS SIGNED), CAST({} AS SIGNED) FROM {table} AS t WHERE ({}) = {{keys}}",
        words.is(State::Failed),
        names.join(", ")
    )
}
