//! A layout with the types of its columns, and the parts of statements that are the same for every database. Names and
//! values of a layout are validated, and stand between quotes; all else is bound.

use std::collections::HashMap;

use posthaste::StoreError;
use posthaste::store::OnDone;
use posthaste_sql_writer::TableRef;

use super::catalogue::{Catalogue, CatalogueQueries, Column};
use super::row_key::RowKey;
use super::session::{BindValue, BoundQuery};
use super::{Ending, Field, Layout, State};
use crate::OpenError;

/// How a database writes what a layout names.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// What the database is called in errors, and a foreign table in it.
    pub(crate) server: &'static str,
    pub(crate) store: &'static str,
    /// The table as it stands in statements, with `{table}` for its name.
    pub(crate) table: &'static str,
    /// Around names.
    pub(crate) quote: char,
    /// Before a column that is set.
    pub(crate) set_in: &'static str,
    /// The placeholder of the n-th value that is bound.
    pub(crate) placeholder: fn(usize) -> String,
    /// A column as text.
    pub(crate) as_text: fn(&str, ColumnKind) -> String,
    /// Such a text, whatever its character set is, as it is read.
    pub(crate) read_text: fn(String) -> String,
    /// A number as an integer of so many bytes, as it is read.
    pub(crate) integer: fn(&str, u8) -> String,
    /// A column as the time that rows of ours have, and the clock in the same form.
    pub(crate) as_time: fn(&str, ColumnKind) -> String,
    pub(crate) now: &'static str,
    /// What is read where the table has no column.
    pub(crate) nulls: Nulls,
    /// How many bytes an event has of a column.
    pub(crate) length: fn(&str, ColumnKind) -> String,
    /// A text that is bound as a value of a key's column.
    pub(crate) as_key: fn(ColumnKind, &str) -> String,
    /// A time so many microseconds before another.
    pub(crate) before: fn(&str, &str) -> String,
    /// The database's clock as a column of this type takes it.
    pub(crate) clock: fn(ColumnKind) -> &'static str,
    /// The type of a column, by what the catalogue calls it.
    pub(crate) kind: fn(&str) -> Option<ColumnKind>,
    /// A query for columns of the pending rows of these keys, at most so many of them.
    pub(crate) pending: fn(&ResolvedLayout, &str, &[RowKey]) -> BoundQuery,
    pub(crate) max_keys: usize,
    /// A statement that sets something in picked rows, or deletes them, as far as they still are in this state. The query
    /// for the keys of the rows names them `k0`, `k1` and so on.
    pub(crate) change: fn(&ResolvedLayout, State, Option<&str>, &str) -> String,
    /// How many rows the database believes there are in the table whose name is bound.
    pub(crate) total: &'static str,
    /// Takes the lock of the table whose name is bound, unless another session has it: `leads` is 1 where this one has
    /// it now.
    pub(crate) lock: &'static str,
    /// Whether this session has the lock, in the same form.
    pub(crate) held: &'static str,
    pub(crate) catalogue: CatalogueQueries,
    pub(crate) rights: RightsQueries,
}

/// NULL as a value of each of these types.
#[derive(Debug)]
pub(crate) struct Nulls {
    pub(crate) text: &'static str,
    pub(crate) bytes: &'static str,
    pub(crate) time: &'static str,
    pub(crate) list: &'static str,
}

/// Questions about what a user may do.
#[derive(Debug)]
pub(crate) struct RightsQueries {
    /// `only_reads` is 0 where the server takes writes.
    pub(crate) only_reads: &'static str,
    /// Stands before a statement that is tried out.
    pub(crate) try_out: &'static str,
    /// The user as a GRANT names it, as `user_name`.
    pub(crate) user: &'static str,
}

