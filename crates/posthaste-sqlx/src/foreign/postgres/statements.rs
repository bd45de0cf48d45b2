//! The statements of the engine about a foreign table, put together once when it is opened.

use std::sync::Arc;

use super::columns::{self, key_type};
use crate::foreign::resolved_layout::ResolvedLayout;
use crate::foreign::{Ending, Field, State};

#[derive(Debug)]
pub(super) struct ForeignStatements {
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

impl ForeignStatements {
    pub(super) fn new(resolved: &ResolvedLayout, table: &str) -> Self {
        let pending = resolved.is(State::Pending);
        let id = resolved.column(Field::Id).map(|(column, _)| column).unwrap_or_default();
        let keys = resolved.key();
        let parts: Vec<String> = keys.iter().map(|(column, _)| format!("{column}::text")).collect();
        let listed = format!("{id}::text, {}, {}", parts.join(", "), written(resolved));
        let (from, joined) = (list(keys.len(), &[]), join(resolved));
        let delete = format!(
            "DELETE FROM {table} AS t USING {from} WHERE {joined} AND {pending} RETURNING {id}::text"
        );
        let ended = |state| {
            let set = resolved.set(state, "NULL");
            format!(
                "UPDATE {table} AS t SET {set} FROM {from} WHERE {joined} AND {pending} RETURNING {id}::text"
            )
        };
        let keep = match resolved.layout.ending() {
            Ending::Status | Ending::Time => ended(State::Sent),
            Ending::Deleted => delete.clone(),
        };
        Self {
            table: table.to_owned(),
            key_columns: keys.len(),
            pending: format!(
                "SELECT {listed} FROM {table} AS t WHERE {pending} ORDER BY {}",
                resolved.order()
            ),
            sizes: format!(
                "SELECT {id}::text, {} FROM {table} AS t JOIN {from} ON {joined} WHERE {pending}",
                columns::size(resolved)
            )
            .into(),
            read: format!(
                "SELECT {}, statement_timestamp() AS store_now FROM {table} AS t JOIN {from} ON {joined} WHERE {pending}",
                columns::of_event(resolved)
            )
            .into(),
            // A layout without the state keeps what it cannot archive.
            archive: match resolved.layout.value_of(State::Archived) {
                Some(_) => ended(State::Archived).into(),
                None => keep.clone().into(),
            },
            keep: keep.into(),
            delete: delete.into(),
            nothing: resolved.write_nothing(table).into(),
            count: count(resolved, table, &pending, &id).into(),
            give_up: give_up(resolved, table, &pending, &id).into(),
        }
    }
}

/// When a row was written, as text; nothing where the table does not say so.
fn written(resolved: &ResolvedLayout) -> String {
    resolved.written().unwrap_or_else(|| "NULL::text".to_owned())
}

/// Keys that are bound, a list for each column and one for when their rows were written, and lists of other values
/// beside them.
fn list(columns: usize, others: &[(&str, &str)]) -> String {
    let keys = (0..columns).map(|n| format!("k{n}")).chain(["written".to_owned()]).map(|name| (name, "text"));
    let all: Vec<(String, &str)> =
        keys.chain(others.iter().map(|(name, kind)| ((*name).to_owned(), *kind))).collect();
    let placeholders: Vec<String> =
        all.iter().enumerate().map(|(n, (_, kind))| format!("${}::{kind}[]", n + 1)).collect();
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    format!("unnest({}) AS k({})", placeholders.join(", "), names.join(", "))
}

/// That a row is one of those whose keys are bound, and no later one with such a key. The key is compared as what it
/// is, so that its index helps.
fn join(resolved: &ResolvedLayout) -> String {
    let keys = resolved.key();
    let pairs =
        keys.iter().enumerate().map(|(n, (column, kind))| format!("{column} = k.k{n}::{}", key_type(*kind)));
    format!(
        "{} AND {} IS NOT DISTINCT FROM k.written",
        pairs.collect::<Vec<_>>().join(" AND "),
        written(resolved)
    )
}

/// One statement counts and decides, on the count that the table has at that moment.
fn count(resolved: &ResolvedLayout, table: &str, pending: &str, id: &str) -> String {
    let (Some((attempts, _)), Some((status, _))) =
        (resolved.column(Field::Attempts), resolved.column(Field::Status))
    else {
        return give_up(resolved, table, pending, id);
    };
    let bare = |column: &str| column.trim_start_matches("t.").to_owned();
    let (from, joined) = (list(resolved.key().len(), &[("error", "text"), ("most", "int4")]), join(resolved));
    let failed = resolved.layout.value_of(State::Failed).map(ToString::to_string).unwrap_or_default();
    let error = resolved.column(Field::Error).map(|(column, _)| format!("{} = k.error, ", bare(&column)));
    let grown = format!("least(greatest({attempts}, 0), 2147483646) + 1");
    format!(
        "UPDATE {table} AS t SET {}{} = {grown}, {status_bare} = CASE WHEN {grown} >= k.most THEN '{failed}' ELSE \
         {status} END FROM {from} WHERE {joined} AND {pending} RETURNING {id}::text, {attempts}::int8, {status} = '{failed}'",
        error.unwrap_or_default(),
        bare(&attempts),
        status_bare = bare(&status),
    )
}

fn give_up(resolved: &ResolvedLayout, table: &str, pending: &str, id: &str) -> String {
    let (from, joined) = (list(resolved.key().len(), &[("error", "text")]), join(resolved));
    let set = resolved.set(State::Failed, "k.error");
    format!("UPDATE {table} AS t SET {set} FROM {from} WHERE {joined} AND {pending} RETURNING {id}::text")
}
