//! `posthaste doctor`: reports why an outbox is slow or stuck, and what to do.

mod destinations;
mod outbox;
mod report;
mod routes;
mod store_unavailable;

use std::process::ExitCode;
use std::time::Duration;

use posthaste::admin::Tolerance;

use crate::output::Output;
use crate::relay_args::{ConfigArgs, OutboxFlags, RelayFlags};
use outbox::OutboxCheck;
use report::Diagnosis;

/// Report why an outbox is slow or stuck, and what to do about it
///
/// With --config or --publish it also checks the destinations and the routes. It changes nothing, sends no event and
/// creates nothing.
///
/// JSON: {"healthy", "outboxes": [{"outbox": its name in the configuration or null, "store", "table", "schema": only if
/// one was named, "routes", "destinations": how many were checked, "healthy", "findings": [{"code", "severity":
/// "note|warning|problem", "what", "advice"}]}]}
///
/// Exit code 0 if there are only notes, 1 if there is a warning or a problem. An outbox that cannot be opened is a
/// problem.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  posthaste doctor
  posthaste doctor --late 1m --paused 10m
  posthaste doctor --store postgres://shop@db.example/shop --publish 'Order.*=kafka://broker:9092/orders'
  posthaste doctor --config posthaste.toml --output json")]
pub(crate) struct DoctorArgs {
    /// The configuration file of a relay: all its outboxes and destinations are checked
    #[arg(long, value_name = "FILE", conflicts_with_all = ["store", "publish", "table", "schema", "layout", "pgbouncer"])]
    config: Option<std::path::PathBuf>,

    // Before `outbox`: its heading applies to all arguments that follow.
    #[command(flatten)]
    tolerance: ToleranceArgs,

    #[command(flatten)]
    outbox: OutboxFlags,
}

/// Thresholds of the findings; the defaults are those of the library.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Thresholds")]
struct ToleranceArgs {
    /// How long the oldest pending event may wait [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    late: Option<Duration>,

    /// How long a transaction may stay open on the database [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    open_transaction: Option<Duration>,

    /// How long a route may be paused before it counts as forgotten [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    paused: Option<Duration>,

    /// How far the clocks of machines may differ [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    skew: Option<Duration>,

    /// How much of a server limit, such as connections, may be in use [default: 80]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    used: Option<u8>,

    /// How many dead rows the database may have left to vacuum [default: 10000]
    #[arg(long, value_name = "N")]
    dead_rows: Option<u64>,
}

impl ToleranceArgs {
    fn tolerance(&self) -> Tolerance {
        let mut tolerance = Tolerance::default();
        set(&mut tolerance.late, self.late);
        set(&mut tolerance.transaction, self.open_transaction);
        set(&mut tolerance.paused, self.paused);
        set(&mut tolerance.skew, self.skew);
        set(&mut tolerance.used, self.used);
        set(&mut tolerance.dead_rows, self.dead_rows);
        tolerance
    }
}

/// Keeps the default if the option was not given.
fn set<T>(threshold: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *threshold = given;
    }
}

pub(crate) async fn run(args: DoctorArgs, output: Output) -> anyhow::Result<ExitCode> {
    let tolerance = args.tolerance.tolerance();
    let mut examined = Vec::new();
    for outbox in args.outboxes()? {
        examined.push(outbox.examine(&tolerance).await?);
    }
    let diagnosis = Diagnosis::of(examined);
    output.print(&diagnosis)?;
    Ok(if diagnosis.healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl DoctorArgs {
    fn outboxes(self) -> anyhow::Result<Vec<OutboxCheck>> {
        if self.config.is_none() && self.outbox.publish.is_empty() {
            return Ok(vec![OutboxCheck::alone(self.outbox.store()?)]);
        }
        // An outbox that is described by options alone has no name.
        let is_named = self.config.is_some();
        let relay = RelayFlags { outbox: self.outbox, ..RelayFlags::default() };
        let config = ConfigArgs { config: self.config, relay }.source()?.load()?;
        Ok(config.outboxes.into_iter().map(|outbox| OutboxCheck::configured(outbox, is_named)).collect())
    }
}