/// The types of columns that a layout can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "mysql", feature = "postgres")),
    allow(dead_code, reason = "each database has types that the other has not")
)]
pub(crate) enum ColumnKind {
    Text,
    /// Text that is filled up with blanks, which mean nothing.
    PaddedText,
    Json,
    Bytes,
    Uuid,
    /// A UUID in sixteen bytes.
    UuidBytes,
    Integer,
    Boolean,
    /// A time in UTC.
    Time,
    /// A time with its zone.
    ZonedTime,
    /// A list of values that somebody made a type of.
    Choice,
}

impl ColumnKind {
    /// Whether a column of this type can hold this field.
    fn fits(self, field: Field) -> bool {
        let is_text = matches!(self, Self::Text | Self::PaddedText);
        match field {
            Field::Payload => is_text || matches!(self, Self::Json | Self::Bytes),
            Field::Headers => is_text || self == Self::Json,
            Field::CreatedAt | Field::SentAt => matches!(self, Self::Time | Self::ZonedTime),
            Field::Attempts | Field::SchemaVersion => self == Self::Integer,
            Field::Status => is_text || matches!(self, Self::Choice | Self::Integer | Self::Boolean),
            Field::Error => is_text,
            _ => is_text || matches!(self, Self::Uuid | Self::UuidBytes | Self::Integer | Self::Choice),
        }
    }

    /// Whether rows can be looked up by such a column.
    fn is_key(self) -> bool {
        !matches!(self, Self::Json | Self::Bytes | Self::Boolean | Self::Choice)
    }

    fn what_fits(field: Field) -> &'static str {
        match field {
            Field::Payload => "text, JSON or bytes",
            Field::Headers => "text or JSON",
            Field::CreatedAt | Field::SentAt => "a time",
            Field::Attempts | Field::SchemaVersion => "a whole number",
            Field::Status => "text, an enumeration, a whole number or a boolean",
            Field::Error => "text",
            _ => "text, a UUID or a whole number",
        }
    }
}

/// A layout over a table that is there, with the types of its columns.
#[derive(Debug)]
pub(crate) struct ResolvedLayout {
    pub(crate) layout: Layout,
    pub(crate) dialect: &'static Dialect,
    /// The table as it stands in statements.
    pub(crate) table: String,
    /// The table as the catalogue is asked for it.
    catalogue_name: String,
    kinds: HashMap<String, ColumnKind>,
    /// How many characters an error may have.
    error_chars: Option<usize>,
}

impl ResolvedLayout {
    /// An error names every column that is missing or cannot be used, every value that the status cannot have, and
    /// what is wrong with the key.
    pub(crate) fn new(
        layout: &Layout,
        dialect: &'static Dialect,
        table_ref: &TableRef,
        catalogue: &Catalogue,
    ) -> Result<Self, OpenError> {
        let mut wrong = Vec::new();
        let mut kinds = HashMap::new();
        let fields = Field::ALL.into_iter().filter_map(|field| Some((Some(field), layout.column_of(field)?)));
        for (field, column) in fields.chain(layout.key_columns().into_iter().map(|column| (None, column))) {
            let Some(found) = catalogue.column(column.as_str()) else {
                wrong.push(format!("there is no column {column}"));
                continue;
            };
            let kind = (dialect.kind)(&found.kind);
            match kind.filter(|kind| field.map_or(kind.is_key(), |field| kind.fits(field))) {
                Some(kind) => drop(kinds.insert(column.to_string(), kind)),
                None => {
                    let wanted =
                        field.map_or("text, a UUID, a whole number or a time", ColumnKind::what_fits);
                    wrong.push(format!("the column {column} is {} and should be {wanted}", found.kind));
                }
            }
        }
        wrong.dedup();
        let column = |field| catalogue.column(layout.column_of(field)?.as_str());
        if let Some(status) = column(Field::Status) {
            let values = State::ALL.into_iter().filter_map(|state| layout.value_of(state));
            let refused =
                values.filter(|value| !can_hold(status, (dialect.kind)(&status.kind), value.as_str()));
            wrong.extend(
                refused.map(|value| {
                    format!("the column {} is {} and cannot be {value}", status.name, status.kind)
                }),
            );
        }
        wrong.extend(catalogue.doubts_about_the_key(layout));
        let error_chars = column(Field::Error).and_then(|error| error.chars);
        if !wrong.is_empty() {
            return Err(OpenError::Layout { table: layout.table_name().clone(), why: wrong.join("; ") });
        }
        let (table, catalogue_name) =
            (table_ref.text(dialect.table), table_ref.text(dialect.catalogue.table));
        Ok(Self { layout: layout.clone(), dialect, table, catalogue_name, kinds, error_chars })
    }

