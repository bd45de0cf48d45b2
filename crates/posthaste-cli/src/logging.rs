//! Logging of commands that print a result and end. The relay has its own: `posthaste_relay::logging`.

use std::io::IsTerminal as _;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

/// Logs to stderr with these directives, unless `RUST_LOG` is set.
pub(crate) fn start(directives: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives));
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    // Stderr may be closed. A log line that cannot be written must not become a panic.
    let lines = lines.log_internal_errors(false);
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
}
