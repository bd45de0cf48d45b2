//! Operator filters as conditions on the columns of a foreign table. All values are bound.

use posthaste::admin::Filter;
use posthaste::{EventId, GLOBAL, Status};

use super::resolved_layout::{ColumnKind, ResolvedLayout};
use super::session::BindValue;
use super::{Field, State};

/// Conditions that must all hold.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    conditions: Vec<String>,
    pub(crate) values: Vec<BindValue>,
}

impl Conditions {
    pub(crate) fn new(resolved: &ResolvedLayout, filter: &Filter) -> Self {
        let mut this = Self::default();
        if let Some(status) = filter.status {
            this.plain(resolved.is(state(status)));
        }
        this.key(resolved, filter.id.as_ref());
        this.equal(resolved, Field::EventType, filter.event_type.as_deref());
        this.equal(resolved, Field::AggregateType, filter.aggregate_type.as_deref());
        this.equal(resolved, Field::AggregateId, filter.aggregate_id.as_deref());
        this.equal(resolved, Field::Tenant, filter.tenant_id.as_deref());
        if filter.parked.is_some() {
            this.plain("FALSE".to_owned());
        }
        if let Some(text) = &filter.error_contains {
            match resolved.column(Field::Error) {
                Some((column, _)) => {
                    let placeholder = this.bind(resolved, containing(text).as_str().into());
                    this.plain(format!("{column} LIKE {placeholder}"));
                }
                None => this.plain("FALSE".to_owned()),
            }
        }
        if let Some(age) = filter.older_than {
            this.older_than(resolved, age);
        }
        this
    }

    /// Matches rows that ended, or were written, at least `age` ago. The time of writing is compared too: no row ended
    /// before it was written, there is often an index on that time, and a row that was given up has no other time.
    pub(crate) fn older_than(&mut self, resolved: &ResolvedLayout, age: std::time::Duration) {
        const MAX_AGE_MICROS: i64 = 1000 * 365 * 24 * 3600 * 1_000_000;
        let micros = i64::try_from(age.as_micros()).unwrap_or(MAX_AGE_MICROS).min(MAX_AGE_MICROS);
        let (created, sent) = (resolved.column(Field::CreatedAt), resolved.column(Field::SentAt));
        let is_created = created.is_some();
        if !is_created && sent.is_none() {
            self.plain("FALSE".to_owned());
        }
        if let Some((column, kind)) = created {
            let moment = self.ago(resolved, kind, micros);
            self.plain(format!("{column} <= {moment}"));
        }
        if let Some((column, kind)) = sent {
            let moment = self.ago(resolved, kind, micros);
            self.plain(match is_created {
                true => format!("({column} IS NULL OR {column} <= {moment})"),
                false => format!("{column} <= {moment}"),
            });
        }
    }

    /// The time `micros` microseconds ago, in the form of a column of this type.
    fn ago(&mut self, resolved: &ResolvedLayout, kind: ColumnKind, micros: i64) -> String {
        let placeholder = self.bind(resolved, BindValue::Int(micros));
        (resolved.dialect.before)((resolved.dialect.clock)(kind), &placeholder)
    }

    pub(crate) fn and(mut self, condition: String) -> Self {
        self.plain(condition);
        self
    }

    /// The condition of the WHERE clause.
    pub(crate) fn text(&self) -> String {
        match self.conditions.is_empty() {
            true => "TRUE".to_owned(),
            false => self.conditions.join(" AND "),
        }
    }

    fn plain(&mut self, condition: String) {
        self.conditions.push(condition);
    }

    fn bind(&mut self, resolved: &ResolvedLayout, value: BindValue) -> String {
        self.values.push(value);
        (resolved.dialect.placeholder)(self.values.len())
    }

    /// Compares the column itself and not its text form, so that an index can be used. A text that cannot be an id of
    /// this type matches nothing.
    fn key(&mut self, resolved: &ResolvedLayout, id: Option<&EventId>) {
        let (Some(id), Some((column, kind))) = (id, resolved.column(Field::Id)) else { return };
        match could_be(id.as_str(), kind) {
            true => {
                let placeholder = self.bind(resolved, id.as_str().into());
                self.plain(format!("{column} = {}", (resolved.dialect.as_key)(kind, &placeholder)));
            }
            false => self.plain("FALSE".to_owned()),
        }
    }

    fn equal(&mut self, resolved: &ResolvedLayout, field: Field, value: Option<&str>) {
        let Some(value) = value else { return };
        match resolved.column(field) {
            Some((column, kind)) => {
                let placeholder = self.bind(resolved, value.into());
                let text = (resolved.dialect.as_text)(&column, kind);
                // Events without an aggregate type are listed under this name.
                let text = match field {
                    Field::AggregateType => format!("COALESCE({text}, '{GLOBAL}')"),
                    _ => text,
                };
                self.plain(format!("{text} = {placeholder}"));
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

/// True if a column of this type could contain the text. PostgreSQL refuses a statement that compares a UUID with a
/// text that is not a UUID.
pub(crate) fn could_be(text: &str, kind: ColumnKind) -> bool {
    match kind {
        ColumnKind::Uuid | ColumnKind::UuidBytes => {
            let dashes = text.char_indices().filter(|(_, c)| *c == '-').map(|(place, _)| place);
            text.len() == 36
                && dashes.eq([8, 13, 18, 23])
                && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
        }
        ColumnKind::Integer => text.parse::<i64>().is_ok(),
        _ => !text.contains('\0'),
    }
}

/// A LIKE pattern that matches every text that contains this one literally.
fn containing(text: &str) -> String {
    let literal = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_").replace('\0', "");
    format!("%{literal}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_that_a_column_can_contain_are_queried() {
        for (text, kind, could) in [
            ("0f8fad5b-d9cb-469f-a165-70867728950e", ColumnKind::Uuid, true),
            ("0f8fad5bd9cb-469f-a165-70867728950e-", ColumnKind::Uuid, false),
            ("nonsense", ColumnKind::UuidBytes, false),
            ("42", ColumnKind::Integer, true),
            ("-1", ColumnKind::Integer, true),
            ("4e2", ColumnKind::Integer, false),
            ("anything at all", ColumnKind::Text, true),
            ("a\0", ColumnKind::Text, false),
        ] {
            assert_eq!(could_be(text, kind), could, "{text} {kind:?}");
        }
    }
}