    /// The name of the table, to be bound in questions about the catalogue and the lock.
    pub(crate) fn name_in_catalogue(&self) -> BindValue {
        self.catalogue_name.as_str().into()
    }

    pub(crate) fn unsupported(&self, operation: &'static str) -> StoreError {
        StoreError::Unsupported { store: self.dialect.store, operation }
    }

    /// An error as its column can hold it.
    pub(crate) fn cut_error(&self, error: &str) -> String {
        match self.error_chars {
            Some(most) => error.chars().take(most).collect(),
            None => error.to_owned(),
        }
    }

    pub(crate) fn quoted(&self, name: &str) -> String {
        format!("t.{q}{name}{q}", q = self.dialect.quote)
    }

    /// The column of a field, quoted, and its type.
    pub(crate) fn column(&self, field: Field) -> Option<(String, ColumnKind)> {
        let name = self.layout.column_of(field)?;
        Some((self.quoted(name.as_str()), self.kind(name.as_str())))
    }

    /// The same as it stands where a value is set.
    pub(crate) fn bare(&self, field: Field) -> Option<(String, ColumnKind)> {
        let (name, Dialect { quote, set_in, .. }) = (self.layout.column_of(field)?, self.dialect);
        Some((format!("{set_in}{quote}{name}{quote}"), self.kind(name.as_str())))
    }

    /// The columns of the key in one list.
    pub(crate) fn key_names(&self) -> String {
        self.key().into_iter().map(|(column, _)| column).collect::<Vec<_>>().join(", ")
    }

    /// The columns of the key, quoted, with their types.
    pub(crate) fn key(&self) -> Vec<(String, ColumnKind)> {
        let columns = self.layout.key_columns();
        columns.iter().map(|name| (self.quoted(name.as_str()), self.kind(name.as_str()))).collect()
    }

    /// A field as a text that is read.
    pub(crate) fn text(&self, field: Field) -> String {
        self.column(field).map_or_else(
            || self.dialect.nulls.text.to_owned(),
            |(column, kind)| (self.dialect.read_text)((self.dialect.as_text)(&column, kind)),
        )
    }

    /// A field as a time that is read.
    pub(crate) fn time(&self, field: Field) -> String {
        self.column(field).map_or_else(
            || self.dialect.nulls.time.to_owned(),
            |(column, kind)| (self.dialect.as_time)(&column, kind),
        )
    }

    /// When a row was written, as text; NULL where the table does not say so.
    pub(crate) fn written(&self) -> String {
        self.text(Field::CreatedAt)
    }

    /// That a row has the key in `k0`, `k1` and so on of a table of this name.
    pub(crate) fn has_key_of(&self, name: &str) -> String {
        let keys = self.key().into_iter().enumerate();
        keys.map(|(n, (column, _))| format!("{column} = {name}.k{n}")).collect::<Vec<_>>().join(" AND ")
    }

    /// What tells a row from all others: `event_id`, the columns of the key as `k0`, `k1` and so on, and `written`.
    pub(crate) fn row_key(&self) -> String {
        let Dialect { as_text, read_text, .. } = self.dialect;
        let parts = self.key().into_iter().enumerate();
        let parts =
            parts.map(|(n, (column, kind))| format!("{} AS k{n}, ", read_text(as_text(&column, kind))));
        let (id, written) = (self.text(Field::Id), self.written());
        format!("{id} AS event_id, {}{written} AS written", parts.collect::<String>())
    }

