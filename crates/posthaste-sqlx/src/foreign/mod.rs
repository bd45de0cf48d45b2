//! Outbox tables of other programs: a [`Layout`] names their columns, and a [`ForeignTableStore`] relays them as they
//! are, without a migration.
//!
//! A foreign table has no columns for leases, due times and parked events. So one process at a time delivers from it,
//! under a lock of the whole table, and keeps in memory what the table cannot hold. Other processes stand by. What a
//! layout cannot do is listed by [`Layout::limits`].
//!
//! ```no_run
//! use posthaste_sqlx::foreign::{Field, ForeignTableStore, Layout};
//! # async fn run() -> Result<(), posthaste::BoxError> {
//! // The table of the order service, with one column renamed.
//! let layout = Layout::order_service().column(Field::Payload, "body".parse()?);
//! # #[cfg(feature = "postgres")] {
//! let options = "postgres://localhost/shop".parse()?;
//! let store = ForeignTableStore::postgres(&options, layout).connect().await?;
//! # let _ = store;
//! # }
//! # Ok(())
//! # }
//! ```

mod admin;
mod builder;
mod byte_budget;
mod catalogue;
mod claim;
mod columns;
mod filter;
mod foreign_table;
mod layout_names;
mod leases;
mod lock_session;
#[cfg(test)]
mod lock_tests;
#[cfg(feature = "mysql")]
mod mysql;
mod oldest_rows;
#[cfg(feature = "postgres")]
mod postgres;
mod resolved_layout;
mod row_key;
mod server;
mod session;
mod stats;
mod store;
mod write_rights;

use std::collections::BTreeMap;

use crate::TableName;

pub use builder::ForeignTableStoreBuilder;
pub use layout_names::{ColumnName, InvalidName, StatusValue};
pub use store::ForeignTableStore;

/// Target of the log lines about changes by operators. They have the level INFO and are the only record of such
/// changes, because a foreign table has no audit table.
pub const AUDIT: &str = "posthaste::audit";

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Field {
    /// The event's id. Required.
    Id,
    /// The event's type, by which routes are chosen. Required unless there is a column for the topic.
    EventType,
    /// The aggregate's type.
    AggregateType,
    /// The aggregate's id, which becomes the message key.
    AggregateId,
    /// The tenant.
    Tenant,
    /// The topic of the event. It takes precedence over the topic of the route.
    Topic,
    /// The content type of the payload.
    ContentType,
    /// The version of the payload's schema: a number.
    SchemaVersion,
    /// Headers: a JSON object whose values are strings.
    Headers,
    /// The payload: text, JSON or bytes. Required.
    Payload,
    /// When the event was written. It determines the order of delivery and the age of the event. A time without a zone
    /// is in UTC.
    CreatedAt,
    /// When the event was delivered. In a table without a status, NULL means pending.
    SentAt,
    /// The event's status.
    Status,
    /// The number of failed attempts: an integer.
    Attempts,
    /// The error of the last failed attempt.
    Error,
}

impl Field {
    /// All fields, in the order of the documentation.
    pub const ALL: [Self; 15] = [
        Self::Id,
        Self::EventType,
        Self::AggregateType,
        Self::AggregateId,
        Self::Tenant,
        Self::Topic,
        Self::ContentType,
        Self::SchemaVersion,
        Self::Headers,
        Self::Payload,
        Self::CreatedAt,
        Self::SentAt,
        Self::Status,
        Self::Attempts,
        Self::Error,
    ];

    /// The name of the field in a configuration file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::EventType => "event_type",
            Self::AggregateType => "aggregate_type",
            Self::AggregateId => "aggregate_id",
            Self::Tenant => "tenant",
            Self::Topic => "topic",
            Self::ContentType => "content_type",
            Self::SchemaVersion => "schema_version",
            Self::Headers => "headers",
            Self::Payload => "payload",
            Self::CreatedAt => "created_at",
            Self::SentAt => "sent_at",
            Self::Status => "status",
            Self::Attempts => "attempts",
            Self::Error => "error",
        }
    }
}

