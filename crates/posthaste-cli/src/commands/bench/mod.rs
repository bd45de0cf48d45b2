//! `posthaste bench`: how fast a store is on this machine.

mod engine;
mod flat;
mod load;
mod memory;
mod progress;
mod report;
mod rounds;
mod sqlite;
mod target;

use std::process::ExitCode;

use crate::connect::StoreUrl;
use crate::output::Output;
use flat::Fullness;
use load::Load;
use memory::Memory;
use progress::Progress;
use report::Report;
use sqlite::Sqlite;
use target::BenchStore;

/// How fast a store writes and delivers on this machine
///
/// It works in tables of its own and drops them at the end. A SQLite file is turned to WAL, as every
/// store on it is. Each round measures all variants one after the other; rates are medians.
///
/// JSON: {"store", "events", "rounds", "writers", "workers", "payload_bytes", "business_tx_per_s",
/// "outbox_tx_per_s", "hand_written_tx_per_s", "outbox_to_business" and "outbox_to_hand_written":
/// {"median", "lowest", "highest"}, "live_single_events_per_s", "live_batch_events_per_s",
/// "backlog_events_per_s", "write_and_drain_events_per_s", "latency_us": {"p50", "p99", "count"},
/// "settle_batch_mean": {"live_single", "live_batch", "backlog"}, "peak_memory_bytes": number or
/// null, "flatness": null or {"batch", "few", "many"} of {"done_rows", "future_rows", "claim_us",
/// "settle_us"}}
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// What to measure: memory: or sqlite:PATH; a file that is not there is made and removed
    // Not from the environment: nobody shall load a store that serves by forgetting an option.
    #[arg(long, value_name = "URL")]
    store: String,
    /// Events per measurement and round
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=500_000))]
    events: u64,
    /// Transactions that are open at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_count)]
    writers: usize,
    /// Events that are delivered at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_count)]
    workers: usize,
    /// Size of each payload
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = parse_bytes)]
    payload_bytes: usize,
    /// How often everything is measured; the medians are reported
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    rounds: u64,
    /// Also measure claim and settle with so many DONE rows in the table
    #[arg(long, value_name = "N")]
    done_rows: Option<u64>,
    /// Also measure claim and settle with so many retries in the table that are not yet due
    #[arg(long, value_name = "N")]
    future_rows: Option<u64>,
}

impl BenchArgs {
    fn fullness(&self) -> Option<Fullness> {
        let asked = self.done_rows.is_some() || self.future_rows.is_some();
        asked.then(|| Fullness {
            done_rows: self.done_rows.unwrap_or_default(),
            future_rows: self.future_rows.unwrap_or_default(),
        })
    }

    fn load(&self) -> Load {
        Load::new(self.events, self.writers, self.workers, self.payload_bytes)
    }
}

/// Measures and prints.
pub(crate) async fn run(args: BenchArgs, output: Output) -> anyhow::Result<ExitCode> {
    let report = match args.store.parse()? {
        StoreUrl::Memory => bench(&Memory, &args, output).await?,
        StoreUrl::Sqlite(options) => {
            bench(&Sqlite::open(*options, args.writers).await?, &args, output).await?
        }
    };
    output.print(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// Leaves nothing behind, also when it fails or is interrupted.
async fn bench<B: BenchStore>(bench: &B, args: &BenchArgs, output: Output) -> anyhow::Result<Report> {
    let measured = tokio::select! {
        measured = measure(bench, args, output) => measured,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted: nothing was measured")),
    };
    bench.close().await?;
    measured
}

async fn measure<B: BenchStore>(bench: &B, args: &BenchArgs, output: Output) -> anyhow::Result<Report> {
    let (load, full) = (args.load(), args.fullness());
    let rows = full.map_or(0, |full| full.done_rows + full.future_rows);
    let progress = Progress::new(output, args.rounds * rounds::STEPS + 2, rows);
    let mut rounds = Vec::new();
    for _ in 0..args.rounds {
        rounds.push(rounds::measure(bench, &load, &progress).await?);
    }
    progress.begin("latency");
    let latency = rounds::latency(bench, &load).await?;
    let flatness = match full {
        Some(full) => Some(flat::measure(bench, &load, full, &progress).await?),
        None => None,
    };
    progress.clear();
    Ok(Report::new(bench.name(), args, &rounds, latency, flatness))
}

fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1_000) => Ok(count),
        _ => Err("must be a number from 1 to 1000".to_owned()),
    }
}

fn parse_bytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes @ 2..=1_000_000) => Ok(bytes),
        _ => Err("must be a number from 2 to 1000000".to_owned()),
    }
}
