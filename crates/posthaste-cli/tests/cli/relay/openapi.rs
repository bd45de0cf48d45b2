//! The OpenAPI document, checked against a running relay by a fuzzer.

use std::path::Path;
use std::process::{Command, Stdio};

use posthaste_testkit::variable;

use super::file_sink::Sink;
use super::process::Relay;
use crate::shop::{Shop, StoreKind};

/// Random requests per operation and run, besides those derived from the limits of the document.
const MAX_EXAMPLES: u32 = 30;

/// Fixed, so that every run makes the same requests and failures can be reproduced.
const SEED: u32 = 8;

const TOKEN: &str = "0123456789abcdef-operator";

#[test]
#[ignore = "needs a Python with schemathesis: cargo xtask test"]
fn document_holds_against_hostile_requests() {
    let (outbox, sink) = (Shop::seeded(StoreKind::Sqlite), Sink::new());
    // Replayed events of 2020 would make the relay late.
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\nready_lag = \"100years\"\n\
         [admin.tokens.ann]\nrole = \"operator\"\ntoken = {TOKEN:?}\n\
         [outbox.orders]\n{}[[outbox.orders.route]]\nname = \"mail\"\npublish = {:?}\n",
        outbox.toml(),
        sink.url("out"),
    );
    let path = sink.path("posthaste.toml");
    std::fs::write(&path, text).expect("a file");
    let mut relay = Relay::start(&["--config".to_owned(), path.display().to_string()]);
    relay.wait_for("delivering");
    attack(&format!("http://{}", relay.address()), TOKEN, "orders", &["n-1", "d-1", "f-1"], "mail");
    relay.stop();
}

/// Sends all kinds of requests and checks the responses against the document: first reads, then changes, then requests
/// for things that do not exist.
fn attack(url: &str, token: &str, outbox: &str, ids: &[&str], route: &str) {
    let known = format!(
        "[parameters]\n\"path.outbox\" = {outbox:?}\n\"path.id\" = {ids:?}\n\"path.route\" = {route:?}\n"
    );
    run(url, token, &known, &["--include-method", "GET"]);
    run(url, token, &known, &["--include-method", "POST"]);
    run(url, token, "", &[]);
}

fn run(url: &str, token: &str, config: &str, options: &[&str]) {
    let folder = tempfile::tempdir().expect("it runs");
    let file = folder.path().join("schemathesis.toml");
    std::fs::write(&file, config).expect("it runs");
    let output = command(url, token, &file).args(options).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{options:?}\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}");
}

/// Excludes the tail, which does not end. Invalid requests must be refused, valid ones accepted.
fn command(url: &str, token: &str, config: &Path) -> Command {
    let python = variable("POSTHASTE_TEST_PYTHON");
    let mut command = Command::new(python);
    command.args(["-m", "schemathesis.cli", "--config-file"]).arg(config).arg("run");
    command.arg(format!("{url}/openapi.json")).args(["--exclude-operation-id", "tail"]);
    command.args(["--header", &format!("Authorization: Bearer {token}")]);
    command.args(["--max-examples", &MAX_EXAMPLES.to_string(), "--seed", &SEED.to_string()]);
    command.args(["--phases", "examples,coverage,fuzzing", "--checks", "all", "--continue-on-failure"]);
    command.args(["--request-timeout", "15", "--no-color", "--warnings", "off"]);
    command.current_dir(config.parent().unwrap_or(Path::new("/")));
    command.stdin(Stdio::null());
    command
}
