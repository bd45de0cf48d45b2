//! `posthaste status --watch`: reads the counts repeatedly and shows rates.

use std::process::ExitCode;
use std::time::Duration;

use posthaste::Timestamp;
use posthaste::admin::{Admin, Stats};
use serde::Serialize;
use tokio::time::Instant;

use super::StatusReport;
use super::rates::Rates;
use crate::errors;
use crate::output::{Output, Report, moment};
use crate::stop::Stop;
use posthaste_admin::wire::Time;
use posthaste_stores::StoreSpec;

/// Lower bound of `--interval`: each reading costs the database work.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(super) struct WatchArgs {
    /// Read again and again, until Ctrl-C; an error of the store is shown, and reading continues
    #[arg(long)]
    pub(super) watch: bool,

    /// The pause between two readings
    #[arg(long, value_name = "DURATION", requires = "watch", default_value = "2s", value_parser = parse_interval)]
    interval: Duration,

    /// End after N readings
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

pub(in crate::commands) fn parse_interval(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(interval) if interval >= MIN_INTERVAL => Ok(interval),
        Ok(_) => Err("at least 100ms".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the exit code of the last reading.
pub(super) async fn run(
    admin: &dyn Admin,
    args: &WatchArgs,
    store: &StoreSpec,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_ctrl_c();
    let (mut before, mut code) = (None, ExitCode::SUCCESS);
    for number in 1.. {
        let status = tokio::select! {
            biased;
            () = stop.requested() => break,
            status = super::read(admin, store) => status,
        };
        code = match status {
            Ok(status) => {
                let report = WatchReport::new(status, &before);
                output.print_again(&report, before.is_none())?;
                before = Some((Instant::now(), report.status.stats));
                ExitCode::SUCCESS
            }
            Err(error) => {
                errors::show(&error);
                ExitCode::FAILURE
            }
        };
        let last = args.count == Some(number);
        if last || !stop.wait_until(Instant::now() + args.interval).await {
            break;
        }
    }
    Ok(code)
}

/// One reading, with the rates since the one before.
#[derive(Debug, Serialize)]
struct WatchReport {
    at: Time,
    #[serde(flatten)]
    status: StatusReport,
    rates: Option<Rates>,
}

impl WatchReport {
    fn new(status: StatusReport, before: &Option<(Instant, Stats)>) -> Self {
        let rates = before.as_ref().map(|(at, stats)| Rates::between(stats, &status.stats, at.elapsed()));
        Self { at: Time(Timestamp::now()), status, rates }
    }
}

impl Report for WatchReport {
    fn text(&self) -> String {
        let heading = format!("{} at {}", self.status.heading(), moment(self.at.0));
        let rates = Rates::text(self.rates.as_ref());
        let mut parts = vec![heading, self.status.counts(), rates, self.status.facts()];
        parts.extend(self.status.tables());
        parts.join("\n\n")
    }
}