/// The meaning of a value of the status column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum State {
    /// Not delivered yet. Required if there is a status.
    Pending,
    /// Delivered. Required if there is a status.
    Sent,
    /// Given up. Without it, an event that cannot be delivered is retried for ever.
    Failed,
    /// Archived.
    Archived,
}

impl State {
    /// All states, in the order in which an event can pass through them.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Sent, Self::Failed, Self::Archived];

    /// The name of the state in a configuration file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Archived => "archived",
        }
    }
}

/// How a delivery is recorded in the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By the status.
    Status,
    /// By the time of delivery.
    Time,
    /// The row is deleted, because the table has neither column.
    Deleted,
}

/// The layout of a foreign outbox table: its columns, and the values of its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    table: TableName,
    columns: BTreeMap<Field, ColumnName>,
    /// The columns of the key; empty if the key is the id alone.
    key: Vec<ColumnName>,
    values: BTreeMap<State, StatusValue>,
}

/// Parses a name that is written in this file and known to be valid.
fn known<T: std::str::FromStr>(name: &str) -> Option<T> {
    name.parse().ok()
}

impl Layout {
    /// The names of the presets, for [`preset`](Self::preset).
    pub const PRESETS: [&'static str; 3] = ["order-service", "outbox-record", "debezium"];

    /// An empty layout for a table of this name, to be filled column by column.
    pub fn new(table: TableName) -> Self {
        Self { table, columns: BTreeMap::new(), key: Vec::new(), values: BTreeMap::new() }
    }

    fn of(table: &str, columns: &[(Field, &str)], values: &[(State, &str)]) -> Self {
        let columns = columns.iter().filter_map(|(field, name)| Some((*field, known(name)?)));
        let values = values.iter().filter_map(|(state, value)| Some((*state, known(value)?)));
        Self {
            table: known(table).unwrap_or_default(),
            columns: columns.collect(),
            key: Vec::new(),
            values: values.collect(),
        }
    }

    /// The table `outbox` of a Spring service with a polling publisher: status NEW, SENT or FAILED, the error in
    /// `error_message`, and no column for attempts.
    pub fn order_service() -> Self {
        Self::of(
            "outbox",
            &[
                (Field::Id, "id"),
                (Field::AggregateType, "aggregate_type"),
                (Field::AggregateId, "aggregate_id"),
                (Field::EventType, "event_type"),
                (Field::Payload, "payload"),
                (Field::Status, "status"),
                (Field::CreatedAt, "created_at"),
                (Field::SentAt, "sent_at"),
                (Field::Error, "error_message"),
            ],
            &[(State::Pending, "NEW"), (State::Sent, "SENT"), (State::Failed, "FAILED")],
        )
    }

    /// The table `outbox_record` of a service with a relay and a poller: status PENDING, SENT, FAILED or ARCHIVED,
    /// attempts in `retries`, and a key of `aggregate_id` and `event_id`. The event type is the topic.
    pub fn outbox_record() -> Self {
        let layout = Self::of(
            "outbox_record",
            &[
                (Field::Id, "event_id"),
                (Field::AggregateId, "aggregate_id"),
                (Field::EventType, "topic"),
                (Field::Topic, "topic"),
                (Field::Payload, "payload"),
                (Field::SchemaVersion, "schema_version"),
                (Field::Status, "status"),
                (Field::Attempts, "retries"),
                (Field::CreatedAt, "created_at"),
                (Field::SentAt, "sent_at"),
                (Field::Error, "last_error"),
            ],
            &[
                (State::Pending, "PENDING"),
                (State::Sent, "SENT"),
                (State::Failed, "FAILED"),
                (State::Archived, "ARCHIVED"),
            ],
        );
        layout.key(["aggregate_id", "event_id"].iter().filter_map(|name| known(name)))
    }

    /// The table `outboxevent` of Debezium's outbox event router. It has no status, so a delivered row is deleted.
    pub fn debezium() -> Self {
        Self::of(
            "outboxevent",
            &[
                (Field::Id, "id"),
                (Field::AggregateType, "aggregatetype"),
                (Field::AggregateId, "aggregateid"),
                (Field::EventType, "type"),
                (Field::Payload, "payload"),
            ],
            &[],
        )
    }

    /// The preset with this name, if there is one.
    pub fn preset(name: &str) -> Option<Self> {
        match name {
            "order-service" => Some(Self::order_service()),
            "outbox-record" => Some(Self::outbox_record()),
            "debezium" => Some(Self::debezium()),
            _ => None,
        }
    }

    /// Sets the table. A preset has its own default.
    pub fn table(mut self, table: TableName) -> Self {
        self.table = table;
        self
    }

    /// Sets the column of a field.
    pub fn column(mut self, field: Field, name: ColumnName) -> Self {
        self.columns.insert(field, name);
        self
    }

    /// Declares that the table has no column for this field.
    pub fn without(mut self, field: Field) -> Self {
        self.columns.remove(&field);
        self
    }

    /// The columns of the primary key, if it is not the id alone. Default: the id.
    pub fn key(mut self, columns: impl IntoIterator<Item = ColumnName>) -> Self {
        self.key = columns.into_iter().collect();
        self
    }

    /// Sets the value of the status column for a state.
    pub fn value(mut self, state: State, value: StatusValue) -> Self {
        self.values.insert(state, value);
        self
    }

    /// Declares that the table does not have this state.
    pub fn without_value(mut self, state: State) -> Self {
        self.values.remove(&state);
        self
    }

    /// The name of the table.
    pub fn table_name(&self) -> &TableName {
        &self.table
    }

    /// The column of a field, if the table has one.
    pub fn column_of(&self, field: Field) -> Option<&ColumnName> {
        self.columns.get(&field)
    }

    /// The value of a state, if the table has it.
    pub fn value_of(&self, state: State) -> Option<&StatusValue> {
        self.values.get(&state)
    }

    /// The columns of the key.
    pub fn key_columns(&self) -> Vec<&ColumnName> {
        match self.key.is_empty() {
            true => self.columns.get(&Field::Id).into_iter().collect(),
            false => self.key.iter().collect(),
        }
    }

    /// All problems of this layout that can be found without a database: the configuration key to change, and the
    /// problem. Empty if the layout can be used.
    pub fn problems(&self) -> Vec<(&'static str, &'static str)> {
        let has = |field| self.columns.contains_key(&field);
        let says = |state| self.values.contains_key(&state);
        let id_is_key =
            self.key.is_empty() || self.column_of(Field::Id).is_some_and(|id| self.key.contains(id));
        let checks = [
            (!has(Field::Id), "id", "is missing: name the column of the event's id"),
            (
                !has(Field::EventType),
                "event_type",
                "is missing: name the column of the event's type, or of its topic",
            ),
            (!has(Field::Payload), "payload", "is missing: name the column of the payload"),
            (
                has(Field::Status) && !says(State::Pending),
                "pending",
                "is missing: name the status of a pending event, such as \"NEW\"",
            ),
            (
                has(Field::Status) && !says(State::Sent),
                "sent",
                "is missing: name the status of a delivered event, such as \"SENT\"",
            ),
            (
                !has(Field::Status) && !self.values.is_empty(),
                "status",
                "is missing: name the column of the status, or leave out its values",
            ),
            (
                has(Field::Attempts) && !says(State::Failed),
                "failed",
                "is missing: it is the status after the last attempt; name it, or leave out attempts",
            ),
            (self.key.len() > 4, "key", "has more than four columns: name fewer that identify a row"),
            (!id_is_key, "key", "does not contain the column of the id: add it"),
        ];
        checks.into_iter().filter(|(wrong, ..)| *wrong).map(|(_, key, what)| (key, what)).collect()
    }

    /// The limits of a table with this layout, as sentences for its operators.
    pub fn limits(&self) -> Vec<&'static str> {
        let has = |field| self.columns.contains_key(&field);
        let all = [
            (
                true,
                "one relay at a time delivers from this table, and other relays stand by: it has no columns \
                 for leases",
            ),
            (
                true,
                "routes cannot be paused, and changes by operators are logged but not audited: there is no \
                 table for it",
            ),
            (
                !has(Field::Attempts),
                "attempts are counted in the relay's memory, and start again from zero when it is \
                 restarted: there is no column for them",
            ),
            (
                !self.can_fail(),
                "an event that cannot be delivered is retried for ever and never becomes dead: there is no \
                 status for it",
            ),
            (
                !has(Field::CreatedAt),
                "events are delivered in the order of their keys, and their age is unknown, so the relay \
                 reports ready however late they are: there is no column for the time",
            ),
            (
                self.ending() == Ending::Deleted,
                "delivered rows are deleted immediately: there is no column to mark them",
            ),
            (
                self.ending() != Ending::Deleted && !self.values.contains_key(&State::Archived),
                "nothing can be archived: there is no status for it",
            ),
        ];
        all.into_iter().filter(|(is, _)| *is).map(|(_, sentence)| sentence).collect()
    }

