//! A foreign table without a preset: the configuration file of its relay describes it, and commands read that file.

use super::posthaste;
use crate::command_output::CommandOutput;
use crate::on_stores::on_stores;
use crate::relay::file_sink::Sink;
use crate::relay::process::{Relay, retry_until_ok};
use crate::shop::{Shop, StoreKind};

on_stores!([postgres, mysql] [operators_name_the_file, relay_deletes_what_its_file_says]);

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
    db: Shop,
}

impl CustomTable {
    /// The table, and a configuration file with these settings of the outbox.
    fn new(kind: StoreKind, sink: &Sink, more: &str) -> Self {
        let db = Shop::bare(kind);
        db.sql(TABLE_SQL);
        let file = format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n[outbox.orders]\n{}\ntable = \"messages\"\n{more}\n{LAYOUT_TOML}\n\
             [[outbox.orders.route]]\npublish = \"{}\"\n",
            db.toml(),
            sink.url("out")
        );
        db.write_file("posthaste.toml", file);
        Self { db }
    }

    fn config(&self) -> Vec<String> {
        let file = self.db.path("posthaste.toml");
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

fn operators_name_the_file(kind: StoreKind) {
    let sink = Sink::new();
    let table = CustomTable::new(kind, &sink, "");
    let relay = Relay::start(&table.config());
    sink.wait_for_each_once(&["out"], &["m-1".to_owned()]);
    retry_until_ok("the delivery is settled", || match table.states() {
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
    retry_until_ok("the delivery is settled", || match table.states() {
        states if states == "published published published" => Ok(()),
        states => Err(states),
    });
    let output = table.run("migrate apply");
    assert_eq!(output.code, 2, "{output}");
    assert!(output.stderr.contains("which that program migrates"), "{output}");
    relay.stop();
}

/// Without these settings nothing is deleted.
fn relay_deletes_what_its_file_says(kind: StoreKind) {
    let sink = Sink::new();
    let done = r#"purge = { done = { action = "delete", after = "0s" }, interval = "1s" }"#;
    let table = CustomTable::new(kind, &sink, done);
    let relay = Relay::start(&table.config());
    retry_until_ok("all that were published are gone", || match table.states() {
        states if states == "broken broken" => Ok(()),
        states => Err(states),
    });
    relay.stop();
}
