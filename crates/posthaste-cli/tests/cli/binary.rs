//! Runs the real binary.

use std::process::{Command, Output};

pub(crate) fn posthaste(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(args);
    command
}

/// Runs to the end; it must succeed and print one line of JSON and nothing else.
pub(crate) fn json_of(args: &[&str]) -> serde_json::Value {
    let output = posthaste(args).args(["--output", "json"]).output().expect("the binary runs");
    let printed = text(&output);
    assert!(output.status.success(), "{args:?} failed:\n{printed}");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 1, "{args:?} printed:\n{printed}");
    serde_json::from_str(lines[0]).expect("the line is JSON")
}

/// What was printed to stdout, and to stderr after it.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
