//! An operator's filter as conditions on the columns of a foreign table, values bound.

use posthaste::admin::Filter;
use posthaste::{EventId, GLOBAL, Status};

use super::text::{Kind, Words};
use super::{Field, State};

/// A value to bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    /// A span of time, in microseconds.
    Micros(i64),
}

/// Conditions that all must hold.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    conditions: Vec<String>,
    pub(crate) values: Vec<Value>,
}

impl Conditions {
    pub(crate) fn new(words: &Words, filter: &Filter) -> Self {
        let mut this = Self::default();
        if let Some(status) = filter.status {
            this.plain(words.is(state(status)));
        }
        this.key(words, filter.id.as_ref());
        this.equal(words, Field::EventType, filter.event_type.as_deref());
        this.equal(words, Field::AggregateType, filter.aggregate_type.as_deref());
        this.equal(words, Field::AggregateId, filter.aggregate_id.as_deref());
        this.equal(words, Field::Tenant, filter.tenant_id.as_deref());
        if filter.parked.is_some() {
            this.plain("FALSE".to_owned());
        }
        if let Some(text) = &filter.error_contains {
            match words.column(Field::Error) {
                Some((column, _)) => {
                    let place = this.bind(words, Value::Text(containing(text)));
                    this.plain(format!("{column} LIKE {place}"));
                }
                None => this.plain("FALSE".to_owned()),
            }
        }
        if let Some(age) = filter.older_than {
            this.older_than(words, age);
        }
        this
    }

    /// Rows that ended, or were written, at least so long ago. None ended before it was written, and by the time of
    /// that there is an index; a row that was given up has no other.
    pub(crate) fn older_than(&mut self, words: &Words, age: std::time::Duration) {
        const LONGEST: i64 = 1000 * 365 * 24 * 3600 * 1_000_000;
        let micros = i64::try_from(age.as_micros()).unwrap_or(LONGEST).min(LONGEST);
        let (created, sent) = (words.column(Field::CreatedAt), words.column(Field::SentAt));
        let is_created = created.is_some();
        if !is_created && sent.is_none() {
            self.plain("FALSE".to_owned());
        }
        if let Some((column, kind)) = created {
            let moment = self.ago(words, kind, micros);
            self.plain(format!("{column} <= {moment}"));
        }
        if let Some((column, kind)) = sent {
            let moment = self.ago(words, kind, micros);
            self.plain(match is_created {
                true => format!("({column} IS NULL OR {column} <= {moment})"),
                false => format!("{column} <= {moment}"),
            });
        }
    }

    /// The moment so many microseconds ago, as a column of this type has it.
    fn ago(&mut self, words: &Words, kind: Kind, micros: i64) -> String {
        let place = self.bind(words, Value::Micros(micros));
        (words.dialect.before)(words.clock(kind), &place)
    }

    pub(crate) fn and(mut self, condition: String) -> Self {
        self.plain(condition);
        self
    }

    /// The condition of a WHERE.
    pub(crate) fn text(&self) -> String {
        match self.conditions.is_empty() {
            true => "TRUE".to_owned(),
            false => self.conditions.join(" AND "),
        }
    }

    fn plain(&mut self, condition: String) {
        self.conditions.push(condition);
    }

    fn bind(&mut self, words: &Words, value: Value) -> String {
        self.values.push(value);
        (words.dialect.place)(self.values.len())
    }

    /// By the column itself and not by its text, so that an index helps. What cannot be an id is none.
    fn key(&mut self, words: &Words, id: Option<&EventId>) {
        let (Some(id), Some((column, kind))) = (id, words.column(Field::Id)) else { return };
        match could_be(id.as_str(), kind) {
            true => {
                let place = self.bind(words, Value::Text(id.to_string()));
                self.plain(format!("{column} = {}", (words.dialect.as_key)(kind, &place)));
            }
            false => self.plain("FALSE".to_owned()),
        }
    }

    fn equal(&mut self, words: &Words, field: Field, value: Option<&str>) {
        let Some(value) = value else { return };
        match words.column(field) {
            Some((column, kind)) => {
                let place = self.bind(words, Value::Text(value.to_owned()));
                let text = (words.dialect.as_text)(&column, kind);
                // What has no aggregate type is listed under this one.
                let text = match field {
                    Field::AggregateType => format!("COALESCE({text}, '{GLOBAL}')"),
                    _ => text,
                };
                self.plain(format!("{text} = {place}"));
            }
            None if field == Field::AggregateType && value == GLOBAL => {}
            None => self.plain("FALSE".to_owned()),
        }
    }
}

fn state(status: Status) -> State {
    match status {
        Status::New | Status::Retry => State::Pending,
        Status::Done => State::Sent,
        Status::Dead => State::Failed,
        Status::Archived => State::Archived,
    }
}

/// Whether a column of this type could hold the text. PostgreSQL refuses a statement that compares a UUID with
/// something else.
pub(crate) fn could_be(text: &str, kind: Kind) -> bool {
    match kind {
        Kind::Uuid | Kind::UuidBytes => {
            let dashes = text.char_indices().filter(|(_, c)| *c == '-').map(|(place, _)| place);
            text.len() == 36
                && dashes.eq([8, 13, 18, 23])
                && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
        }
        Kind::Integer => text.parse::<i64>().is_ok(),
        _ => !text.contains('\0'),
    }
}

/// A pattern that matches texts with this one in them, as it is.
fn containing(text: &str) -> String {
    let literal = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_").replace('\0', "");
    format!("%{literal}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_column_can_hold_is_asked_for() {
        for (text, kind, could) in [
            ("0f8fad5b-d9cb-469f-a165-70867728950e", Kind::Uuid, true),
            ("0f8fad5bd9cb-469f-a165-70867728950e-", Kind::Uuid, false),
            ("nonsense", Kind::UuidBytes, false),
            ("42", Kind::Integer, true),
            ("-1", Kind::Integer, true),
            ("4e2", Kind::Integer, false),
            ("anything at all", Kind::Text, true),
            ("a\0", Kind::Text, false),
        ] {
            assert_eq!(could_be(text, kind), could, "{text} {kind:?}");
        }
    }
}
