//! Engines in processes of their own, each a service with an engine and a writer, and the journals that
//! show what became of every event. A test program starts itself once more for each node: it has a test
//! `node` that calls [`run_node`], and what is its database's own is in its module `support`.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "every test file uses a part of it")]

mod load;
mod program;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use posthaste::Event;
use posthaste_testkit::process::{resume, suspend};
use posthaste_testkit::within_timeout;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard, mpsc};

use crate::support::Db;

pub use load::{Journal, Load, write_as_service};
pub use program::run_node;

/// The variable that makes the test `node` a node.
const NODE_VAR: &str = "POSTHASTE_TEST_NODE";

/// What is before every report of a node; the test harness writes its own words between.
const LINE_PREFIX: &str = "@@ ";

/// How a node is set up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Where its outbox lies on the server of the tests.
    pub location: String,
    pub lease: Duration,
    pub poll: Duration,
    pub workers: usize,
    pub handling: Handling,
    /// The event types that it has a route for; none: a fallback for all.
    pub types: Vec<String>,
    /// How much later than now the events are due that it writes.
    pub delay: Duration,
}

/// What a node does with an event.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Handling {
    /// Takes so long for each.
    Takes(Duration),
    /// Keeps them until it is told to `GO`; then events of the type `Failing` fail, all others are done.
    Holds,
}

impl Config {
    pub fn new(db: &Db) -> Self {
        Self {
            location: db.location().to_owned(),
            lease: Duration::from_secs(30),
            poll: Duration::from_millis(100),
            workers: 4,
            handling: Handling::Takes(Duration::ZERO),
            types: Vec::new(),
            delay: Duration::ZERO,
        }
    }
}

/// A running node, killed when it is no longer needed.
pub struct Node {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<String>,
    output: NodeOutput,
}

/// Everything that a node said so far, by its first word.
#[derive(Clone, Debug, Default)]
pub struct NodeOutput(BTreeMap<String, Vec<String>>);

impl NodeOutput {
    pub fn all(&self, word: &str) -> &[String] {
        self.0.get(word).map_or(&[], Vec::as_slice)
    }

    /// The ids of what it delivered, in order, repeats included.
    pub fn delivered(&self) -> &[String] {
        self.all("DELIVERED")
    }

    /// One of the counters that it showed at its end.
    pub fn counter(&self, name: &str) -> u64 {
        let line = self.all("COUNTER").iter().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no counter {name}")).trim().parse().expect("a number")
    }
}

impl Node {
    pub async fn start(config: &Config) -> Self {
        Self::start_with(Command::new(std::env::current_exe().expect("this program")), config).await
    }

    /// Starts it by a command that begins with something else, a program that changes the clock for
    /// example.
    pub async fn start_with(mut command: Command, config: &Config) -> Self {
        let mut child = command
            .args(["--exact", "node", "--include-ignored", "--nocapture"])
            .env(NODE_VAR, serde_json::to_string(config).expect("plain values"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{command:?}: {error}; `cargo xtask test` installs what is missing")
            });
        let (sender, lines) = mpsc::unbounded_channel();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some((_, output)) = line.split_once(LINE_PREFIX) {
                    let _ = sender.send(output.to_owned());
                }
            }
        });
        let stdin = child.stdin.take();
        let mut node = Self { child, stdin, lines, output: NodeOutput::default() };
        node.wait_for_report("READY", 1).await;
        node
    }

    /// Whether its process is gone.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_some()
    }

    pub fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("not stopped yet");
        writeln!(stdin, "{line}").expect("it listens");
    }

    /// Waits until it has said this word so often, and answers what followed the word.
    pub async fn wait_for_report(&mut self, word: &str, times: usize) -> &[String] {
        while self.output.all(word).len() < times {
            let line = within_timeout(word, self.lines.recv()).await;
            self.note(&line.unwrap_or_else(|| panic!("a node ended before it said {word} {times} times")));
        }
        self.output.all(word)
    }

    fn note(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        self.output.0.entry(word.to_owned()).or_default().push(rest.to_owned());
    }

    /// Stops it where it is. Returns when all of its threads stand still.
    pub fn suspend(&self) {
        suspend(self.child.id());
    }

    /// Lets it go on.
    pub fn resume(&self) {
        resume(self.child.id());
    }

    /// Kills it at once and answers what it had said.
    pub async fn kill(mut self) -> NodeOutput {
        self.child.kill().expect("it runs");
        self.rest().await
    }

    /// Lets it shut down and answers what it said.
    pub async fn stop(mut self) -> NodeOutput {
        drop(self.stdin.take());
        let output = self.rest().await;
        assert_eq!(output.all("END").len(), 1, "a node ended badly");
        output
    }

    async fn rest(&mut self) -> NodeOutput {
        while let Some(line) = within_timeout("a node ends", self.lines.recv()).await {
            self.note(&line);
        }
        let wrong = self.output.all("WRONG");
        assert!(wrong.is_empty(), "another payload than the one that was written: {wrong:?}");
        std::mem::take(&mut self.output)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An event whose payload says its id once more.
pub fn event_with_payload(id: &str) -> Event {
    typed_event("Tested", id)
}

pub fn typed_event(event_type: &str, id: &str) -> Event {
    Event::builder(event_type.to_owned()).id(id).json(id).build().expect("a good event")
}

pub fn delayed_event(id: &str, delay: Duration) -> Event {
    Event::builder("Tested").id(id).json(id).deliver_after(delay).build().expect("a good event")
}

/// How often each was delivered.
pub fn counts<'a>(ids: impl IntoIterator<Item = &'a String>) -> BTreeMap<&'a str, usize> {
    ids.into_iter().fold(BTreeMap::new(), |mut counts, id| {
        *counts.entry(id.as_str()).or_default() += 1;
        counts
    })
}

/// What a destination takes for an event: part of the load, and nothing that a test waits for.
pub async fn spend(time: Duration) {
    let mut moment = tokio::time::interval(time);
    moment.tick().await;
    moment.tick().await;
}

/// The tests of a program one after another: they start processes, and they judge by the clock.
pub async fn alone() -> MutexGuard<'static, ()> {
    static TEST_LOCK: Mutex<()> = Mutex::const_new(());
    TEST_LOCK.lock().await
}
