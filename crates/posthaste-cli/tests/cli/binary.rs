//! Runs the binary.

use std::net::TcpListener;
use std::process::{Child, Command, Output};

pub(crate) fn posthaste(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(args);
    command
}

/// Runs the binary to its end. It must succeed and print exactly one line of JSON.
pub(crate) fn json_of(args: &[&str]) -> serde_json::Value {
    let output = posthaste(args).args(["--output", "json"]).output().expect("the binary runs");
    let printed = text(&output);
    assert!(output.status.success(), "{args:?} failed:\n{printed}");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 1, "{args:?} printed:\n{printed}");
    serde_json::from_str(lines[0]).expect("the line is JSON")
}

/// Everything that was printed: stdout, then stderr.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Sends a signal by its name, such as `INT`.
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// An address at which no program listens.
pub(crate) fn unused_address() -> String {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").to_string()
}
