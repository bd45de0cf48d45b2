//! Filters of operators as SQL. The conditions are constants of this crate; all values are bound.

use std::time::Duration;

use posthaste::admin::Filter;
use posthaste::{EventId, Status};

use crate::queries::{Queries, SqlQuery};
use crate::sql::Sql;

/// The SQL of one database for filters. Every condition contains one `?`, the place of its value.
pub(crate) trait FilterDialect: Queries {
    /// The error contains a text.
    const ERROR_CONTAINS: &'static str;
    /// The row has at least this age.
    const OLDER_THAN: &'static str;

    /// The FROM clause, in which the table has the alias `o`, and a condition that lets the database read an index
    /// which contains all matching rows in the order of `seq`. The archive is read only if the filter names its status.
    fn from(filter: &Filter) -> (&'static str, Option<&'static str>);

    /// The value that finds this text in an error.
    fn contained(text: &str) -> String {
        text.to_owned()
    }

    /// A text in a form that a column of this database can contain.
    fn text(text: &str) -> String {
        text.to_owned()
    }

    /// The placeholder of the nth value.
    fn placeholder(_n: usize) -> String {
        "?".to_owned()
    }

    fn bind_age(query: SqlQuery<Self>, age: Duration) -> SqlQuery<Self>;
}

/// The FROM clause and the conditions of a query.
pub(crate) struct Conditions {
    from: &'static str,
    /// Only the first condition may be without a value.
    conditions: Vec<(&'static str, Option<Value>)>,
}

enum Value {
    Int(i64),
    Text(String),
    Age(Duration),
}

impl Conditions {
    pub(crate) fn new<D: FilterDialect>(filter: &Filter) -> Self {
        let (from, status) = D::from(filter);
        let text = |value: Option<&str>| value.map(|value| Value::Text(D::text(value)));
        let contained = |value: &str| Value::Text(D::text(&D::contained(value)));
        let mut this = Self { from, conditions: status.into_iter().map(|status| (status, None)).collect() };
        this.add("o.status = ?", filter.status.map(|status| Value::Int(status.code().into())));
        this.add("o.event_id = ?", text(filter.id.as_ref().map(EventId::as_str)));
        this.add("o.event_type = ?", text(filter.event_type.as_deref()));
        this.add("coalesce(o.aggregate_type, '__GLOBAL__') = ?", text(filter.aggregate_type.as_deref()));
        this.add("o.aggregate_id = ?", text(filter.aggregate_id.as_deref()));
        this.add("o.tenant_id = ?", text(filter.tenant_id.as_deref()));
        this.add("o.parked = ?", text(filter.parked.as_deref()));
        this.add(D::ERROR_CONTAINS, filter.error_contains.as_deref().map(contained));
        this.add(D::OLDER_THAN, filter.older_than.map(Value::Age));
        this
    }

    /// The matching DEAD rows. `None` if the filter asks for rows in another state.
    pub(crate) fn dead<D: FilterDialect>(filter: &Filter) -> Option<Self> {
        if filter.status.is_some_and(|status| status != Status::Dead) {
            return None;
        }
        Some(Self::new::<D>(&filter.clone().with_status(Status::Dead)))
    }

    pub(crate) fn after(mut self, seq: Option<i64>) -> Self {
        self.add("o.seq > ?", seq.map(Value::Int));
        self
    }

    pub(crate) fn query<D: FilterDialect>(self, sql: &Sql, columns: &'static str, tail: &str) -> SqlQuery<D> {
        let mut text = format!("SELECT {columns} FROM {}", self.from);
        let mut values = Vec::new();
        for (i, (condition, value)) in self.conditions.into_iter().enumerate() {
            text.push_str(if i == 0 { " WHERE " } else { " AND " });
            values.extend(value);
            text.push_str(&condition.replace('?', &D::placeholder(values.len())));
        }
        values.into_iter().fold(sql.query_of(&[&text, tail]), |query, value| match value {
            Value::Int(value) => D::bind_int(query, value),
            Value::Text(value) => D::bind_text(query, value),
            Value::Age(value) => D::bind_age(query, value),
        })
    }

    fn add(&mut self, condition: &'static str, value: Option<Value>) {
        if value.is_some() {
            self.conditions.push((condition, value));
        }
    }
}

/// A LIKE pattern that matches every text that contains this one literally.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) fn pattern(text: &str) -> String {
    let literal = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{literal}%")
}
