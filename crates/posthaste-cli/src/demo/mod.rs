//! `posthaste demo`: a small order service with everything that can happen to its events.

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

/// The database's file name.
const DATABASE_FILE: &str = "demo.db";

/// How many orders `--once` takes unless told otherwise.
const ONCE_ORDERS: u64 = 1_000;

/// Orders per second when a person watches.
const WATCHED_ORDERS_PER_SECOND: u64 = 100;

/// A small order service, embedded: see events delivered, retried, parked and dead
///
/// Each order and its event are one transaction in a SQLite file. Some roll back, some events are
/// delayed, some fail at first, one is poison, and a destination goes away for a while. At the end
/// the counts of the service, of the destinations and of the store must add up.
///
/// JSON: {"seed", "seconds", "committed", "rolled_back", "delivered", "duplicates", "dead",
/// "pending", "hot", "polled", "latency_us": {"p50", "p99", "count"} or null, "polled_latency_us",
/// "inherited", "database": path or null, "problems": [text]}
///
/// Exit code 1 if they do not add up.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Stop after so many orders [default: until Ctrl-C, or 1000 with --once]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    events: Option<u64>,
    /// Orders per second, 0 for as many as possible [default: 100, or 0 with --once]
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    /// The same seed tells the same story [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// End when all orders are in and their events are delivered or dead
    #[arg(long)]
    once: bool,
    /// Keep the database in this directory; one that is there already is used again
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

/// Runs the demo; fails if its numbers do not add up.
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

/// `--check`: what a crash test asks after the last run.
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

/// How this program was called, for commands to copy.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "posthaste".to_owned())
}
