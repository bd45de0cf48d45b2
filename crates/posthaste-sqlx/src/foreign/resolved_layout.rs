//! A layout resolved against its table: the types of its columns, and the parts of statements that all databases share.
//! Names and values of a layout are validated and quoted; all other values are bound.

use std::collections::HashMap;

use posthaste::StoreError;
use posthaste::store::OnDone;
use posthaste_sql_writer::TableRef;

use super::catalogue::{Catalogue, CatalogueQueries, Column};
use super::row_key::RowKey;
use super::session::{BindValue, BoundQuery};
use super::{Ending, Field, Layout, State};
use crate::OpenError;

/// The SQL of one database for what a layout names.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// The names that errors use for the database, and for a foreign table in it.
    pub(crate) server: &'static str,
    pub(crate) store: &'static str,
    /// The table in statements, with `{table}` for its name.
    pub(crate) table: &'static str,
    /// The quotation mark of names.
    pub(crate) quote: char,
    /// The prefix of a column that is set in an UPDATE.
    pub(crate) set_in: &'static str,
    /// The placeholder of the nth bound value.
    pub(crate) placeholder: fn(usize) -> String,
    /// A column as text.
    pub(crate) as_text: fn(&str, ColumnKind) -> String,
    /// Converts a text of any character set to the one that is read.
    pub(crate) read_text: fn(String) -> String,
    /// A number as an integer of this many bytes.
    pub(crate) integer: fn(&str, u8) -> String,
    /// A column as the time type of Posthaste's own tables, and the clock of the server in the same form.
    pub(crate) as_time: fn(&str, ColumnKind) -> String,
    pub(crate) now: &'static str,
    /// The values to read where the table has no column.
    pub(crate) nulls: Nulls,
    /// The size of a column of an event, in bytes.
    pub(crate) length: fn(&str, ColumnKind) -> String,
    /// A bound text as a value of a key column.
    pub(crate) as_key: fn(ColumnKind, &str) -> String,
    /// A time this many microseconds before another time.
    pub(crate) before: fn(&str, &str) -> String,
    /// The clock of the server, as a column of this type takes it.
    pub(crate) clock: fn(ColumnKind) -> &'static str,
    /// The type of a column, from its name in the catalogue.
    pub(crate) kind: fn(&str) -> Option<ColumnKind>,
    /// A query for columns of the pending rows with these keys, which are a limited number.
    pub(crate) pending: fn(&ResolvedLayout, &str, &[RowKey]) -> BoundQuery,
    pub(crate) max_keys: usize,
    /// A statement that sets columns of picked rows, or deletes the rows, if they are still in this state. The query
    /// that picks the rows names the key columns `k0`, `k1` and so on.
    pub(crate) change: fn(&ResolvedLayout, State, Option<&str>, &str) -> String,
    /// The row count that the database estimates for the table whose name is bound.
    pub(crate) total: &'static str,
    /// Tries to take the lock of the table whose name is bound. `leads` is 1 if this session holds it now.
    pub(crate) lock: &'static str,
    /// Returns whether this session holds the lock, in the same form.
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

/// Queries about the rights of the user.
#[derive(Debug)]
pub(crate) struct RightsQueries {
    /// `only_reads` is 0 if the server accepts writes.
    pub(crate) only_reads: &'static str,
    /// The prefix that makes a server check a statement without running it.
    pub(crate) try_out: &'static str,
    /// Returns the user as GRANT names it, as `user_name`.
    pub(crate) user: &'static str,
}

/// The column types that a layout can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "mysql", feature = "postgres")),
    allow(dead_code, reason = "each database has types that the other has not")
)]
pub(crate) enum ColumnKind {
    Text,
    /// Text that is padded with blanks, which have no meaning.
    PaddedText,
    Json,
    Bytes,
    Uuid,
    /// A UUID as sixteen bytes.
    UuidBytes,
    Integer,
    Boolean,
    /// A time in UTC, without a zone.
    Time,
    /// A time with a zone.
    ZonedTime,
    /// An enumeration type.
    Choice,
}

impl ColumnKind {
    /// True if a column of this type can contain this field.
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

    /// True if rows can be looked up by a column of this type.
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

/// A layout with the column types of an existing table.
#[derive(Debug)]
pub(crate) struct ResolvedLayout {
    pub(crate) layout: Layout,
    pub(crate) dialect: &'static Dialect,
    /// The table in statements.
    pub(crate) table: String,
    /// The table as catalogue queries take it.
    catalogue_name: String,
    kinds: HashMap<String, ColumnKind>,
    /// The maximum length of an error, in characters.
    error_chars: Option<usize>,
}

impl ResolvedLayout {
    /// Checks the layout against the table. The error names every column that is missing or unsuitable, every value
    /// that the status column cannot contain, and what is wrong with the key.
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

    /// The name of the table, to be bound in queries of the catalogue and of the lock.
    pub(crate) fn name_in_catalogue(&self) -> BindValue {
        self.catalogue_name.as_str().into()
    }

    pub(crate) fn unsupported(&self, operation: &'static str) -> StoreError {
        StoreError::Unsupported { store: self.dialect.store, operation }
    }

    /// Cuts an error to the length of its column.
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

