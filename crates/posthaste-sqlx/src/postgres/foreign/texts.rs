//! The statements of the engine about a foreign table, put together once when it is opened.

use std::sync::Arc;

use super::columns::{self, key_type};
use crate::foreign::text::Words;
use crate::foreign::{Ending, Field, State};

#[derive(Debug)]
pub(super) struct Texts {
    /// The quoted name, as in `FROM`.
    pub(super) table: String,
    pub(super) key_columns: usize,
    /// Ids, keys and times of pending rows, oldest first; a LIMIT follows.
    pub(super) pending: String,
    /// The sizes of the rows of keys that are bound.
    pub(super) sizes: Arc<str>,
    /// The rows of keys that are bound.
    pub(super) read: Arc<str>,
    /// Delivered rows by what becomes of them.
    pub(super) keep: Arc<str>,
    pub(super) delete: Arc<str>,
    pub(super) archive: Arc<str>,
    /// As if something had been delivered.
    pub(super) nothing: Arc<str>,
    /// Failed attempts, with their errors and limits.
    pub(super) count: Arc<str>,
    /// Rows that are given up, with their reasons.
    pub(super) give_up: Arc<str>,
}

impl Texts {
    pub(super) fn new(words: &Words, table: &str) -> Self {
        let pending = words.is(State::Pending);
        let id = words.column(Field::Id).map(|(column, _)| column).unwrap_or_default();
        let keys = words.key();
        let parts: Vec<String> = keys.iter().map(|(column, _)| format!("{column}::text")).collect();
        let listed = format!("{id}::text, {}, {}", parts.join(", "), written(words));
        let (from, joined) = (list(keys.len(), &[]), join(words));
        let delete = format!(
            "DELETE FROM {table} AS t USING {from} WHERE {joined} AND {pending} RETURNING {id}::text"
        );
        let ended = |state| {
            let set = words.set(state, "NULL");
            format!(
                "UPDATE {table} AS t SET {set} FROM {from} WHERE {joined} AND {pending} RETURNING {id}::text"
            )
        };
        let keep = match words.layout.ending() {
            Ending::Status | Ending::Time => ended(State::Sent),
            Ending::Deleted => delete.clone(),
        };
        Self {
            table: table.to_owned(),
            key_columns: keys.len(),
            pending: format!(
                "SELECT {listed} FROM {table} AS t WHERE {pending} ORDER BY {}",
                words.order()
            ),
            sizes: format!(
                "SELECT {id}::text, {} FROM {table} AS t JOIN {from} ON {joined} WHERE {pending}",
                columns::size(words)
            )
            .into(),
            read: format!(
                "SELECT {}, statement_timestamp() AS store_now FROM {table} AS t JOIN {from} ON {joined} WHERE {pending}",
                columns::of_event(words)
            )
            .into(),
            // A layout without the state keeps what it cannot archive.
            archive: match words.layout.value_of(State::Archived) {
                Some(_) => ended(State::Archived).into(),
                None => keep.clone().into(),
            },
            keep: keep.into(),
            delete: delete.into(),
            nothing: words.write_nothing(table).into(),
            count: count(words, table, &pending, &id).into(),
            give_up: give_up(words, table, &pending, &id).into(),
        }
    }
}

/// When a row was written, as text; nothing where the table does not say so.
fn written(words: &Words) -> String {
    words.written().unwrap_or_else(|| "NULL::text".to_owned())
}

/// Keys that are bound, a list for each column and one for when their rows were written, and lists of other values
/// beside them.
fn list(columns: usize, others: &[(&str, &str)]) -> String {
    let keys = (0..columns).map(|n| format!("k{n}")).chain(["written".to_owned()]).map(|name| (name, "text"));
    let all: Vec<(String, &str)> =
        keys.chain(others.iter().map(|(name, kind)| ((*name).to_owned(), *kind))).collect();
    let places: Vec<String> =
        all.iter().enumerate().map(|(n, (_, kind))| format!("${}::{kind}[]", n + 1)).collect();
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    format!("unnest({}) AS k({})", places.join(", "), names.join(", "))
}

/// That a row is one of those whose keys are bound, and no later one with such a key. The key is compared as what it
/// is, so that its index helps.
fn join(words: &Words) -> String {
    let keys = words.key();
    let pairs =
        keys.iter().enumerate().map(|(n, (column, kind))| format!("{column} = k.k{n}::{}", key_type(*kind)));
    format!(
        "{} AND {} IS NOT DISTINCT FROM k.written",
        pairs.collect::<Vec<_>>().join(" AND "),
        written(words)
    )
}

/// One statement counts and decides, on the count that the table has at that moment.
fn count(words: &Words, table: &str, pending: &str, id: &str) -> String {
    let (Some((attempts, _)), Some((status, _))) =
        (words.column(Field::Attempts), words.column(Field::Status))
    else {
        return give_up(words, table, pending, id);
    };
    let bare = |column: &str| column.trim_start_matches("t.").to_owned();
    let (from, joined) = (list(words.key().len(), &[("error", "text"), ("most", "int4")]), join(words));
    let failed = words.layout.value_of(State::Failed).map(ToString::to_string).unwrap_or_default();
    let error = words.column(Field::Error).map(|(column, _)| format!("{} = k.error, ", bare(&column)));
    let grown = format!("least(greatest({attempts}, 0), 2147483646) + 1");
    format!(
        "UPDATE {table} AS t SET {}{} = {grown}, {status_bare} = CASE WHEN {grown} >= k.most THEN '{failed}' ELSE \
         {status} END FROM {from} WHERE {joined} AND {pending} RETURNING {id}::text, {attempts}::int8, {status} = '{failed}'",
        error.unwrap_or_default(),
        bare(&attempts),
        status_bare = bare(&status),
    )
}

fn give_up(words: &Words, table: &str, pending: &str, id: &str) -> String {
    let (from, joined) = (list(words.key().len(), &[("error", "text")]), join(words));
    let set = words.set(State::Failed, "k.error");
    format!("UPDATE {table} AS t SET {set} FROM {from} WHERE {joined} AND {pending} RETURNING {id}::text")
}
