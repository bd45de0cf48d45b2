//! Foreign tables: outbox tables of other programs, relayed by the real binary.

mod custom_table;
mod kafka;
mod layout_errors;
mod standby_takes_over;
mod statuses;

use crate::binary;
use crate::command_output::CommandOutput;
use crate::shop::{Shop, StoreKind};

/// A database with a foreign table, and the service that writes into it.
pub(crate) struct ForeignTable {
    db: Shop,
    preset: &'static str,
}

/// Runs `posthaste` with these arguments and options. The options may contain spaces.
fn posthaste(args: &str, options: &[String]) -> CommandOutput {
    let mut command = binary::posthaste(&[]);
    command.args(args.split_whitespace()).args(options);
    command.env_remove("RUST_LOG").env_remove("POSTHASTE_STORE").env("USER", "ann");
    CommandOutput::of(command.output().expect("the binary starts"))
}

/// The id of the n-th event.
pub(crate) fn uuid(n: usize) -> String {
    format!("00000000-0000-7000-8000-{n:012}")
}

impl ForeignTable {
    pub(crate) fn new(kind: StoreKind, preset: &'static str) -> Self {
        let db = Shop::bare(kind);
        let database = if kind == StoreKind::Postgres { "postgres" } else { "mysql" };
        // The tests of posthaste-sqlx use the same file.
        let layouts = concat!(env!("CARGO_MANIFEST_DIR"), "/../posthaste-sqlx/tests/layouts");
        let ddl = std::fs::read_to_string(format!("{layouts}/{database}/{preset}.sql"));
        db.sql(&ddl.expect("the table of the preset"));
        Self { db, preset }
    }

    fn table(&self) -> &'static str {
        match self.preset {
            "order-service" => "outbox",
            "outbox-record" => "outbox_record",
            _ => "outboxevent",
        }
    }

    /// Writes events `from..to` in one transaction, as the service would. If the table has no topic, the topic is used
    /// as the type of the event.
    pub(crate) fn write(&self, from: usize, to: usize, topic: &str) {
        let rows = (from..to).map(|n| {
            let (id, aggregate) = (uuid(n), uuid(n % 5));
            let payload = format!("{{\"eventId\": \"{id}\"}}");
            let time = format!("2026-01-01 {:02}:{:02}:{:02}", n / 3600, n / 60 % 60, n % 60);
            match self.preset {
                "order-service" => {
                    format!("('{id}', 'Order', '{aggregate}', '{topic}', '{payload}', 'NEW', '{time}')")
                }
                "outbox-record" => {
                    format!("('{aggregate}', '{id}', 'PENDING', '{topic}', '{payload}', 1, 0, '{time}')")
                }
                _ => format!("('{id}', 'order', '{aggregate}', '{topic}', '{payload}')"),
            }
        });
        let columns = match self.preset {
            "order-service" => "id, aggregate_type, aggregate_id, event_type, payload, status, created_at",
            "outbox-record" => {
                "aggregate_id, event_id, status, topic, payload, schema_version, retries, created_at"
            }
            _ => "id, aggregatetype, aggregateid, type, payload",
        };
        let rows: Vec<String> = rows.collect();
        self.db.sql(&format!("INSERT INTO {} ({columns}) VALUES {}", self.table(), rows.join(", ")));
    }

    /// The status of every row, in the order in which they were written.
    pub(crate) fn statuses(&self) -> String {
        self.db.query(&format!("SELECT status FROM {} ORDER BY created_at", self.table()))
    }

    /// Number of pending rows.
    pub(crate) fn waiting(&self) -> usize {
        let waits = match self.preset {
            "order-service" => "status = 'NEW'",
            "outbox-record" => "status = 'PENDING'",
            _ => "1 = 1",
        };
        let count = self.db.query(&format!("SELECT CONCAT(count(*)) FROM {} WHERE {waits}", self.table()));
        count.parse().expect("a number")
    }

    /// The ids of rows that are marked as sent; empty if sent rows are deleted.
    pub(crate) fn sent(&self) -> Vec<String> {
        let id = match self.preset {
            "order-service" => "id",
            "outbox-record" => "event_id",
            _ => return Vec::new(),
        };
        let ids = self.db.query(&format!("SELECT CONCAT({id}) FROM {} WHERE status = 'SENT'", self.table()));
        ids.split_whitespace().map(str::to_owned).collect()
    }

    /// The options for this table.
    pub(crate) fn options(&self) -> Vec<String> {
        let mut options = self.db.options();
        options.extend(["--layout", self.preset].map(str::to_owned));
        options
    }

    /// The options of a relay that publishes every event to this URL.
    pub(crate) fn relay(&self, publish: &str) -> Vec<String> {
        let mut options = self.options();
        options.extend(["--listen", "127.0.0.1:0", "--publish", publish].map(str::to_owned));
        options
    }

    /// Runs `posthaste` with these arguments on this table.
    pub(crate) fn run(&self, args: &str) -> CommandOutput {
        posthaste(args, &self.options())
    }

    pub(crate) fn json(&self, args: &str) -> serde_json::Value {
        let output = self.run(&format!("{args} --output json"));
        serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{args}: {output}"))
    }
}
