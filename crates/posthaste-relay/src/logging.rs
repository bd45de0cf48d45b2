//! Log lines to standard error: text for people or JSON for programs. Lines that repeat are counted instead of written.

use std::io::IsTerminal as _;

use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::FilterExt as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::log_dedup::RepeatFilter;
pub use crate::log_dedup::{report_now, report_repeats};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON document per line.
    Json,
}

/// Starts the log of a process that runs for months. [`report_repeats`] must run beside it.
pub fn start(format: LogFormat, filter: EnvFilter) {
    let registry = tracing_subscriber::registry();
    // A log line that cannot be written must not become a panic: stderr may be closed.
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
