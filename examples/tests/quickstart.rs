//! The example that the README begins with.

use std::path::Path;
use std::process::Command;

const PROGRAM: &str = include_str!("../src/bin/quickstart.rs");

#[test]
fn readme_shows_exactly_this_program() {
    let readme = include_str!("../../README.md");
    let blocks: Vec<&str> = readme
        .split("```rust\n")
        .skip(1)
        .map(|rest| rest.split_once("```").expect("the block ends").0)
        .collect();
    let (_doc, program) = PROGRAM.split_once("\n\n").expect("the doc comment ends");
    assert_eq!(blocks, [program]);
}

// S3-23
#[test]
fn order_is_placed_and_its_event_is_delivered() {
    let dir = tempfile::tempdir().unwrap();
    for order in 1..=2 {
        assert_eq!(run_in(dir.path()), format!("delivered: {{\"order\":{order}}}\n"));
    }
}

fn run_in(dir: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_quickstart")).current_dir(dir).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}
