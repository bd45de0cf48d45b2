//! A filter as SQL: conditions in this crate's own words, values bound.

use posthaste::admin::Filter;
use posthaste::{EventId, Status};
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::postgres::types::PgInterval;
use sqlx::query::Query;

use crate::sql::Sql;

/// Where to look, and for what.
pub(super) struct Conditions {
    from: &'static str,
    /// Every one ends where its value goes, but for those that have none.
    conditions: Vec<(&'static str, Option<Value>)>,
}

enum Value {
    Int(i64),
    Text(String),
    Interval(PgInterval),
}

impl Conditions {
    /// Conditions whose index holds all that match, in the order of `seq`. The archive is looked into
    /// only when it is asked for by its status.
    pub(super) fn new(filter: &Filter) -> Self {
        let (from, status) = match filter.status {
            Some(Status::Archived) => (r#""{table}_archive" AS o"#, None),
            Some(Status::New | Status::Retry) => (r#""{table}" AS o"#, Some("o.status IN (0, 2)")),
            Some(Status::Dead) => (r#""{table}" AS o"#, Some("o.status = 3")),
            Some(Status::Done) => (r#""{table}" AS o"#, Some("o.status = 1")),
            None => (r#""{table}" AS o"#, None),
        };
        let mut this =
            Self { from, conditions: status.map(|condition| (condition, None)).into_iter().collect() };
        this.int("o.status = ", filter.status.map(|status| status.code().into()));
        this.text("o.event_id = ", filter.id.as_ref().map(EventId::as_str));
        this.text("o.event_type = ", filter.event_type.as_deref());
        this.text("coalesce(o.aggregate_type, '__GLOBAL__') = ", filter.aggregate_type.as_deref());
        this.text("o.aggregate_id = ", filter.aggregate_id.as_deref());
        this.text("o.tenant_id = ", filter.tenant_id.as_deref());
        this.text("o.parked = ", filter.parked.as_deref());
        this.text("o.last_error ~~ ", filter.error_contains.as_deref().map(containing).as_deref());
        let age = filter.older_than.map(|age| Value::Interval(super::value::interval(age)));
        this.add("coalesce(o.done_at, o.inserted_at) <= statement_timestamp() - ", age);
        this
    }

    /// The DEAD rows among those that match; none if the filter asks for others.
    pub(super) fn dead(filter: &Filter) -> Option<Self> {
        if filter.status.is_some_and(|status| status != Status::Dead) {
            return None;
        }
        Some(Self::new(&filter.clone().with_status(Status::Dead)))
    }

    pub(super) fn after(mut self, seq: Option<i64>) -> Self {
        self.int("o.seq > ", seq);
        self
    }

    pub(super) fn query(
        self,
        sql: &Sql,
        columns: &'static str,
        tail: &str,
    ) -> Query<'static, Postgres, PgArguments> {
        let mut text = format!("SELECT {columns} FROM {}", self.from);
        let mut values = Vec::new();
        for (i, (condition, value)) in self.conditions.into_iter().enumerate() {
            text.push_str(if i == 0 { " WHERE " } else { " AND " });
            text.push_str(condition);
            if let Some(value) = value {
                values.push(value);
                text.push_str(&format!("${}", values.len()));
            }
        }
        let query = sql.query_of(&[&text, tail]);
        values.into_iter().fold(query, |query, value| match value {
            Value::Int(value) => query.bind(value),
            Value::Text(value) => query.bind(value),
            Value::Interval(value) => query.bind(value),
        })
    }

    fn int(&mut self, condition: &'static str, value: Option<i64>) {
        self.add(condition, value.map(Value::Int));
    }

    fn text(&mut self, condition: &'static str, value: Option<&str>) {
        // Text in PostgreSQL has no NUL, so nothing there can be equal to such a value.
        self.add(condition, value.map(|value| Value::Text(super::value::text(value).into_owned())));
    }

    fn add(&mut self, condition: &'static str, value: Option<Value>) {
        if let Some(value) = value {
            self.conditions.push((condition, Some(value)));
        }
    }
}

/// A pattern that matches texts with this one in them, as it is.
fn containing(text: &str) -> String {
    let literal = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{literal}%")
}
