//! A layout with the types of its columns, and the parts of statements that are the same for every database. Names and
//! values of a layout are validated, and stand between quotes; all else is bound.

use std::collections::HashMap;

use super::catalogue::{Catalogue, Column};
use super::{Ending, Field, Layout, State};
use crate::OpenError;

/// How a database writes what a layout names.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Around names.
    pub(crate) quote: char,
    /// Before a column that is set.
    pub(crate) set_in: &'static str,
    /// The placeholder of the n-th value that is bound.
    pub(crate) placeholder: fn(usize) -> String,
    /// A column as text.
    pub(crate) as_text: fn(&str, ColumnKind) -> String,
    /// A text that is bound as a value of a key's column.
    pub(crate) as_key: fn(ColumnKind, &str) -> String,
    /// A time so many microseconds before another.
    pub(crate) before: fn(&str, &str) -> String,
    /// What a foreign table in such a database is called in errors.
    pub(crate) store: &'static str,
    /// A field as the time that rows of ours have, and the clock in the same form.
    pub(crate) time: fn(&ResolvedLayout, Field) -> String,
    pub(crate) now: &'static str,
    /// The columns of an event, and of a row, under the names of ours.
    pub(crate) of_event: fn(&ResolvedLayout) -> String,
    pub(crate) of_row: fn(&ResolvedLayout) -> String,
    /// How many rows the database believes there are in the table whose name is bound.
    pub(crate) total: &'static str,
    /// A statement that changes picked rows, and nothing that somebody else changes meanwhile.
    pub(crate) change: fn(&RowChange) -> String,
    /// The database's clock as a column of this type takes it.
    pub(crate) clock: fn(ColumnKind) -> &'static str,
    /// The type of a column, by what the catalogue calls it.
    pub(crate) kind: fn(&str) -> Option<ColumnKind>,
}

/// What is to be changed, and in which rows.
#[derive(Debug)]
pub(crate) struct RowChange {
    pub(crate) table: String,
    /// What is set; none if the rows are deleted.
    pub(crate) set: Option<String>,
    /// A query for the keys of the rows, named `k0`, `k1` and so on.
    pub(crate) picked: String,
    /// What must still be so when a row is changed.
    pub(crate) guard: String,
    /// The columns of the key.
    pub(crate) keys: Vec<String>,
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
        match wrong.is_empty() {
            true => Ok(Self { layout: layout.clone(), dialect, kinds, error_chars }),
            false => Err(OpenError::Layout { table: layout.table_name().clone(), why: wrong.join("; ") }),
        }
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

