//! Engines in processes of their own, each a service with an engine and a writer, and the journals that
//! show what became of every event. A test program starts itself once more for each node: it has a test
//! `node` that calls [`run_node`], and what is its database's own is in its module `support`.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "every test file uses a part of it")]

mod load;
mod program;

use std::process::Command;
use std::time::Duration;

use posthaste::Event;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard};

use crate::support::Db;
pub use crate::support::child::{Child as Node, ChildOutput as NodeOutput, counts};

pub use load::{Journal, Load, write_as_service};
pub use program::run_node;

/// The variable that makes the test `node` a node.
const NODE_VAR: &str = "POSTHASTE_TEST_NODE";

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

impl Node {
    pub async fn start(config: &Config) -> Self {
        Self::start_with(Command::new(std::env::current_exe().expect("this program")), config).await
    }

    /// Starts it by a command that begins with something else, a program that changes the clock for
    /// example.
    pub async fn start_with(mut command: Command, config: &Config) -> Self {
        command.args(["--exact", "node", "--include-ignored", "--nocapture"]);
        command.env(NODE_VAR, serde_json::to_string(config).expect("plain values"));
        Self::spawn(command).await
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
