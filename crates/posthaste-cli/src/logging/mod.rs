//! What the program logs, to standard error: text for people or JSON for programs.

#[cfg(feature = "relay")]
mod repeats;

use std::io::IsTerminal as _;

use tracing::Subscriber;
#[cfg(feature = "relay")]
use tracing_subscriber::filter::FilterExt as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt};

#[cfg(feature = "relay")]
pub(crate) use repeats::{report_now, report_repeats};

/// How log lines look.
#[cfg(feature = "relay")]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON document per line.
    Json,
}

/// For commands that answer and end: `usual`, unless `RUST_LOG` asks for something else.
pub(crate) fn start_quiet(usual: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    tracing_subscriber::registry().with(text().with_filter(filter)).init();
}

/// For a relay, which runs for months: what comes again and again is counted instead of written.
#[cfg(feature = "relay")]
pub(crate) fn start_steady(format: LogFormat, filter: EnvFilter) {
    let registry = tracing_subscriber::registry();
    match format {
        LogFormat::Text => registry.with(text().with_filter(filter.and(repeats::Repeats))).init(),
        LogFormat::Json => registry.with(json().with_filter(filter.and(repeats::Repeats))).init(),
    }
}

// A log line that cannot be written must not become a panic: stderr may be closed.

fn text<S>() -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let colours = std::io::stderr().is_terminal();
    fmt::layer().with_writer(std::io::stderr).with_ansi(colours).log_internal_errors(false)
}

#[cfg(feature = "relay")]
fn json<S>() -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).log_internal_errors(false)
}