    /// When a row was written, as text, if the table says so.
    pub(crate) fn written(&self) -> Option<String> {
        let (column, kind) = self.column(Field::CreatedAt)?;
        Some((self.dialect.as_text)(&column, kind))
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

    /// What is written back into a row that was delivered or given up, into none: a server that refuses this would
    /// refuse it after a delivery.
    pub(crate) fn write_nothing(&self, table: &str) -> String {
        let written = [Field::Status, Field::SentAt, Field::Error, Field::Attempts];
        let set: Vec<String> = written
            .into_iter()
            .filter_map(|field| self.bare(field))
            .map(|(column, _)| format!("{column} = {column}"))
            .collect();
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

    /// The database's clock as this type of column has it.
    pub(crate) fn clock(&self, kind: ColumnKind) -> &'static str {
        (self.dialect.clock)(kind)
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

#[cfg(test)]
mod tests {
    use super::*;

    static DIALECT: Dialect = Dialect {
        quote: '"',
        set_in: "",
        placeholder: |n| format!("${n}"),
        as_text: |column, _| format!("{column}::text"),
        as_key: |_, placeholder| placeholder.to_owned(),
        before: |clock, placeholder| format!("{clock} - {placeholder}"),
        store: "tested layout",
        time: |_, _| String::new(),
        now: "now()",
        of_event: |_| String::new(),
        of_row: |_| String::new(),
        total: "SELECT 0",
        change: |_| String::new(),
        clock: |_| "now()",
        kind: |name| match name {
            "text" => Some(ColumnKind::Text),
            "time" => Some(ColumnKind::Time),
            "int" => Some(ColumnKind::Integer),
            _ if name.starts_with("enum(") => Some(ColumnKind::Choice),
            _ => None,
        },
    };

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
        let found = columns(&[("id", "int"), ("type", "text"), ("payload", "text"), ("part", "int")]);
        let layout = Layout::debezium().without(Field::AggregateType).without(Field::AggregateId);
        let both = layout.clone().key(["part", "id"].map(|name| name.parse().unwrap()));
        let refused = |layout: &Layout, unique: Option<&[&[&str]]>, nullable: bool| {
            let names = |index: &&[&str]| index.iter().map(|name| (*name).to_owned()).collect();
            let unique = unique.map(|unique| unique.iter().map(names).collect());
            let mut found = Catalogue { unique, ..found.clone() };
            found.columns[0].nullable = nullable;
            ResolvedLayout::new(layout, &DIALECT, &found)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
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
            let found = columns(&[("id", "int"), ("type", "text"), ("payload", "text"), ("status", kind)]);
            ResolvedLayout::new(&layout(value), &DIALECT, &found).is_ok()
        };
        assert!(fits("int", "1") && !fits("int", "true"));
        assert!(fits("enum('0','SENT')", "SENT") && !fits("enum('0','SENT')", "DONE"));
        assert!(fits("text", "SENT") && !fits("text", "DELIVERED"));
    }

    #[test]
    fn error_is_cut_to_its_column() {
        let found = columns(&[("id", "int"), ("type", "text"), ("payload", "text"), ("error", "text")]);
        let layout = Layout::debezium().without(Field::AggregateType).without(Field::AggregateId);
        let layout = layout.column(Field::Error, "error".parse().unwrap());
        let resolved = ResolvedLayout::new(&layout, &DIALECT, &found).expect("a table");
        assert_eq!(
            (resolved.cut_error("äöüäöüäöü").as_str(), resolved.cut_error("no").as_str()),
            ("äöüäöü", "no")
        );
    }

    #[test]
    fn every_column_that_is_wrong_is_named() {
        let found =
            columns(&[("id", "circle"), ("type", "text"), ("payload", "int"), ("aggregatetype", "text")]);
        let layout = Layout::debezium();
        let error = ResolvedLayout::new(&layout, &DIALECT, &found).expect_err("an error").to_string();
        for word in ["id is circle", "payload is int and should be text", "no column aggregateid"] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn row_without_a_status_waits_while_it_has_no_time() {
        let found =
            columns(&[("id", "int"), ("type", "text"), ("payload", "text"), ("processed_at", "time")]);
        let layout = Layout::debezium().without(Field::AggregateType).without(Field::AggregateId);
        let layout = layout.column(Field::SentAt, "processed_at".parse().unwrap());
        let resolved = ResolvedLayout::new(&layout, &DIALECT, &found).expect("a table");
        assert_eq!(resolved.is(State::Pending), r#"t."processed_at" IS NULL"#);
        assert_eq!(resolved.is(State::Failed), "FALSE");
        assert_eq!(resolved.set(State::Sent, "NULL"), r#""processed_at" = now()"#);
        assert_eq!(resolved.order(), r#"t."id""#);
    }

    #[test]
    fn statements_about_a_status_name_its_values() {
        let names =
            ["id", "aggregate_type", "aggregate_id", "event_type", "payload", "status", "error_message"];
        let mut found: Vec<(&str, &str)> = names.map(|name| (name, "text")).to_vec();
        found.extend([("created_at", "time"), ("sent_at", "time")]);
        let layout = Layout::order_service();
        let resolved = ResolvedLayout::new(&layout, &DIALECT, &columns(&found)).expect("a table");
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