    /// Rows that meet a condition, oldest first.
    pub(crate) fn oldest_first(&self, columns: &str, condition: &str, rest: &str) -> String {
        let (table, order) = (&self.table, self.order());
        format!("SELECT {columns} FROM {table} AS t WHERE {condition} ORDER BY {order} {rest}")
    }

    fn kind(&self, name: &str) -> ColumnKind {
        self.kinds.get(name).copied().unwrap_or(ColumnKind::Text)
    }

    /// The condition for rows in this state.
    pub(crate) fn is(&self, state: State) -> String {
        let status = self.column(Field::Status).map(|(column, _)| column);
        if let (Some(status), Some(value)) = (status, self.layout.value_of(state)) {
            return format!("{status} = '{value}'");
        }
        let sent_at = self.column(Field::SentAt).map(|(column, _)| column);
        match (self.layout.ending(), state, sent_at) {
            (Ending::Time, State::Pending, Some(sent_at)) => format!("{sent_at} IS NULL"),
            (Ending::Time, State::Sent, Some(sent_at)) => format!("{sent_at} IS NOT NULL"),
            (Ending::Deleted, State::Pending, _) => "TRUE".to_owned(),
            _ => "FALSE".to_owned(),
        }
    }

    /// The code of a row's status as all stores have it.
    pub(crate) fn status_code(&self) -> String {
        let code = |(state, code): (State, i16)| format!("WHEN {} THEN {code}", self.is(state));
        let states = [(State::Pending, 0), (State::Sent, 1), (State::Failed, 3), (State::Archived, 4)];
        format!("CASE {} ELSE -1 END", states.map(code).join(" "))
    }

    /// By age, where the table knows it.
    pub(crate) fn order(&self) -> String {
        match self.column(Field::CreatedAt) {
            Some((column, _)) => column,
            None => self.key_names(),
        }
    }

    /// What is set in a row that reaches this state, with its error as it is given here.
    pub(crate) fn set(&self, state: State, error: &str) -> String {
        let bare = |field| self.bare(field);
        let mut set = Vec::new();
        if let (Some((status, _)), Some(value)) = (bare(Field::Status), self.layout.value_of(state)) {
            set.push(format!("{status} = '{value}'"));
        }
        if let Some((sent_at, kind)) = bare(Field::SentAt) {
            let clock = (self.dialect.clock)(kind);
            set.extend(match state {
                State::Sent => Some(format!("{sent_at} = {clock}")),
                State::Archived => Some(format!("{sent_at} = COALESCE({sent_at}, {clock})")),
                State::Pending => Some(format!("{sent_at} = NULL")),
                State::Failed => None,
            });
        }
        if let Some((column, _)) = bare(Field::Error) {
            set.push(format!("{column} = {error}"));
        }
        if let (Some((attempts, _)), State::Pending) = (bare(Field::Attempts), state) {
            set.push(format!("{attempts} = 0"));
        }
        set.join(", ")
    }

    /// What is set in a row that was delivered; `None` if it is deleted. A layout without the state keeps what it
    /// cannot archive.
    pub(crate) fn set_delivered(&self, on_done: OnDone) -> Option<String> {
        let state = match on_done {
            OnDone::Delete => return None,
            OnDone::Archive if self.layout.value_of(State::Archived).is_some() => State::Archived,
            _ if self.layout.ending() == Ending::Deleted => return None,
            OnDone::Keep | OnDone::Archive => State::Sent,
        };
        Some(self.set(state, "NULL"))
    }

