//! Runs each producer in another language as its README describes, and an engine that delivers its event.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use std::{env, fs};

use posthaste::{Delivery, Outbox, Recorder, Route, Routes};
use posthaste_sqlx::PgStore;
use posthaste_testkit::within_timeout;
use sqlx::PgPool;
use tempfile::TempDir;

use crate::support::Database;

const PYTHON: Producer = Producer {
    folder: "python",
    drivers: "POSTHASTE_TEST_PRODUCER_PYTHON",
    run: ".venv/bin/python place_order.py",
    payload: |order| format!(r#"{{"order": {order}}}"#),
};

const NODE: Producer = Producer {
    folder: "node",
    drivers: "POSTHASTE_TEST_PRODUCER_NODE",
    run: "node place_order.js",
    payload: |order| format!(r#"{{"order":{order}}}"#),
};

const GO: Producer = Producer {
    folder: "go",
    drivers: "POSTHASTE_TEST_PRODUCER_GO",
    run: "go run .",
    payload: |order| format!(r#"{{"order":{order}}}"#),
};

const JAVA: Producer = Producer {
    folder: "java",
    drivers: "POSTHASTE_TEST_PRODUCER_JAVA",
    run: "java -cp 'lib/*' PlaceOrder.java",
    payload: |order| format!(r#"{{"order":{order}}}"#),
};

/// A program in another language, which uses only the table.
struct Producer {
    /// Its folder in `examples/producers`.
    folder: &'static str,
    /// The environment variable that names the folder of its drivers.
    drivers: &'static str,
    /// The command in the README.
    run: &'static str,
    /// The exact payload that it writes for the order with this number.
    payload: fn(i32) -> String,
}

impl Producer {
    fn source(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("producers").join(self.folder)
    }

    /// `None` if the language is not installed. Reports that on standard error, which the test harness does not
    /// capture.
    fn unpack(&self) -> Option<Unpacked<'_>> {
        let Ok(drivers) = env::var(self.drivers) else {
            panic!("{} is not set: run `cargo xtask test`", self.drivers)
        };
        if drivers.is_empty() {
            let _ = writeln!(std::io::stderr(), "LEFT OUT: {} is not installed here", self.folder);
            return None;
        }
        Some(Unpacked::new(self, PathBuf::from(drivers)))
    }
}

/// A copy of a producer's folder, with its drivers where the README puts them.
struct Unpacked<'a> {
    producer: &'a Producer,
    drivers: PathBuf,
    folder: TempDir,
}

impl<'a> Unpacked<'a> {
    fn new(producer: &'a Producer, drivers: PathBuf) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for file in fs::read_dir(producer.source()).expect("the example is there") {
            let file = file.expect("an entry");
            // Skips folders, which only the commands of the README create.
            if file.file_type().expect("a kind").is_file() {
                fs::copy(file.path(), folder.path().join(file.file_name())).expect("a copy");
            }
        }
        let link = |from: PathBuf, to: &str| symlink(from, folder.path().join(to)).expect("a link");
        link(drivers.clone(), ".venv");
        link(drivers.join("node_modules"), "node_modules");
        link(drivers.join("lib"), "lib");
        Self { producer, drivers, folder }
    }

    async fn run(&self, database: &Database, arguments: &str) -> Output {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{} {arguments}", self.producer.run)).current_dir(self.folder.path());
        shell.env("DATABASE_URL", database.url()).env("JDBC_DATABASE_URL", database.jdbc_url());
        // Go keeps its drivers outside the folder. Nothing is downloaded here.
        shell.env("GOMODCACHE", self.drivers.join("modules")).env("GOCACHE", self.drivers.join("compiled"));
        shell.env("GOFLAGS", "-trimpath").env("GOPROXY", "off");
        let output = move || shell.output().expect("the program runs");
        tokio::task::spawn_blocking(output).await.expect("no panic")
    }
}

/// The number of orders and the number of events.
async fn written(pool: &PgPool) -> (i64, i64) {
    let query = "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM outbox_event)";
    sqlx::query_as(query).fetch_one(pool).await.expect("two numbers")
}

async fn only_what_is_committed_is_delivered(producer: Producer) {
    let Some(program) = producer.unpack() else { return };
    let database = Database::create().await;
    let store = PgStore::builder(&database.options()).migrate().connect().await.expect("an outbox");
    let seen = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(seen.clone()));
    let relay = Outbox::builder(store.clone(), routes)
        .poll_interval(Duration::from_millis(50))
        .start()
        .expect("it starts");
    let pool = PgPool::connect_with(database.options()).await.expect("the database is up");

    let failed = program.run(&database, "--fail").await;
    let stderr = String::from_utf8_lossy(&failed.stderr);
    assert!(!failed.status.success() && stderr.contains("the payment was refused"), "{stderr}");
    assert_eq!(written(&pool).await, (0, 0));

    let placed = program.run(&database, "").await;
    assert!(placed.status.success(), "{}", String::from_utf8_lossy(&placed.stderr));
    within_timeout("the event arrives", seen.wait_for(1)).await;
    relay.idle().await.expect("the store works");

    let order = sqlx::query_scalar("SELECT id FROM orders").fetch_one(&pool).await.expect("one order");
    assert_eq!(written(&pool).await, (1, 1));
    let delivered = seen.deliveries();
    assert_eq!(delivered.len(), 1);
    let printed = String::from_utf8_lossy(&placed.stdout);
    assert_is_the_order(&delivered[0], printed.trim_end(), order, &(producer.payload)(order));

    relay.shutdown().await;
    store.close().await;
    pool.close().await;
    database.remove().await;
}

fn assert_is_the_order(delivery: &Delivery, id: &str, order: i32, payload: &str) {
    let event = &delivery.event;
    assert_eq!(event.id().as_str(), id);
    assert_eq!((id.len(), id.matches('-').count()), (36, 4), "{id} is a UUID");
    assert_eq!((event.event_type(), event.aggregate_type()), ("OrderPlaced", "Order"));
    assert_eq!(event.aggregate_id(), Some(order.to_string().as_str()));
    assert_eq!(String::from_utf8_lossy(event.payload()), payload);
}

#[tokio::test]
#[ignore = "needs PostgreSQL and Python: cargo xtask test"]
async fn python_delivers_only_what_it_commits() {
    only_what_is_committed_is_delivered(PYTHON).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and Node: cargo xtask test"]
async fn node_delivers_only_what_it_commits() {
    only_what_is_committed_is_delivered(NODE).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and Go: cargo xtask test"]
async fn go_delivers_only_what_it_commits() {
    only_what_is_committed_is_delivered(GO).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and Java: cargo xtask test"]
async fn java_delivers_only_what_it_commits() {
    only_what_is_committed_is_delivered(JAVA).await;
}

#[test]
fn readme_contains_the_commands_that_run_here() {
    let readme = include_str!("../../producers/README.md");
    for producer in [PYTHON, NODE, GO, JAVA] {
        let failing = format!("{} --fail", producer.run);
        for line in [producer.run, &failing] {
            assert!(readme.lines().any(|shown| shown.split("  #").next() == Some(line)), "{line}");
        }
    }
}
