//! A table that no preset knows: the file of its relay describes it, and operators name that file.

use tempfile::TempDir;

use super::{Db, posthaste};
use crate::relay::process::{Relay, retry_until_ok};
use crate::relay::sink::Sink;
use crate::sqlite_outbox::CommandOutput;

const TABLE_SQL: &str = "
CREATE TABLE messages (
  message_id VARCHAR(64) PRIMARY KEY, kind VARCHAR(100) NOT NULL, order_id VARCHAR(64), body TEXT NOT NULL,
  created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, state VARCHAR(20) NOT NULL,
  tries INT NOT NULL DEFAULT 0, last_error VARCHAR(500));
CREATE INDEX messages_state ON messages (state, created_at);
INSERT INTO messages (message_id, kind, order_id, body, state, tries, last_error) VALUES
  ('m-1', 'OrderPlaced', 'o-1', '{}', 'waiting', 0, NULL),
  ('m-2', 'OrderPlaced', 'o-2', '{}', 'broken', 10, 'no such customer'),
  ('m-3', 'OrderPaid', 'o-2', '{}', 'broken', 10, 'connection refused'),
  ('m-4', 'OrderPaid', 'o-1', '{}', 'published', 0, NULL);
";

const LAYOUT_TOML: &str = r#"
[outbox.orders.layout]
id = "message_id"
event_type = "kind"
aggregate_id = "order_id"
payload = "body"
created_at = "created_at"
status = "state"
pending = "waiting"
sent = "published"
failed = "broken"
attempts = "tries"
error = "last_error"
"#;

struct CustomTable {
    db: Db,
    folder: TempDir,
}

impl CustomTable {
    fn new(db: Db, sink: &Sink) -> Self {
        Self::with(db, sink, "")
    }

    /// With these settings of the outbox.
    fn with(db: Db, sink: &Sink, more: &str) -> Self {
        db.sql(TABLE_SQL);
        let folder = tempfile::tempdir().expect("a folder");
        let file = format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n[outbox.orders]\n{}\ntable = \"messages\"\n{more}\n{LAYOUT_TOML}\n\
             [[outbox.orders.route]]\npublish = \"{}\"\n",
            db.settings(),
            sink.url("out")
        );
        std::fs::write(folder.path().join("posthaste.toml"), file).expect("the file can be written");
        Self { db, folder }
    }

    fn config(&self) -> Vec<String> {
        let file = self.folder.path().join("posthaste.toml");
        vec!["--config".to_owned(), file.display().to_string()]
    }

    fn run(&self, args: &str) -> CommandOutput {
        posthaste(args, &self.config())
    }

    fn json(&self, args: &str) -> serde_json::Value {
        let output = self.run(&format!("{args} --output json"));
        serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{args}: {output}"))
    }

    fn states(&self) -> String {
        self.db.query("SELECT state FROM messages ORDER BY message_id")
    }
}

fn operators_name_the_file(db: Db) {
    let sink = Sink::new();
    let table = CustomTable::new(db, &sink);
    let relay = Relay::start(&table.config());
    sink.wait_for_each_once(&["out"], &["m-1".to_owned()]);
    retry_until_ok("it is written down", || match table.states() {
        states if states == "published broken broken published" => Ok(()),
        states => Err(states),
    });

    let status = table.json("status");
    assert_eq!((status["table"].as_str(), status["dead"].as_u64()), (Some("messages"), Some(2)), "{status}");
    let dead = table.json("dead list --error refused");
    assert_eq!(dead["events"][0]["id"], "m-3", "{dead}");
    assert_eq!(table.json("event show m-2")["last_error"], "no such customer");
    let output = table.run("dead discard m-2 --yes");
    assert_eq!(output.code, 0, "{output}");
    let output = table.run("dead replay --all --yes --outbox orders");
    assert_eq!(output.code, 0, "{output}");
    sink.wait_for_each_once(&["out"], &["m-1".to_owned(), "m-3".to_owned()]);
    retry_until_ok("it is written down", || match table.states() {
        states if states == "published published published" => Ok(()),
        states => Err(states),
    });
    let output = table.run("migrate apply");
    assert_eq!(output.code, 2, "{output}");
    assert!(output.stderr.contains("theirs to migrate"), "{output}");
    relay.stop();
    table.db.end();
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
fn operators_of_an_own_table_name_the_file_on_postgres() {
    operators_name_the_file(Db::postgres());
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn operators_of_an_own_table_name_the_file_on_mysql() {
    operators_name_the_file(Db::mysql());
}

/// Only then: without these settings nothing is deleted.
fn relay_deletes_what_its_file_says(db: Db) {
    let sink = Sink::new();
    let done = r#"purge = { done = { action = "delete", after = "0s" }, interval = "1s" }"#;
    let table = CustomTable::with(db, &sink, done);
    let relay = Relay::start(&table.config());
    retry_until_ok("all that were published are gone", || match table.states() {
        states if states == "broken broken" => Ok(()),
        states => Err(states),
    });
    relay.stop();
    table.db.end();
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
fn relay_deletes_what_its_file_says_on_postgres() {
    relay_deletes_what_its_file_says(Db::postgres());
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn relay_deletes_what_its_file_says_on_mysql() {
    relay_deletes_what_its_file_says(Db::mysql());
}