    /// What is set in a row whose attempt failed: it counts and decides on the count that the table has at that moment.
    /// What reads the count stands before what changes it, because MySQL goes from left to right. Nothing for a table
    /// that does not count.
    pub(crate) fn set_counted(&self, most: &str, error: &str) -> String {
        let column = |field| self.column(field).map(|(column, _)| column).unwrap_or_default();
        let bare = |field| self.bare(field).map(|(column, _)| column).unwrap_or_default();
        let grown = format!("least(greatest(coalesce({}, 0), 0), 2147483646) + 1", column(Field::Attempts));
        let failed = self.layout.value_of(State::Failed).map(ToString::to_string).unwrap_or_default();
        let error = self.bare(Field::Error).map(|(column, _)| format!("{column} = {error}, "));
        format!(
            "{} = CASE WHEN {grown} >= {most} THEN '{failed}' ELSE {} END, {}{} = {grown}",
            bare(Field::Status),
            column(Field::Status),
            error.unwrap_or_default(),
            bare(Field::Attempts),
        )
    }

    /// What is written back into a row that was delivered or given up, into none: a server that refuses this would
    /// refuse it after a delivery.
    pub(crate) fn write_nothing(&self) -> String {
        let written = [Field::Status, Field::SentAt, Field::Error, Field::Attempts];
        let set: Vec<String> = written
            .into_iter()
            .filter_map(|field| self.bare(field))
            .map(|(column, _)| format!("{column} = {column}"))
            .collect();
        let table = &self.table;
        match self.layout.ending() {
            Ending::Deleted => format!("DELETE FROM {table} WHERE FALSE"),
            _ => format!("UPDATE {table} AS t SET {} WHERE FALSE", set.join(", ")),
        }
    }

    /// The right that this needs beside SELECT.
    pub(crate) fn right(&self) -> &'static str {
        match self.layout.ending() {
            Ending::Deleted => "DELETE",
            _ => "UPDATE",
        }
    }
}

