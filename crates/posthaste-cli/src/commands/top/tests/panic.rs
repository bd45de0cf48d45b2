//! A panic leaves a usable terminal.

use std::io::Read as _;

use crate::commands::top::terminal::Screen;

/// The sequences that leave the alternate screen and show the cursor.
const RESTORE_SEQUENCES: [&str; 2] = ["\x1b[?1049l", "\x1b[?25h"];

/// Runs only in the test below, which starts it in its own terminal.
#[test]
#[ignore = "panics on purpose, in a terminal that another test makes"]
fn panic_on_the_screen() {
    if std::env::var_os("POSTHASTE_TEST_PANIC").is_some() {
        let _screen = Screen::open().unwrap();
        let thread = std::thread::spawn(|| panic!("somewhere else"));
        let _ = thread.join();
        // The panic hook alone has restored the terminal: nothing is dropped here.
        std::process::exit(7);
    }
}

#[test]
fn panic_restores_the_terminal_before_it_prints_its_message() {
    let (mut terminal, end) = pty_process::blocking::open().unwrap();
    let program = pty_process::blocking::Command::new(std::env::current_exe().unwrap());
    let program = program
        .args(["--exact", "commands::top::tests::panic::panic_on_the_screen", "--ignored", "--nocapture"])
        .env("POSTHASTE_TEST_PANIC", "1");
    let mut program = program.spawn(end).unwrap();
    let mut printed = Vec::new();
    // Reading from a terminal fails once its program has ended.
    let _ = terminal.read_to_end(&mut printed);
    assert_eq!(program.wait().unwrap().code(), Some(7));
    let printed = String::from_utf8_lossy(&printed);
    let message = printed.find("somewhere else").expect("the message is printed");
    for sign in RESTORE_SEQUENCES {
        assert!(printed.find(sign).is_some_and(|at| at < message), "{printed:?}");
    }
}
