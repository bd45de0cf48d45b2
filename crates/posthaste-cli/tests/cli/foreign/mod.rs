//! Foreign tables: outbox tables of other programs, relayed by the real binary.

mod custom_table;
mod kafka;
mod kill;
mod statuses;
mod usage;

use std::process::Command;

use crate::mysql_outbox::MySqlOutbox;
use crate::postgres_outbox::PgOutbox;
use crate::sqlite_outbox::CommandOutput;

/// A database with one such table, and the service that writes into it.
pub(crate) struct ForeignTable {
    db: Db,
    preset: &'static str,
}

pub(crate) enum Db {
    Postgres(PgOutbox),
    MySql(Box<MySqlOutbox>),
}

impl Db {
    pub(crate) fn postgres() -> Self {
        Self::Postgres(PgOutbox::without_table())
    }

    pub(crate) fn mysql() -> Self {
        Self::MySql(Box::new(MySqlOutbox::without_table()))
    }

    pub(crate) fn sql(&self, statements: &str) {
        match self {
            Self::Postgres(shop) => shop.sql(statements),
            Self::MySql(shop) => shop.sql(statements),
        }
    }

    pub(crate) fn query(&self, query: &str) -> String {
        match self {
            Self::Postgres(shop) => shop.query(query),
            Self::MySql(shop) => shop.query(query),
        }
    }

    /// Where it is, as the file of a relay has it.
    pub(crate) fn settings(&self) -> String {
        match self {
            Self::Postgres(shop) => format!("store = \"{}\"\nschema = \"{}\"", shop.url(), shop.schema()),
            Self::MySql(shop) => format!("store = \"{}\"", shop.url()),
        }
    }

    pub(crate) fn end(self) {
        match self {
            Self::Postgres(shop) => shop.end(),
            Self::MySql(shop) => shop.end(),
        }
    }

    /// The DDL of a preset's table, which the tests of the stores have too.
    fn ddl(&self, preset: &str) -> &'static str {
        macro_rules! ddl {
            ($database:literal, $preset:literal) => {
                include_str!(concat!(
                    "../../../../posthaste-sqlx/tests/layouts/",
                    $database,
                    "/",
                    $preset,
                    ".sql"
                ))
            };
        }
        match (self, preset) {
            (Self::Postgres(_), "order-service") => ddl!("postgres", "order-service"),
            (Self::Postgres(_), "outbox-record") => ddl!("postgres", "outbox-record"),
            (Self::Postgres(_), _) => ddl!("postgres", "debezium"),
            (Self::MySql(_), "order-service") => ddl!("mysql", "order-service"),
            (Self::MySql(_), "outbox-record") => ddl!("mysql", "outbox-record"),
            (Self::MySql(_), _) => ddl!("mysql", "debezium"),
        }
    }
}

/// `posthaste` with these words, and options behind them that may have spaces in them.
fn posthaste(args: &str, options: &[String]) -> CommandOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(args.split_whitespace()).args(options);
    command.env_remove("RUST_LOG").env_remove("POSTHASTE_STORE").env("USER", "ann");
    CommandOutput::of(command.output().expect("the binary starts"))
}

/// The id of the n-th event.
pub(crate) fn uuid(n: usize) -> String {
    format!("00000000-0000-7000-8000-{n:012}")
}

impl ForeignTable {
    pub(crate) fn new(db: Db, preset: &'static str) -> Self {
        let foreign = Self { preset, db };
        foreign.db.sql(foreign.db.ddl(preset));
        foreign
    }

    fn table(&self) -> &'static str {
        match self.preset {
            "order-service" => "outbox",
            "outbox-record" => "outbox_record",
            _ => "outboxevent",
        }
    }

    /// Writes events `from..to` in one transaction, as its service does. The topic is the type of an event where
    /// the table has no topic.
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

    /// How many rows wait.
    pub(crate) fn waiting(&self) -> usize {
        let waits = match self.preset {
            "order-service" => "status = 'NEW'",
            "outbox-record" => "status = 'PENDING'",
            _ => "1 = 1",
        };
        let text = match self.db {
            Db::Postgres(_) => "text",
            Db::MySql(_) => "CHAR",
        };
        let count =
            self.db.query(&format!("SELECT CAST(count(*) AS {text}) FROM {} WHERE {waits}", self.table()));
        count.parse().expect("a number")
    }

    /// The ids of rows that say they were sent; none where sent rows are deleted.
    pub(crate) fn sent(&self) -> Vec<String> {
        let id = match self.preset {
            "order-service" => "id",
            "outbox-record" => "event_id",
            _ => return Vec::new(),
        };
        let text = match self.db {
            Db::Postgres(_) => "text",
            Db::MySql(_) => "CHAR",
        };
        let ids = self
            .db
            .query(&format!("SELECT CAST({id} AS {text}) FROM {} WHERE status = 'SENT'", self.table()));
        ids.split_whitespace().map(str::to_owned).collect()
    }

    /// The options that lead the program here.
    pub(crate) fn options(&self) -> Vec<String> {
        let mut options = match &self.db {
            Db::Postgres(shop) => vec!["--store", shop.url(), "--schema", shop.schema()],
            Db::MySql(shop) => vec!["--store", shop.url()],
        };
        options.extend(["--layout", self.preset]);
        options.into_iter().map(str::to_owned).collect()
    }

    /// The options of a relay that publishes everything there.
    pub(crate) fn relay(&self, publish: &str) -> Vec<String> {
        let mut options = self.options();
        options.extend(["--listen", "127.0.0.1:0", "--publish", publish].map(str::to_owned));
        options
    }

    /// `posthaste` with these words on this table.
    pub(crate) fn run(&self, args: &str) -> CommandOutput {
        posthaste(args, &self.options())
    }

    pub(crate) fn json(&self, args: &str) -> serde_json::Value {
        let output = self.run(&format!("{args} --output json"));
        serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{args}: {output}"))
    }

    pub(crate) fn end(self) {
        self.db.end();
    }
}