    pub(crate) fn ending(&self) -> Ending {
        let has = |field| self.columns.contains_key(&field);
        match (has(Field::Status), has(Field::SentAt)) {
            (true, _) => Ending::Status,
            (false, true) => Ending::Time,
            (false, false) => Ending::Deleted,
        }
    }

    /// True if an event can be given up.
    pub(crate) fn can_fail(&self) -> bool {
        self.values.contains_key(&State::Failed)
    }

    /// True if the table counts attempts.
    pub(crate) fn counts(&self) -> bool {
        self.columns.contains_key(&Field::Attempts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_complete_and_has_a_name() {
        for name in Layout::PRESETS {
            let layout = Layout::preset(name).expect("a preset");
            assert_eq!(layout.problems(), [], "{name}");
            assert!(!layout.limits().is_empty(), "{name}");
        }
        assert_eq!(Layout::preset("no such"), None);
    }

    #[test]
    fn presets_match_the_documented_tables() {
        let columns = |layout: &Layout| {
            let mut names: Vec<String> = layout.columns.values().map(ToString::to_string).collect();
            names.sort();
            names.dedup();
            names.join(" ")
        };
        let order_service =
            "aggregate_id aggregate_type created_at error_message event_type id payload sent_at status";
        assert_eq!(columns(&Layout::order_service()), order_service);
        let record =
            "aggregate_id created_at event_id last_error payload retries schema_version sent_at status topic";
        assert_eq!(columns(&Layout::outbox_record()), record);
        assert_eq!(columns(&Layout::debezium()), "aggregateid aggregatetype id payload type");
        assert_eq!(Layout::outbox_record().key_columns().len(), 2);
        assert_eq!(Layout::debezium().ending(), Ending::Deleted);
        assert_eq!(Layout::order_service().value_of(State::Failed).map(StatusValue::as_str), Some("FAILED"));
    }

    #[test]
    fn all_problems_are_reported_together() {
        let layout = Layout::new(TableName::default()).column(Field::Status, "s".parse().unwrap());
        let keys: Vec<&str> = layout.problems().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["id", "event_type", "payload", "pending", "sent"]);
        let layout = Layout::debezium().value(State::Sent, "SENT".parse().unwrap());
        assert_eq!(layout.problems()[0].0, "status");
        let layout = Layout::order_service().key(["aggregate_id".parse().unwrap()]);
        assert_eq!(layout.problems()[0].0, "key");
    }

    #[test]
    fn limits_of_a_table_are_listed() {
        let said = |layout: &Layout| layout.limits().join("; ");
        assert!(said(&Layout::order_service()).contains("attempts are counted in the relay's memory"));
        assert!(!said(&Layout::outbox_record()).contains("attempts"));
        let debezium = said(&Layout::debezium());
        for word in ["for ever", "age is unknown", "deleted immediately"] {
            assert!(debezium.contains(word), "{debezium}");
        }
    }
}
