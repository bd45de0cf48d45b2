//! Tests the first example of the README, and the same example on other drivers.

use std::path::Path;
use std::process::Command;

const PROGRAM: &str = include_str!("../../src/bin/quickstart.rs");

#[test]
fn readme_shows_this_program_and_a_handler_of_getting_started() {
    let readme = include_str!("../../../README.md");
    let blocks: Vec<&str> = readme
        .split("```rust\n")
        .skip(1)
        .map(|rest| rest.split_once("```").expect("the block ends").0)
        .collect();
    let (_doc, program) = PROGRAM.split_once("\n\n").expect("the doc comment ends");
    let [first, second] = blocks[..] else { panic!("{} blocks", blocks.len()) };
    assert_eq!(first, program);
    // The doc tests compile that page.
    assert!(include_str!("../../../docs/getting-started.md").contains(second), "{second}");
}

// S3-23
#[test]
fn order_is_placed_and_its_event_is_delivered() {
    let dir = tempfile::tempdir().unwrap();
    // The programs run one after the other on the same file.
    let programs = [
        env!("CARGO_BIN_EXE_quickstart"),
        env!("CARGO_BIN_EXE_rusqlite"),
        env!("CARGO_BIN_EXE_sea_orm"),
        env!("CARGO_BIN_EXE_diesel"),
    ];
    for (order, program) in programs.into_iter().cycle().take(8).enumerate() {
        let order = order + 1;
        assert_eq!(run_in(dir.path(), program), format!("delivered: {{\"order\":{order}}}\n"));
    }
}

fn run_in(dir: &Path, program: &str) -> String {
    let output = Command::new(program).current_dir(dir).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}