/// Whether the status can have this value. A server may compare a column with what it can never hold, and only
/// refuse to write it: events would be delivered again and again.
fn can_hold(status: &Column, kind: Option<ColumnKind>, value: &str) -> bool {
    match kind {
        Some(ColumnKind::Integer) => value.parse::<i64>().is_ok(),
        Some(ColumnKind::Boolean) => ["true", "false"].contains(&value),
        Some(ColumnKind::Choice) => status.kind.contains(&format!("'{value}'")),
        _ => status.chars.is_none_or(|most| value.len() <= most),
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;
    use crate::foreign::postgres::DIALECT;

    const TIME: &str = "timestamp without time zone";

    fn resolve(layout: &Layout, found: &Catalogue) -> Result<ResolvedLayout, OpenError> {
        ResolvedLayout::new(layout, &DIALECT, &TableRef::default(), found)
    }

    fn columns(all: &[(&str, &str)]) -> Catalogue {
        let column = |(name, kind): &(&str, &str)| Column {
            name: (*name).to_owned(),
            kind: (*kind).to_owned(),
            chars: Some(6),
            nullable: false,
        };
        Catalogue { columns: all.iter().map(column).collect(), unique: Some(vec![vec!["id".to_owned()]]) }
    }

    #[test]
    fn key_that_does_not_tell_rows_apart_is_refused() {
        let found = columns(&[("id", "integer"), ("type", "text"), ("payload", "text"), ("part", "integer")]);
        let layout = Layout::debezium().without(Field::AggregateType).without(Field::AggregateId);
        let both = layout.clone().key(["part", "id"].map(|name| name.parse().unwrap()));
        let refused = |layout: &Layout, unique: Option<&[&[&str]]>, nullable: bool| {
            let names = |index: &&[&str]| index.iter().map(|name| (*name).to_owned()).collect();
            let unique = unique.map(|unique| unique.iter().map(names).collect());
            let mut found = Catalogue { unique, ..found.clone() };
            found.columns[0].nullable = nullable;
            resolve(layout, &found).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(refused(&layout, Some(&[&["part"], &["id"]]), false), "");
        assert_eq!(refused(&both, Some(&[&["id", "part"]]), false), "");
        assert_eq!(refused(&both, Some(&[&["id"]]), false), "", "a part of the key is enough");
        assert_eq!(refused(&layout, None, true), "", "nobody knows of a view");
        let same = refused(&layout, Some(&[&["id", "part"], &["part"]]), false);
        assert!(same.contains("the same id") && same.contains("primary key"), "{same}");
        assert!(refused(&layout, Some(&[]), false).contains("the same id"));
        assert!(refused(&layout, Some(&[&["id"]]), true).contains("the column id of its key can be NULL"));
    }

    #[test]
    fn status_that_its_column_cannot_have_is_refused() {
        let layout = |value: &str| {
            let layout = Layout::debezium().without(Field::AggregateType).without(Field::AggregateId);
            let layout = layout.column(Field::Status, "status".parse().unwrap());
            layout.value(State::Pending, "0".parse().unwrap()).value(State::Sent, value.parse().unwrap())
        };
        let fits = |kind: &str, value: &str| {
            let found =
                columns(&[("id", "integer"), ("type", "text"), ("payload", "text"), ("status", kind)]);
            resolve(&layout(value), &found).is_ok()
        };
        assert!(fits("integer", "1") && !fits("integer", "true"));
        assert!(fits("enum('0','SENT')", "SENT") && !fits("enum('0','SENT')", "DONE"));
        assert!(fits("text", "SENT") && !fits("text", "DELIVERED"));
    }

    #[test]
    fn error_is_cut_to_its_column() {
        let found = columns(&[("id", "integer"), ("type", "text"), ("payload", "text"), ("error", "text")]);
        let layout = Layout::debezium().without(Field::AggregateType).without(Field::AggregateId);
        let layout = layout.column(Field::Error, "error".parse().unwrap());
        let resolved = resolve(&layout, &found).expect("a table");
        assert_eq!(
            (resolved.cut_error("äöüäöüäöü").as_str(), resolved.cut_error("no").as_str()),
            ("äöüäöü", "no")
        );
    }

    #[test]
    fn every_column_that_is_wrong_is_named() {
        let found =
            columns(&[("id", "circle"), ("type", "text"), ("payload", "integer"), ("aggregatetype", "text")]);
        let layout = Layout::debezium();
        let error = resolve(&layout, &found).expect_err("an error").to_string();
        for word in ["id is circle", "payload is integer and should be text", "no column aggregateid"] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn row_without_a_status_waits_while_it_has_no_time() {
        let found =
            columns(&[("id", "integer"), ("type", "text"), ("payload", "text"), ("processed_at", TIME)]);
        let layout = Layout::debezium().without(Field::AggregateType).without(Field::AggregateId);
        let layout = layout.column(Field::SentAt, "processed_at".parse().unwrap());
        let resolved = resolve(&layout, &found).expect("a table");
        assert_eq!(resolved.is(State::Pending), r#"t."processed_at" IS NULL"#);
        assert_eq!(resolved.is(State::Failed), "FALSE");
        assert_eq!(
            resolved.set(State::Sent, "NULL"),
            r#""processed_at" = (statement_timestamp() AT TIME ZONE 'UTC')"#
        );
        assert_eq!(resolved.order(), r#"t."id""#);
    }

    #[test]
    fn statements_about_a_status_name_its_values() {
        let names =
            ["id", "aggregate_type", "aggregate_id", "event_type", "payload", "status", "error_message"];
        let mut found: Vec<(&str, &str)> = names.map(|name| (name, "text")).to_vec();
        found.extend([("created_at", TIME), ("sent_at", TIME)]);
        let layout = Layout::order_service();
        let resolved = resolve(&layout, &columns(&found)).expect("a table");
        assert_eq!(resolved.is(State::Pending), r#"t."status" = 'NEW'"#);
        assert_eq!(resolved.set(State::Failed, "?"), r#""status" = 'FAILED', "error_message" = ?"#);
        assert_eq!(
            resolved.set(State::Pending, "NULL"),
            r#""status" = 'NEW', "sent_at" = NULL, "error_message" = NULL"#
        );
        assert!(resolved.status_code().contains(r#"WHEN t."status" = 'SENT' THEN 1"#));
        assert!(resolved.status_code().contains("WHEN FALSE THEN 4"));
    }
}
