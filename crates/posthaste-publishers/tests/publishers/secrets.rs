//! A secret for passwords and payloads, and a check that the log of a process does not contain it.

use std::process::Command;

use tracing_subscriber::filter::LevelFilter;

/// The password and payload that no text may contain.
pub(crate) const SENTINEL: &str = "s3ntinel-PW-9f";

/// The environment variable that tells the child process what to do.
const CHILD_VAR: &str = "POSTHASTE_TEST_LOG_CHILD";

/// Runs a test of this program in a child process, and asserts that its log contains the secret neither as text nor
/// as bytes. The library's name must be in the log, which proves that logging is on.
pub(crate) async fn assert_no_secret_logged(
    test: &'static str,
    library: &str,
    scene: impl Future<Output = ()>,
) {
    if std::env::var(CHILD_VAR).is_ok() {
        return scene.await;
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--include-ignored", "--nocapture"]).env(CHILD_VAR, "yes");
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("a wait");
    let output = output.expect("a child");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains(library), "the log is on: {text}");
    for line in text.lines() {
        assert!(!line.contains(SENTINEL), "{line}");
        assert!(!line.contains(&format!("{:?}", SENTINEL.as_bytes())), "as numbers: {line}");
    }
}

/// Makes this process log everything to its standard output.
pub(crate) fn log_everything() {
    tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).init();
}
