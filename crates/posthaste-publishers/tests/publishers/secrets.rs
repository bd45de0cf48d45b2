//! What nobody may read: a password that stands where passwords stand, and the whole log of a process with it.

use std::process::Command;

use tracing_subscriber::filter::LevelFilter;

/// The password, and the payload, that must be in no text.
pub(crate) const SENTINEL: &str = "s3ntinel-PW-9f";

/// By this the child knows what to do.
const CHILD_VAR: &str = "POSTHASTE_TEST_LOG_CHILD";

/// Runs a test of this program, in a process of its own if this is not that process: neither the text nor its bytes
/// are in the log. The library's name is, or else nothing was logged.
pub(crate) async fn nothing_secret_is_logged(
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

/// From here on, this process logs everything to its standard output.
pub(crate) fn log_everything() {
    tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).init();
}
