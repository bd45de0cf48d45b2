//! Node tests: processes that each have an engine and a writer, and journals that show what happened to every event. A
//! test program starts itself again for each node: its test `node` calls [`run_node`]. What depends on the database is
//! in the module `support` of the test program.

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

/// The environment variable that makes the test `node` run as a node. It contains the [`Config`].
const NODE_VAR: &str = "POSTHASTE_TEST_NODE";

/// The configuration of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The place of the outbox on the test server.
    pub location: String,
    pub lease: Duration,
    pub poll: Duration,
    pub workers: usize,
    pub handling: Handling,
    /// The event types for which the node has a route; empty: a fallback for all types.
    pub types: Vec<String>,
    /// The delay of the events that the node writes.
    pub delay: Duration,
}

/// What the destination of a node does with an event.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Handling {
    /// Takes this long for each event.
    Takes(Duration),
    /// Holds all events until the command `GO`. Then events of the type `Failing` fail and all others succeed.
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

    /// Starts the node through another command, for example a program that changes the clock.
    pub async fn start_with(mut command: Command, config: &Config) -> Self {
        command.args(["--exact", "node", "--include-ignored", "--nocapture"]);
        command.env(NODE_VAR, serde_json::to_string(config).expect("plain values"));
        Self::spawn(command).await
    }
}

/// An event whose payload contains its id.
pub fn event_with_payload(id: &str) -> Event {
    typed_event("Tested", id)
}

pub fn typed_event(event_type: &str, id: &str) -> Event {
    Event::builder(event_type.to_owned()).id(id).json(id).build().expect("a good event")
}

pub fn delayed_event(id: &str, delay: Duration) -> Event {
    Event::builder("Tested").id(id).json(id).deliver_after(delay).build().expect("a good event")
}

/// Takes as long as a slow delivery. This is part of the load; no test uses it to wait for a result.
pub async fn spend(time: Duration) {
    let mut moment = tokio::time::interval(time);
    moment.tick().await;
    moment.tick().await;
}

/// Runs the tests of a program one after another, because they start processes and depend on time.
pub async fn alone() -> MutexGuard<'static, ()> {
    static TEST_LOCK: Mutex<()> = Mutex::const_new(());
    TEST_LOCK.lock().await
}
