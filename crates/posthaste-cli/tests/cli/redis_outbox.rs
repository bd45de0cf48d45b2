//! An outbox of one's own on the server of this test run, and the binary to look at it with.

use std::process::Command;

use posthaste::{Event, Outbox, Routes};
use posthaste_redis::{OutboxName, RedisStore, RedisStoreBuilder};
use posthaste_testkit::sample_rows::{PAST_SECONDS, ROWS, Row};
use posthaste_testkit::{unique_name, variable};
use redis::{Cmd, FromRedisValue, cmd};

use crate::servers::command_on;
use crate::sqlite_outbox::{CommandOutput, block_on};

/// An outbox that goes when the test ends.
pub(crate) struct RedisOutbox {
    url: String,
    /// The outbox, as `--table` names it.
    name: String,
}

impl RedisOutbox {
    /// A name under which there is nothing.
    pub(crate) fn empty() -> Self {
        Self::empty_on(variable("POSTHASTE_TEST_REDIS_URL"))
    }

    /// The same on the server at this URL.
    pub(crate) fn empty_on(url: String) -> Self {
        Self { url, name: unique_name("cli") }
    }

    /// An outbox with rows in every state.
    pub(crate) fn seeded() -> Self {
        let shop = Self::empty();
        ROWS.iter().enumerate().for_each(|(number, row)| shop.add(number, row));
        shop
    }

    /// Stores a row as the scripts do. All have the same payload.
    fn add(&self, number: usize, row: &Row) {
        let Row { id, event_type, status, attempts, .. } = row;
        let order = row.order.unwrap_or("o-9");
        let with = row.tenant.map(|tenant| format!(r#""tenant_id":"{tenant}","headers":{{"region":"eu"}},"#));
        let body = format!(
            r#"{{"event_type":"{event_type}","aggregate_type":"Order","aggregate_id":"{order}",{}"created_at":{},"payload_bytes":28,"payload":"{{\"total\": 1.50, \"items\": []}}"}}"#,
            with.unwrap_or_default(),
            micros(PAST_SECONDS)
        );
        let done = row.done_at.map(|at| micros(at).to_string()).unwrap_or_default();
        let digits = number.to_string().len();
        let position = format!("{}-{digits}{number}", row.inserted_at * 1000);
        let error = row.last_error.unwrap_or_default();
        let state = format!("{status}\t{position}\t\t{attempts}\t0\t0\t0\t{done}\t\t\t\t{error}");
        self.query::<u8>(cmd("HSET").arg(self.key("entries")).arg(id).arg(body));
        self.query::<u8>(cmd("HSET").arg(self.key("state")).arg(id).arg(state));
        let index = match status {
            0 | 2 => "waiting",
            3 => "dead",
            _ => "done",
        };
        if index == "waiting" {
            self.query::<u8>(cmd("ZADD").arg(self.key("pending")).arg(micros(row.available_at)).arg(id));
        }
        self.query::<u8>(cmd("ZADD").arg(self.key(index)).arg(0).arg(format!("{position}:{id}")));
    }

    /// Writes events as a service without an engine does.
    pub(crate) fn write(&self, builder: RedisStoreBuilder, events: usize) {
        let events = (0..events).map(|_| Event::json("OrderPlaced", &1).expect("an event"));
        self.write_all(builder, events);
    }

    /// The same, with these ids, for aggregates of type `Order`.
    pub(crate) fn write_ids(&self, event_type: &str, ids: &[String]) {
        let builder = RedisStore::builder(&self.url).expect("a good URL");
        let event =
            |id: &String| Event::builder(event_type.to_owned()).id(id.as_str()).aggregate("Order", id);
        let events = ids.iter().map(|id| event(id).json(&1).build().expect("an event"));
        self.write_all(builder, events);
    }

    fn write_all(&self, builder: RedisStoreBuilder, events: impl Iterator<Item = Event>) {
        let written: anyhow::Result<()> = block_on(async {
            let store = builder.name(OutboxName::new(&self.name)?).connect().await?;
            let writer = store.writer(&Outbox::builder(store.clone(), Routes::new()).writer_only().build()?);
            for event in events {
                writer.write(event).await?;
            }
            Ok(())
        });
        written.expect("the events are written");
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The same outbox, reached by another URL.
    pub(crate) fn with_url(&self, url: String) -> Self {
        Self { url, name: self.name.clone() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A key of the outbox.
    pub(crate) fn key(&self, key: &str) -> String {
        format!("{{{}:0}}:{key}", self.name)
    }

    /// Asks the server, as another program would.
    pub(crate) fn query<T: FromRedisValue>(&self, cmd: &Cmd) -> T {
        let connection = redis::Client::open(self.url.as_str()).and_then(|client| client.get_connection());
        cmd.query(&mut connection.expect("the server is there")).expect("an answer")
    }

    /// The states of all rows, by id.
    pub(crate) fn states(&self) -> String {
        let rows: std::collections::BTreeMap<String, String> =
            self.query(cmd("HGETALL").arg(self.key("state")));
        rows.iter().map(|(id, state)| format!("{id}={} ", &state[..1])).collect()
    }

    /// Runs `posthaste` on this outbox. What differs from run to run is taken out of what it says.
    pub(crate) fn run(&self, args: &str) -> CommandOutput {
        let CommandOutput { code, stdout, stderr } =
            CommandOutput::of(self.command(args).output().expect("the binary starts"));
        CommandOutput { code, stdout: self.normalized(&stdout), stderr: self.normalized(&stderr) }
    }

    fn normalized(&self, text: &str) -> String {
        let host = self.url.trim_end_matches('/').rsplit(['/', '@']).next().expect("a URL with a host");
        text.replace(&self.name, "shop").replace(host, "db.example")
    }

    pub(crate) fn json(&self, args: &str) -> serde_json::Value {
        let output = self.run(&format!("{args} --output json"));
        assert_eq!(output.stdout.lines().count(), 1, "one document on one line: {output}");
        serde_json::from_str(&output.stdout).expect("a JSON document")
    }

    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = command_on(&self.url, args);
        command.args(["--table", &self.name]);
        command
    }

    /// Takes the outbox away, or what a node of a cluster has of it.
    pub(crate) fn end(self) {
        for key in self.query::<Vec<String>>(cmd("KEYS").arg(format!("{{{}:*", self.name))) {
            self.query::<u8>(cmd("UNLINK").arg(key));
        }
    }
}

fn micros(seconds: i64) -> i64 {
    seconds * 1_000_000
}