    /// The column of a field as an assignment takes it.
    pub(crate) fn bare(&self, field: Field) -> Option<(String, ColumnKind)> {
        let (name, Dialect { quote, set_in, .. }) = (self.layout.column_of(field)?, self.dialect);
        Some((format!("{set_in}{quote}{name}{quote}"), self.kind(name.as_str())))
    }

    /// The key columns as one list.
    pub(crate) fn key_names(&self) -> String {
        self.key().into_iter().map(|(column, _)| column).collect::<Vec<_>>().join(", ")
    }

    /// The key columns, quoted, with their types.
    pub(crate) fn key(&self) -> Vec<(String, ColumnKind)> {
        let columns = self.layout.key_columns();
        columns.iter().map(|name| (self.quoted(name.as_str()), self.kind(name.as_str()))).collect()
    }

    /// A field as text.
    pub(crate) fn text(&self, field: Field) -> String {
        self.column(field).map_or_else(
            || self.dialect.nulls.text.to_owned(),
            |(column, kind)| (self.dialect.read_text)((self.dialect.as_text)(&column, kind)),
        )
    }

    /// A field as a time.
    pub(crate) fn time(&self, field: Field) -> String {
        self.column(field).map_or_else(
            || self.dialect.nulls.time.to_owned(),
            |(column, kind)| (self.dialect.as_time)(&column, kind),
        )
    }

    /// The time at which a row was written, as text; NULL if the table has no such column.
    pub(crate) fn written(&self) -> String {
        self.text(Field::CreatedAt)
    }

    /// The condition that a row has the key in `k0`, `k1` and so on of the table with this name.
    pub(crate) fn has_key_of(&self, name: &str) -> String {
        let keys = self.key().into_iter().enumerate();
        keys.map(|(n, (column, _))| format!("{column} = {name}.k{n}")).collect::<Vec<_>>().join(" AND ")
    }

    /// The columns that identify a row: `event_id`, the key columns as `k0`, `k1` and so on, and `written`.
    pub(crate) fn row_key(&self) -> String {
        let Dialect { as_text, read_text, .. } = self.dialect;
        let parts = self.key().into_iter().enumerate();
        let parts =
            parts.map(|(n, (column, kind))| format!("{} AS k{n}, ", read_text(as_text(&column, kind))));
        let (id, written) = (self.text(Field::Id), self.written());
        format!("{id} AS event_id, {}{written} AS written", parts.collect::<String>())
    }

    /// Selects rows that meet a condition, oldest first.
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

    /// The status of a row as the status code that all stores use.
    pub(crate) fn status_code(&self) -> String {
        let code = |(state, code): (State, i16)| format!("WHEN {} THEN {code}", self.is(state));
        let states = [(State::Pending, 0), (State::Sent, 1), (State::Failed, 3), (State::Archived, 4)];
        format!("CASE {} ELSE -1 END", states.map(code).join(" "))
    }

    /// The order of rows: by age, if the table has a time.
    pub(crate) fn order(&self) -> String {
        match self.column(Field::CreatedAt) {
            Some((column, _)) => column,
            None => self.key_names(),
        }
    }

    /// The assignments that put a row into this state, with `error` as the expression of its error.
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

    /// The assignments for a delivered row; `None` if the row is deleted. A layout without the state ARCHIVED keeps the
    /// row as sent.
    pub(crate) fn set_delivered(&self, on_done: OnDone) -> Option<String> {
        let state = match on_done {
            OnDone::Delete => return None,
            OnDone::Archive if self.layout.value_of(State::Archived).is_some() => State::Archived,
            _ if self.layout.ending() == Ending::Deleted => return None,
            OnDone::Keep | OnDone::Archive => State::Sent,
        };
        Some(self.set(state, "NULL"))
    }

    /// The assignments for a row whose attempt failed. The row counts the attempt and decides by its own count whether
    /// it is given up. Expressions that read the count come before the one that changes it, because MySQL evaluates
    /// assignments from left to right. Empty for a table that does not count attempts.
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

    /// A statement that writes what deliveries and failures write, but matches no row. A server that refuses it would
    /// also refuse the write-back of a delivery.
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

    /// The right that write-backs need in addition to SELECT.
    pub(crate) fn right(&self) -> &'static str {
        match self.layout.ending() {
            Ending::Deleted => "DELETE",
            _ => "UPDATE",
        }
    }
}

/// True if the status column can contain this value. A server may accept a comparison with a value that the column can
/// never contain, and only refuse to write it: events would then be delivered again and again.
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
    fn key_that_is_not_unique_is_refused() {
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
        assert_eq!(refused(&layout, None, true), "", "a view has no indexes to check");
        let same = refused(&layout, Some(&[&["id", "part"], &["part"]]), false);
        assert!(same.contains("the same id") && same.contains("primary key"), "{same}");
        assert!(refused(&layout, Some(&[]), false).contains("the same id"));
        assert!(refused(&layout, Some(&[&["id"]]), true).contains("the column id of its key can be NULL"));
    }

    #[test]
    fn status_value_that_its_column_cannot_contain_is_refused() {
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
    fn every_unsuitable_column_is_named() {
        let found =
            columns(&[("id", "circle"), ("type", "text"), ("payload", "integer"), ("aggregatetype", "text")]);
        let layout = Layout::debezium();
        let error = resolve(&layout, &found).expect_err("an error").to_string();
        for word in ["id is circle", "payload is integer and should be text", "no column aggregateid"] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn row_without_a_status_is_pending_while_it_has_no_time() {
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
