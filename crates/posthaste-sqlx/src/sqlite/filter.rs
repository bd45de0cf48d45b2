//! A filter as SQL: conditions in this crate's own words, values bound.

use std::time::Duration;

use posthaste::admin::Filter;
use posthaste::{EventId, Status, Timestamp};
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;

use crate::sql::Sql;

/// Where to look, and for what.
pub(super) struct Conditions {
    from: &'static str,
    conditions: Vec<&'static str>,
    values: Vec<Value>,
}

enum Value {
    Int(i64),
    Text(String),
}

impl Conditions {
    /// The smallest index in which all that match can be found, in the order of `seq`. The archive is
    /// looked into only when it is asked for by its status.
    pub(super) fn new(filter: &Filter) -> Self {
        let (from, status) = match filter.status {
            _ if filter.id.is_some() && filter.status != Some(Status::Archived) => (r#""{table}""#, None),
            Some(Status::Archived) => (r#""{table}_archive""#, None),
            Some(Status::New | Status::Retry) => {
                (r#""{table}" INDEXED BY "{table}_pending""#, Some("status IN (0, 2)"))
            }
            Some(Status::Dead) => (r#""{table}" INDEXED BY "{table}_dead""#, Some("status = 3")),
            // The order of `seq` is the table's own; without it the smaller index would do.
            Some(Status::Done) | None => (r#""{table}""#, None),
        };
        let mut this = Self { from, conditions: Vec::from_iter(status), values: Vec::new() };
        this.int("status = ?", filter.status.map(|status| status.code().into()));
        this.text("event_id = ?", filter.id.as_ref().map(EventId::as_str));
        this.text("event_type = ?", filter.event_type.as_deref());
        this.text("coalesce(aggregate_type, '__GLOBAL__') = ?", filter.aggregate_type.as_deref());
        this.text("aggregate_id = ?", filter.aggregate_id.as_deref());
        this.text("tenant_id = ?", filter.tenant_id.as_deref());
        this.text("parked = ?", filter.parked.as_deref());
        this.text("instr(last_error, ?) > 0", filter.error_contains.as_deref());
        let before = |age: Duration| (Timestamp::now() - age).as_micros();
        this.int("coalesce(done_at, inserted_at) <= ?", filter.older_than.map(before));
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
        self.int("seq > ?", seq);
        self
    }

    /// Values follow in the order of their conditions; those of `tail` are the caller's to bind.
    pub(super) fn query(
        self,
        sql: &Sql,
        columns: &'static str,
        tail: &'static str,
    ) -> Query<'static, Sqlite, SqliteArguments> {
        let mut parts = vec!["SELECT ", columns, " FROM ", self.from];
        for (i, condition) in self.conditions.iter().enumerate() {
            parts.extend([if i == 0 { " WHERE " } else { " AND " }, condition]);
        }
        parts.push(tail);
        self.values.into_iter().fold(sql.query_of(&parts), |query, value| match value {
            Value::Int(value) => query.bind(value),
            Value::Text(value) => query.bind(value),
        })
    }

    fn int(&mut self, condition: &'static str, value: Option<i64>) {
        self.add(condition, value.map(Value::Int));
    }

    fn text(&mut self, condition: &'static str, value: Option<&str>) {
        self.add(condition, value.map(|value| Value::Text(value.to_owned())));
    }

    fn add(&mut self, condition: &'static str, value: Option<Value>) {
        if let Some(value) = value {
            self.conditions.push(condition);
            self.values.push(value);
        }
    }
}
