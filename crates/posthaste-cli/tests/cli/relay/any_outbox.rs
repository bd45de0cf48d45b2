//! An outbox of one's own on any kind of store, and a service of another language that writes into it.

use std::process::Command;

use crate::mysql_outbox::MySqlOutbox;
use crate::postgres_outbox::PgOutbox;
use crate::redis_outbox::RedisOutbox;
use crate::sqlite_outbox::SqliteOutbox;

/// The stores that a relay runs on.
pub(crate) enum AnyOutbox {
    Sqlite(SqliteOutbox),
    Postgres(PgOutbox),
    MySql(Box<MySqlOutbox>),
    Redis(RedisOutbox),
}

impl AnyOutbox {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(SqliteOutbox::empty())
    }

    pub(crate) fn postgres() -> Self {
        Self::Postgres(PgOutbox::empty())
    }

    pub(crate) fn mysql() -> Self {
        Self::MySql(Box::new(MySqlOutbox::empty()))
    }

    pub(crate) fn redis() -> Self {
        Self::Redis(RedisOutbox::empty())
    }

    /// The options that lead the program here.
    pub(crate) fn options(&self) -> Vec<String> {
        match self {
            Self::Sqlite(shop) => {
                vec!["--store".to_owned(), format!("sqlite://{}", shop.path("shop.db").display())]
            }
            Self::Postgres(shop) => vec![
                "--store".to_owned(),
                shop.url().to_owned(),
                "--schema".to_owned(),
                shop.schema().to_owned(),
            ],
            Self::MySql(shop) => vec!["--store".to_owned(), shop.url().to_owned()],
            Self::Redis(shop) => vec![
                "--store".to_owned(),
                shop.url().to_owned(),
                "--table".to_owned(),
                shop.name().to_owned(),
            ],
        }
    }

    /// The same for a file: `store = …` and what belongs to it.
    pub(crate) fn toml(&self) -> String {
        let options = self.options();
        let keys =
            options.chunks(2).map(|pair| format!("{} = {:?}\n", pair[0].trim_start_matches('-'), pair[1]));
        keys.collect()
    }

    /// Writes events with these ids in one transaction, as a service does that knows nothing of us but the
    /// table. They are of type `Made` and aggregate `Order`.
    pub(crate) fn write(&self, ids: &[String]) {
        self.write_as("Made", ids);
    }

    /// The same with another type.
    pub(crate) fn write_as(&self, event_type: &str, ids: &[String]) {
        self.write_payload(event_type, ids, r#"{"n":1}"#);
    }

    /// The same with another payload, which Redis does not get.
    pub(crate) fn write_payload(&self, event_type: &str, ids: &[String], payload: &str) {
        let rows: Vec<String> =
            ids.iter().map(|id| format!("('{id}', '{event_type}', 'Order', '{id}', '{payload}')")).collect();
        let insert = format!(
            "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload) VALUES {}",
            rows.join(", ")
        );
        match self {
            Self::Sqlite(shop) => shop.sql(&insert),
            Self::Postgres(shop) => shop.sql(&insert),
            Self::MySql(shop) => shop.sql(&insert),
            Self::Redis(shop) => shop.write_ids(event_type, ids),
        }
    }

    /// `posthaste` on this outbox.
    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command.args(args.split_whitespace()).args(self.options());
        command.env_remove("RUST_LOG").env_remove("POSTHASTE_STORE").env("USER", "ann");
        command
    }

    /// What `posthaste` answers about this outbox.
    pub(crate) fn json(&self, args: &str) -> serde_json::Value {
        let output = self.command(&format!("{args} --output json")).output().expect("the binary starts");
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{args}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    pub(crate) fn end(self) {
        match self {
            Self::Sqlite(_) => {}
            Self::Postgres(shop) => shop.end(),
            Self::MySql(shop) => shop.end(),
            Self::Redis(shop) => shop.end(),
        }
    }
}
