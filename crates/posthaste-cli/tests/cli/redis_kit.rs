//! An outbox of one's own on the server of this test run, a server of one's own, and the binary to look at
//! them with.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};

use posthaste::{Event, Outbox};
use posthaste_redis::{OutboxName, RedisStore, RedisStoreBuilder};
use redis::{Cmd, FromRedisValue, cmd};
use tempfile::TempDir;

use crate::kit::{Said, block_on};
use crate::servers::{command_on, fresh_name};

/// An outbox that goes when the test ends.
pub(crate) struct RedisShop {
    url: String,
    /// The outbox, as `--table` names it.
    name: String,
}

/// A row that an engine has seen: id, type, aggregate, tenant, status, attempts, when it was inserted and when
/// it was done, both in milliseconds, and its error.
type Row = (&'static str, &'static str, &'static str, &'static str, u8, u8, i64, i64, &'static str);

/// Rows in every state, as in `kit.rs`.
const SEED: [Row; 7] = [
    ("n-1", "OrderPlaced", "o-7", "acme", 0, 0, FAR, 0, ""),
    ("n-2", "OrderPlaced", "o-8", "", 2, 3, FAR, 0, "timeout"),
    ("d-1", "OrderPlaced", "o-1", "acme", 3, 10, PAST, 1_577_934_245_000, "connection refused"),
    ("d-2", "OrderPlaced", "o-2", "bolt", 3, 10, PAST, 1_577_934_246_000, "connection refused"),
    ("d-3", "MailSent", "o-9", "", 3, 0, PAST, 1_577_934_247_000, "no route"),
    ("f-1", "OrderPlaced", "o-3", "", 1, 0, PAST, 1_577_934_248_000, ""),
    ("f-2", "OrderPlaced", "o-4", "", 1, 0, PAST, 1_577_934_249_000, ""),
];

/// 2020, and a clock that is far ahead, so that the age of what waits is always zero.
const PAST: i64 = 1_577_934_000_000;
const FAR: i64 = 4_102_444_800_000;

impl RedisShop {
    /// A name under which there is nothing.
    pub(crate) fn empty() -> Self {
        let url = std::env::var("POSTHASTE_TEST_REDIS_URL").expect("run `cargo xtask services up`");
        Self { url, name: fresh_name() }
    }

    /// An outbox with rows in every state.
    pub(crate) fn seeded() -> Self {
        let shop = Self::empty();
        SEED.iter().enumerate().for_each(|(number, row)| shop.add(number, row));
        shop
    }

    /// Stores a row as the scripts do.
    fn add(&self, number: usize, row: &Row) {
        let &(id, event_type, aggregate, tenant, status, attempts, inserted, done, error) = row;
        let with = match tenant {
            "" => String::new(),
            tenant => format!(r#""tenant_id":"{tenant}","headers":{{"region":"eu"}},"#),
        };
        let body = format!(
            r#"{{"event_type":"{event_type}","aggregate_type":"Order","aggregate_id":"{aggregate}",{with}"created_at":{},"payload_bytes":28,"payload":"{{\"total\": 1.50, \"items\": []}}"}}"#,
            PAST * 1000
        );
        let done = if done > 0 { (done * 1000).to_string() } else { String::new() };
        let digits = number.to_string().len();
        let place = format!("{inserted}-{digits}{number}");
        let state = format!("{status}\t{place}\t\t{attempts}\t0\t0\t0\t{done}\t\t\t\t{error}");
        self.ask::<u8>(cmd("HSET").arg(self.key("entries")).arg(id).arg(body));
        self.ask::<u8>(cmd("HSET").arg(self.key("state")).arg(id).arg(state));
        let (index, due) = match status {
            0 => ("waiting", Some(PAST)),
            2 => ("waiting", Some(FAR)),
            3 => ("dead", None),
            _ => ("done", None),
        };
        if let Some(due) = due {
            self.ask::<u8>(cmd("ZADD").arg(self.key("pending")).arg(due * 1000).arg(id));
        }
        self.ask::<u8>(cmd("ZADD").arg(self.key(index)).arg(0).arg(format!("{place}:{id}")));
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
            let writer = store.writer(&Outbox::writer_only(store.clone()).build()?);
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
    pub(crate) fn through(&self, url: String) -> Self {
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
    pub(crate) fn ask<T: FromRedisValue>(&self, cmd: &Cmd) -> T {
        let connection = redis::Client::open(self.url.as_str()).and_then(|client| client.get_connection());
        cmd.query(&mut connection.expect("the server is there")).expect("an answer")
    }

    /// The states of all rows, by id.
    pub(crate) fn states(&self) -> String {
        let rows: std::collections::BTreeMap<String, String> =
            self.ask(cmd("HGETALL").arg(self.key("state")));
        rows.iter().map(|(id, state)| format!("{id}={} ", &state[..1])).collect()
    }

    /// Runs `posthaste` on this outbox. What differs from run to run is taken out of what it says.
    pub(crate) fn run(&self, words: &str) -> Said {
        let Said { code, stdout, stderr } =
            Said::of(self.command(words).output().expect("the binary starts"));
        Said { code, stdout: self.plain(&stdout), stderr: self.plain(&stderr) }
    }

    fn plain(&self, text: &str) -> String {
        let host = self.url.trim_end_matches('/').rsplit(['/', '@']).next().expect("a URL with a host");
        text.replace(&self.name, "shop").replace(host, "db.example")
    }

    pub(crate) fn json(&self, words: &str) -> serde_json::Value {
        let said = self.run(&format!("{words} --output json"));
        assert_eq!(said.stdout.lines().count(), 1, "one document on one line: {said}");
        serde_json::from_str(&said.stdout).expect("a JSON document")
    }

    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = command_on(&self.url, words);
        command.args(["--table", &self.name]);
        command
    }

    /// Takes the outbox away, or what a node of a cluster has of it.
    pub(crate) fn end(self) {
        for key in self.ask::<Vec<String>>(cmd("KEYS").arg(format!("{{{}:*", self.name))) {
            self.ask::<u8>(cmd("UNLINK").arg(key));
        }
    }
}

/// A Redis with a password, which ends with the test.
pub(crate) struct OwnServer {
    process: Child,
    port: u16,
    /// A server whose log nobody reads would wait.
    _log: BufReader<ChildStdout>,
    _folder: TempDir,
}

impl OwnServer {
    pub(crate) fn with_password(password: &str) -> Self {
        let program = std::env::var("POSTHASTE_TEST_REDIS_BIN").expect("run `cargo xtask services up`");
        let folder = tempfile::tempdir().expect("a folder");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = port.expect("a free port").port();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", "--", &program, "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--port", &port.to_string(), "--requirepass", password]).current_dir(folder.path());
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut log = BufReader::new(process.stdout.take().expect("a log"));
        let mut line = String::new();
        while !line.contains("eady to accept connections") {
            line.clear();
            assert!(log.read_line(&mut line).expect("text") > 0, "the server ended");
        }
        Self { process, port, _log: log, _folder: folder }
    }

    /// `host:port`.
    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
