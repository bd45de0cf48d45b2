//! `posthaste demo`: an order service with an embedded outbox, which shows everything that can happen to events.

mod crash_check;
mod crash_journal;
mod destinations;
mod directory;
mod narration;
mod observed_counts;
mod order_plan;
mod report;
mod run;
mod screen;
mod shop;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::output::Output;
use directory::DemoDir;
use run::Demo;
use screen::DemoScreen;

/// The name of the database file.
const DATABASE_FILE: &str = "demo.db";

/// Default number of orders with `--once`.
const ONCE_ORDERS: u64 = 1_000;

/// Default orders per second without `--once`.
const WATCHED_ORDERS_PER_SECOND: u64 = 100;

/// Run a small order service with an embedded outbox: see events delivered, retried, parked and dead
///
/// Each order and its event are written in one transaction in a SQLite file. Some transactions roll back, some events
/// are delayed, some fail at first, one always fails, and a destination is unreachable for a while. At the end the
/// counts of the service, of the destinations and of the store must add up.
///
/// JSON: {"seed", "seconds", "committed", "rolled_back", "delivered", "duplicates", "dead", "pending", "hot", "polled",
/// "latency_us": {"p50", "p99", "count"} or null, "polled_latency_us", "inherited", "database": path or null,
/// "problems": [text]}
///
/// Exit code 1 if the counts do not add up.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Stop after N orders [default: until Ctrl-C, or 1000 with --once]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    events: Option<u64>,
    /// Orders per second, 0 for as many as possible [default: 100, or 0 with --once]
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    /// Seed of the random events: the same seed gives the same run [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// End when all orders are written and their events are delivered or dead
    #[arg(long)]
    once: bool,
    /// Keep the database in this directory; an existing one is used again
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,
    /// Keep the temporary directory
    #[arg(long, conflicts_with = "dir")]
    keep: bool,
    /// Append the ids of attempted, committed and delivered events to files in this directory
    #[arg(long, value_name = "PATH", hide = true)]
    journal: Option<PathBuf>,
    /// Print a line for every id that is appended to the journal
    #[arg(long, hide = true, requires = "journal")]
    echo: bool,
    /// Compare the journal with the database instead of running
    #[arg(long, hide = true, requires = "dir", requires = "journal")]
    check: bool,
}

impl DemoArgs {
    fn orders(&self) -> Option<u64> {
        self.events.or(self.once.then_some(ONCE_ORDERS))
    }

    fn rate(&self) -> u64 {
        self.rate.unwrap_or(if self.once { 0 } else { WATCHED_ORDERS_PER_SECOND })
    }
}

/// Runs the demo. The exit code is 1 if the counts do not add up.
pub(crate) async fn run(args: DemoArgs, output: Output) -> anyhow::Result<ExitCode> {
    if args.check {
        return compare(&args, output).await;
    }
    let dir = DemoDir::new(args.dir.as_deref(), args.keep)?;
    let demo = Demo::open(&args, &dir, DemoScreen::new(output)).await?;
    let report = demo.run().await?;
    output.print(&report)?;
    Ok(exit_code(report.adds_up()))
}

/// `--check`: compares the journal with the database, for the crash test.
async fn compare(args: &DemoArgs, output: Output) -> anyhow::Result<ExitCode> {
    let (Some(dir), Some(journal)) = (&args.dir, &args.journal) else {
        anyhow::bail!("--check needs --dir and --journal");
    };
    let findings = crash_check::check(&dir.join(DATABASE_FILE), journal).await?;
    output.print(&findings)?;
    Ok(exit_code(findings.are_good()))
}

fn exit_code(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The name under which this program was started, for the commands that the demo suggests.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "posthaste".to_owned())
}
