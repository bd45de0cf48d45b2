//! Tests the example that publishes.

use std::process::Command;

use serde_json::Value;

#[test]
fn event_of_an_order_is_published_as_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let program = Command::new(env!("CARGO_BIN_EXE_publish")).current_dir(dir.path()).output();
    let output = program.expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line: Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
    assert_eq!(line["event_type"], "OrderPlaced");
    assert_eq!(line["aggregate_id"], "1");
    assert_eq!(line["payload"]["order"], 1);
}

#[test]
fn unknown_url_scheme_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let program =
        Command::new(env!("CARGO_BIN_EXE_publish")).arg("kafak://x").current_dir(dir.path()).output();
    let output = program.expect("the program runs");
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("the URL has an unknown scheme"), "{stderr}");
}
