//! Presets of foreign tables: how to create each and fill it with pending events.

use posthaste_sqlx::Layout;

use crate::workload::{EVENT_TYPE, Load};

/// Rows per INSERT.
const INSERT_ROWS: u64 = 1_000;

/// A preset whose table the benchmark can create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ForeignPreset {
    OrderService,
    OutboxRecord,
    Debezium,
}

/// Names of column types, which differ between databases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnTypes {
    pub(crate) uuid: &'static str,
    pub(crate) bytes: &'static str,
    pub(crate) json: &'static str,
}

impl ForeignPreset {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OrderService => "order-service",
            Self::OutboxRecord => "outbox-record",
            Self::Debezium => "debezium",
        }
    }

    pub(crate) fn layout(self) -> Layout {
        match self {
            Self::OrderService => Layout::order_service(),
            Self::OutboxRecord => Layout::outbox_record(),
            Self::Debezium => Layout::debezium(),
        }
    }

    /// The statements that create such a table, with the index that its documentation recommends, and fill it.
    pub(crate) fn statements(self, table: &str, index: &str, types: ColumnTypes, load: &Load) -> Vec<String> {
        let mut statements = vec![format!("CREATE TABLE {table} ({})", self.columns(types))];
        if self != Self::Debezium {
            statements.push(format!("CREATE INDEX {index} ON {table} (status, created_at)"));
        }
        for from in (0..load.events).step_by(INSERT_ROWS as usize) {
            let rows = from..load.events.min(from + INSERT_ROWS);
            let rows: Vec<String> = rows.map(|number| self.row(number, load.body())).collect();
            statements.push(format!("INSERT INTO {table} ({}) VALUES {}", self.filled(), rows.join(", ")));
        }
        statements
    }

    fn columns(self, types: ColumnTypes) -> String {
        let ColumnTypes { uuid, bytes, json } = types;
        match self {
            Self::OrderService => format!(
                "id {uuid} PRIMARY KEY, aggregate_type VARCHAR(255) NOT NULL, aggregate_id {uuid} NOT NULL, \
                 event_type VARCHAR(255) NOT NULL, payload TEXT NOT NULL, status VARCHAR(50) NOT NULL, \
                 created_at TIMESTAMP(6) NOT NULL, sent_at TIMESTAMP(6) NULL, error_message TEXT"
            ),
            Self::OutboxRecord => format!(
                "aggregate_id {uuid} NOT NULL, event_id {uuid} NOT NULL, status VARCHAR(16) NOT NULL, \
                 topic VARCHAR(255) NOT NULL, payload {bytes} NOT NULL, schema_version INT NOT NULL, \
                 retries INT NOT NULL, created_at TIMESTAMP(6) NOT NULL, sent_at TIMESTAMP(6) NULL, \
                 last_error VARCHAR(1000), PRIMARY KEY (aggregate_id, event_id)"
            ),
            Self::Debezium => format!(
                "id {uuid} PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL, \
                 type VARCHAR(255) NOT NULL, payload {json}"
            ),
        }
    }

    fn filled(self) -> &'static str {
        match self {
            Self::OrderService => "id, aggregate_type, aggregate_id, event_type, payload, status, created_at",
            Self::OutboxRecord => {
                "aggregate_id, event_id, status, topic, payload, schema_version, retries, created_at"
            }
            Self::Debezium => "id, aggregatetype, aggregateid, type, payload",
        }
    }

    /// The payload must not contain a single quote.
    fn row(self, number: u64, payload: &str) -> String {
        let id = format!("00000000-0000-7000-8000-{number:012}");
        let aggregate = format!("00000000-0000-4000-8000-{:012}", number % 1_000);
        let (minute, second, micros) =
            (number / 60_000_000 % 60, number / 1_000_000 % 60, number % 1_000_000);
        let time = format!("2026-01-01 00:{minute:02}:{second:02}.{micros:06}");
        match self {
            Self::OrderService => {
                format!("('{id}', 'Bench', '{aggregate}', '{EVENT_TYPE}', '{payload}', 'NEW', '{time}')")
            }
            Self::OutboxRecord => {
                format!("('{aggregate}', '{id}', 'PENDING', '{EVENT_TYPE}', '{payload}', 1, 0, '{time}')")
            }
            Self::Debezium => format!("('{id}', 'Bench', '{aggregate}', '{EVENT_TYPE}', '{payload}')"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_preset_can_be_measured() {
        for name in Layout::PRESETS {
            let preset = ForeignPreset::from_str(name, false).unwrap();
            assert_eq!((preset.name(), Layout::preset(name)), (name, Some(preset.layout())));
        }
    }

    #[test]
    fn every_event_is_in_one_of_the_statements() {
        let load = Load::new(2_500, 1, 1, 10);
        let types = ColumnTypes { uuid: "UUID", bytes: "BYTEA", json: "JSONB" };
        let statements = ForeignPreset::OrderService.statements("t", "i", types, &load);
        let rows: usize = statements.iter().map(|text| text.matches("'NEW'").count()).sum();
        assert_eq!((statements.len(), rows), (5, 2_500));
    }
}
