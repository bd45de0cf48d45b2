//! `posthaste relay`: delivers events until it is stopped.

mod signals;

use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use posthaste_relay::config::what_is_wrong_with_level;
use posthaste_relay::{Relay, RelayExit, logging, metrics};
use tokio_util::task::AbortOnDropHandle;
use tracing_subscriber::EnvFilter;

use crate::errors::UsageError;
use crate::relay_args::ConfigArgs;

const HELP_EXAMPLES: &str = "\
Examples:
  posthaste relay --store postgres://shop@db.example/shop --publish 'Order.*=kafka://broker:9092/orders'
  posthaste relay --config posthaste.toml
  posthaste config check --config posthaste.toml && kill -HUP $(pidof posthaste)

SIGTERM or Ctrl-C finishes the deliveries in flight and ends; a second one ends immediately. SIGHUP reads the
configuration again.
Exit codes: 0 stopped gracefully, 1 failed or stopped by a second signal, 2 the configuration is wrong.";

/// Deliver the events of one or more outboxes, until stopped
#[derive(Debug, Args)]
#[command(after_help = HELP_EXAMPLES)]
pub(crate) struct RelayArgs {
    /// Exit if a store or a broker cannot be reached at the start, instead of trying again
    #[arg(long)]
    fail_fast: bool,

    /// How much to log: error, warn, info, debug, trace, or directives such as info,sqlx=debug [default: info]
    #[arg(long, value_name = "LEVEL", env = "RUST_LOG")]
    log_level: Option<String>,

    /// Format of log lines [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    log_format: Option<LogFormat>,

    // Last, because its heading applies to all arguments that follow.
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One JSON document per line.
    Json,
}

impl From<LogFormat> for logging::LogFormat {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Text => Self::Text,
            LogFormat::Json => Self::Json,
        }
    }
}

pub(crate) async fn run(args: RelayArgs) -> anyhow::Result<ExitCode> {
    let source = args.config.source()?;
    let config = source.load()?;
    // A systemd unit that wants the default often sets the variable to an empty value.
    let level = args.log_level.as_ref().filter(|level| !level.is_empty()).unwrap_or(&config.log.level);
    logging::start(args.log_format.map_or(config.log.format, Into::into), filter(level)?);

    let commands = signals::listen(source).context("signals cannot be caught")?;
    let recorder = metrics::install().context("the metrics cannot be recorded")?;
    let _upkeep = AbortOnDropHandle::new(tokio::spawn(recorder.clone().keep_up()));
    let _repeats = AbortOnDropHandle::new(tokio::spawn(logging::report_repeats()));
    let relay = Relay::new(config).fail_fast(args.fail_fast).metrics(move || recorder.render());
    let ended = relay.run_with(commands).await;
    logging::report_now();
    Ok(match ended? {
        RelayExit::Gracefully => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn filter(level: &str) -> Result<EnvFilter, UsageError> {
    let wrong = |what: String| UsageError::new(format!("--log-level, or the variable RUST_LOG: {what}"));
    match what_is_wrong_with_level(level) {
        Some(what) => Err(wrong(what)),
        None => EnvFilter::try_new(level).map_err(|error| wrong(error.to_string())),
    }
}
