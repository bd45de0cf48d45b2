//! `posthaste demo`: its counts add up, and the same seed gives the same counts.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::Value;

use crate::binary::{json_of, posthaste, signal, text};

const COUNTS: [&str; 6] = ["committed", "rolled_back", "delivered", "duplicates", "dead", "pending"];

fn counts(report: &Value) -> [u64; 6] {
    COUNTS.map(|name| report[name].as_u64().unwrap_or_else(|| panic!("{name} is missing in {report}")))
}

#[test]
fn same_seed_gives_the_same_counts_and_they_add_up() {
    let run = || json_of(&["demo", "--events", "200", "--seed", "7", "--once"]);
    let other = std::thread::spawn(run);
    let report = run();
    let [committed, rolled_back, delivered, duplicates, dead, pending] = counts(&report);
    assert_eq!(committed + rolled_back, 200);
    assert_eq!(delivered + dead, committed);
    assert_eq!((duplicates, dead, pending), (0, 1, 0));
    assert!(rolled_back > 0, "{report}");
    let latency = &report["latency_us"];
    assert!(
        latency["p50"].as_u64() > Some(0) && latency["p99"].as_u64() >= latency["p50"].as_u64(),
        "{report}"
    );
    assert_eq!(counts(&other.join().expect("the other run ends")), counts(&report));
}

#[test]
fn file_that_was_kept_is_used_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().join("kept");
    let dir = dir.to_str().expect("a plain path");
    // Runs with so few orders have no outage.
    let first = json_of(&["demo", "--events", "3", "--seed", "1", "--once", "--dir", dir]);
    let second = json_of(&["demo", "--events", "2", "--seed", "1", "--once", "--dir", dir]);
    assert!(second["database"].as_str().is_some_and(|file| file.starts_with(dir)), "{second}");
    assert!(second["dead"].as_u64() > first["dead"].as_u64(), "the dead of both runs: {second}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_demo_gracefully() {
    let mut demo = posthaste(&["demo", "--seed", "7", "--rate", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut output = BufReader::new(demo.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("committed") {
        line.clear();
        assert!(output.read_line(&mut line).expect("a line") > 0, "it ended by itself");
    }
    signal(&demo, "INT");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert!(demo.wait().expect("it ends").success(), "{rest}");
    assert!(rest.contains("It adds up"), "{rest}");
}

#[test]
fn demo_ends_when_stdout_is_closed() {
    let mut demo =
        posthaste(&["demo", "--seed", "7"]).stdout(Stdio::piped()).spawn().expect("the binary runs");
    let mut line = String::new();
    let mut output = BufReader::new(demo.stdout.take().expect("a pipe"));
    output.read_line(&mut line).expect("a line");
    drop(output);
    assert!(demo.wait().expect("it ends").success());
}

#[test]
fn check_without_a_database_fails() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().to_str().expect("a plain path");
    let output = posthaste(&["demo", "--check", "--dir", dir, "--journal", dir]).output().expect("it runs");
    assert!(!output.status.success(), "{}", text(&output));
}
