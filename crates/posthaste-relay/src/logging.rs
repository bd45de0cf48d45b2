//! Log lines to standard error, as text for people or as JSON for programs. Lines that repeat are counted, not written.

use std::io::IsTerminal as _;

use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::FilterExt as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::log_dedup::RepeatFilter;
pub use crate::log_dedup::{report_now, report_repeats};

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts the log of a long-running process. Run [`report_repeats`] beside it, and call [`report_now`] at the end.
pub fn start(format: LogFormat, filter: EnvFilter) {
    let registry = tracing_subscriber::registry();
    // stderr may be closed, and a line that cannot be written must not cause a panic.
    let lines = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    match format {
        LogFormat::Text => {
            let lines = lines.with_ansi(std::io::stderr().is_terminal());
            registry.with(lines.with_filter(filter.and(RepeatFilter))).init();
        }
        LogFormat::Json => {
            registry.with(lines.json().flatten_event(true).with_filter(filter.and(RepeatFilter))).init();
        }
    }
}
