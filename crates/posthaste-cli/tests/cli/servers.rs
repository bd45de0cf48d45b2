//! What the tests on every kind of server share.

use std::process::{Command, Stdio};

/// Every command that opens a store.
const COMMANDS: [&str; 14] = [
    "status",
    "doctor",
    "status --watch --count 1",
    "event list",
    "event show x",
    "dead list",
    "dead replay --all --yes",
    "pause x",
    "resume x",
    "purge --done --older-than 1d --yes",
    "audit",
    "migrate apply",
    "migrate check",
    "migrate print",
];

/// `posthaste` with these words on the store at this URL, with nobody at the keyboard.
pub(crate) fn command_on(url: &str, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(args.split_whitespace()).stdin(Stdio::null());
    command.env_remove("RUST_LOG").env("POSTHASTE_STORE", url).env("USER", "ann");
    command
}

/// Whatever the program is asked, and however much it logs, it says none of these passwords.
pub(crate) fn assert_no_password(passwords: &[&str], command: impl Fn(&str) -> Command) {
    for args in COMMANDS {
        for format in ["text", "json"] {
            let mut command = command(args);
            let output = command
                .args(["--output", format])
                .env("RUST_LOG", "trace")
                .output()
                .expect("the binary starts");
            let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            for password in passwords {
                assert!(!printed.contains(password), "{args} {format}: {printed}");
            }
        }
    }
}
