//! `posthaste bench`: how fast a store is on this machine.
//!
//! The command line has this crate as an optional dependency. Other benchmarks are `examples/engine.rs` (the engine
//! alone), `examples/writers` (each driver's Writer against a hand-written INSERT) and `peers/` (other crates, in a
//! workspace of its own). `cargo xtask bench` runs them.

mod batch_size;
mod bench_store;
mod cross_process;
mod drain_with_snapshot;
mod foreign;
mod foreign_preset;
mod instrumented_engine;
mod memory_bench;
mod mysql;
mod postgres;
mod process_memory;
mod progress;
mod publish;
mod redis;
mod relay;
mod report_format;
mod settle_rate;
mod soak;
mod sql;
mod sqlite;
mod statistics;
mod store_report;
mod store_report_text;
mod store_round;
mod table_size;
mod workload;

use std::fmt;

use posthaste_stores::{InvalidStore, SecretUrl, StoreUrl};
use serde::Serialize;

use bench_store::{BenchStore, TableFill};
use foreign::report::ForeignReport;
use foreign_preset::ForeignPreset;
use memory_bench::MemoryBench;
use mysql::MySqlBench;
use postgres::PostgresBench;
use progress::Progress;
use publish::report::PublishReport;
use redis::RedisBench;
use relay::report::RelayReport;
use sqlite::SqliteBench;
use store_report::{SingleMeasurements, StoreReport};
use workload::Load;

type NumberParser = clap::builder::RangedU64ValueParser<usize>;

/// Measure how fast a store writes and delivers on this machine
///
/// The benchmark creates its own tables and drops them at the end. On PostgreSQL they are in a schema of their own, so
/// the user needs the right to create one; on MySQL and MariaDB they are in the database of the URL. On Redis they are
/// keys that begin with {posthaste_bench_. A SQLite file is switched to WAL, as by every store. Each round measures all
/// variants one after the other; rates are medians.
///
/// JSON: {"store", "events", "rounds", "writers", "workers", "payload_bytes", "business_tx_per_s", "outbox_tx_per_s",
/// "writer_only_tx_per_s", "hand_written_tx_per_s", "outbox_to_business" and other ratios: {"median", "lowest",
/// "highest"}, "writer_only_to_business", "outbox_to_hand_written", "few_together_events_per_s",
/// "few_singly_events_per_s", "few_together_to_singly", "live_single_events_per_s", "live_single_to_business",
/// "live_single_lag_events", "live_batch_events_per_s", "backlog_events_per_s", "write_and_drain_events_per_s",
/// "claim_and_settle_events_per_s": {"kept" and "deleted": {"one", "hundred", "thousand": by events per call,
/// "hundred_to_one"}}, "by_hand": null or {"proved_tx_per_s", "proved_to_hand_written" and "outbox_to_proved": null if
/// the store needs no proof, "drain_events_per_s", "backlog_to_drain", "one_by_one_events_per_s",
/// "backlog_to_one_by_one", "notify_tx_per_s", "without_notify_tx_per_s" and "notify_to_without_notify": null if
/// notifications cannot be turned on and off}, "settle_rows_per_s": {"kept", "deleted", "one_by_one" and
/// "kept_to_one_by_one": null or by hand}, "latency_us": {"p50", "p99", "count"}, "between_processes_us": null or the
/// same and "late", "settle_batch_mean": {"live_single", "live_batch", "backlog"}, "peak_memory_bytes": number or null,
/// "flatness": null or {"batch", "few" and "many": {"done_rows", "future_rows", "claim_us", "settle_us"},
/// "claim_p50_many_to_few", "settle_p50_many_to_few"}, "snapshot": null or {"rows", "without", "with",
/// "with_last_fifth"}, "steady": null or {"seconds", "events", "lag", "first_memory_bytes", "last_memory_bytes",
/// "first_claim_us", "last_claim_us"}}
///
/// With --publish it measures publishing to a broker instead, compared with the broker's client library alone and with
/// a destination that does nothing. The topic, stream or queue of the URL must exist; the messages stay in it.
///
/// JSON with --publish: {"store", "publish", "events", "rounds", "workers", "payload_bytes", "bare_events_per_s",
/// "nothing_events_per_s", "relay_events_per_s", "relay_to_bare", "relay_to_one_after_the_other", "memory_bytes":
/// {"early", "late"}}
///
/// With --relay it measures the cost of a separate process instead: `posthaste relay` writes events to a file, compared
/// with an engine with the same settings in this process. --writers and --workers have no effect.
///
/// JSON with --relay: {"store", "events", "rounds", "payload_bytes", "binary_bytes", "start_to_first_delivery_ms":
/// {"median", "lowest", "highest"}, "idle": {"seconds", "memory_bytes" and "cpu_percent": null if the system does not
/// report it, or the same three}, "library_events_per_s", "relay_events_per_s", "relay_to_library": the same three}
///
/// With --layout it measures how fast a table of that preset is drained instead, compared with Posthaste's own table.
///
/// JSON with --layout: {"store", "layout", "events", "rounds", "workers", "payload_bytes", "own_events_per_s",
/// "layout_events_per_s", "layout_to_own": {"median", "lowest", "highest"}}
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    /// The store: postgres://…, mysql://…, redis://…, memory: or sqlite:PATH; a missing file is created and removed
    // Not from the environment: a forgotten option must not put load on a production store.
    #[arg(long, value_name = "URL")]
    store: SecretUrl,
    /// Measure publishing to kafka://…, amqp://…, nats://…, redis-stream://…, http://… or file:///…
    #[arg(long, value_name = "URL")]
    publish: Option<SecretUrl>,
    /// Measure the cost of a relay as a separate process; not on memory:
    #[arg(long, conflicts_with = "publish")]
    relay: bool,
    /// How long an idle relay is observed
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "relay", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    idle: u64,
    /// Measure a table of order-service, outbox-record or debezium; on PostgreSQL, MySQL and MariaDB
    #[arg(long, value_enum, value_name = "PRESET", conflicts_with_all = ["publish", "relay"])]
    layout: Option<ForeignPreset>,
    /// Events per measurement and round
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=2_000_000))]
    events: u64,
    /// Concurrent transactions [default: 4; 16 on a server]
    #[arg(long, value_name = "N", value_parser = NumberParser::new().range(1..=1_000))]
    writers: Option<usize>,
    /// Concurrent deliveries
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = NumberParser::new().range(1..=1_000))]
    workers: usize,
    /// Size of each payload
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = NumberParser::new().range(2..=1_000_000))]
    payload_bytes: usize,
    /// Number of rounds; the medians are reported
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    rounds: u64,
    /// Also measure claim and settle with N DONE rows in the table
    #[arg(long, value_name = "N")]
    done_rows: Option<u64>,
    /// Also measure claim and settle with N retries in the table that are not yet due
    #[arg(long, value_name = "N")]
    future_rows: Option<u64>,
    /// Also drain N events while another session holds a snapshot; on a server
    #[arg(long, value_name = "N")]
    snapshot_rows: Option<u64>,
    /// Also write and deliver 2,000 events per second for this long
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(5..=86_400))]
    steady: Option<u64>,
}

impl BenchArgs {
    fn table_fill(&self) -> Option<TableFill> {
        let is_requested = self.done_rows.is_some() || self.future_rows.is_some();
        is_requested.then(|| TableFill {
            done_rows: self.done_rows.unwrap_or_default(),
            future_rows: self.future_rows.unwrap_or_default(),
            pending_rows: 0,
        })
    }

    fn writers(&self) -> usize {
        let on_server = matches!(
            self.store.expose().parse(),
            Ok(StoreUrl::Postgres(_) | StoreUrl::MySql(_) | StoreUrl::Redis(_))
        );
        self.writers.unwrap_or(if on_server { 16 } else { 4 })
    }

    fn load(&self) -> Load {
        Load::new(self.events, self.writers(), self.workers, self.payload_bytes)
    }
}

/// Results: JSON by `Serialize`, a table of 80 columns by `Display`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct BenchReport(ReportKind);

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ReportKind {
    Store(Box<StoreReport>),
    Publish(PublishReport),
    Relay(RelayReport),
    Foreign(ForeignReport),
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match &self.0 {
            ReportKind::Store(report) => report.text(),
            ReportKind::Publish(report) => report.text(),
            ReportKind::Relay(report) => report.text(),
            ReportKind::Foreign(report) => report.text(),
        })
    }
}

/// Runs the benchmark. With `is_watched` a progress bar is drawn on stderr.
///
/// # Errors
///
/// The store or the destination cannot be used, or an event was not delivered.
pub async fn run(args: BenchArgs, is_watched: bool) -> anyhow::Result<BenchReport> {
    match args.store.expose().parse()? {
        StoreUrl::Postgres(options) => {
            bench(&PostgresBench::open(*options, args.writers()).await?, &args, is_watched).await
        }
        StoreUrl::MySql(options) => {
            bench(&MySqlBench::open(*options, args.writers()).await?, &args, is_watched).await
        }
        StoreUrl::Redis(builder) => {
            bench(&RedisBench::open(*builder, args.store.expose()).await?, &args, is_watched).await
        }
        StoreUrl::Memory => bench(&MemoryBench, &args, is_watched).await,
        StoreUrl::Sqlite(options) => {
            bench(&SqliteBench::open(*options, args.writers()).await?, &args, is_watched).await
        }
        // A Redis Cluster.
        _ => {
            let text = "the benchmark measures one Redis server and no cluster: start one, and name it as \
                        redis://host:port/0";
            Err(InvalidStore::new(text).into())
        }
    }
}

/// Cleans up, also after an error or Ctrl-C.
async fn bench<B: BenchStore>(bench: &B, args: &BenchArgs, is_watched: bool) -> anyhow::Result<BenchReport> {
    let measured = tokio::select! {
        measured = measure_kind(bench, args, is_watched) => measured,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted: nothing was measured")),
    };
    bench.close().await?;
    measured.map(BenchReport)
}

async fn measure_kind<B: BenchStore>(
    bench: &B,
    args: &BenchArgs,
    is_watched: bool,
) -> anyhow::Result<ReportKind> {
    if let Some(url) = &args.publish {
        return publish::measure(bench, args, url, is_watched).await.map(ReportKind::Publish);
    }
    if args.relay {
        return relay::measure(bench, args, is_watched).await.map(ReportKind::Relay);
    }
    if let Some(preset) = args.layout {
        return foreign::measure(bench, args, preset, is_watched).await.map(ReportKind::Foreign);
    }
    measure(bench, args, is_watched).await.map(|report| ReportKind::Store(Box::new(report)))
}

async fn measure<B: BenchStore>(
    bench: &B,
    args: &BenchArgs,
    is_watched: bool,
) -> anyhow::Result<StoreReport> {
    let load = args.load();
    let rows = args.table_fill().map_or(0, |full| full.done_rows + full.future_rows);
    let progress = Progress::new(is_watched, args.rounds * store_round::STEPS_PER_ROUND + 8, rows);
    let mut rounds = Vec::new();
    for _ in 0..args.rounds {
        rounds.push(store_round::measure(bench, &load, &progress).await?);
    }
    let single = measure_once(bench, args, &load, &progress).await?;
    progress.clear();
    Ok(StoreReport::new(bench.name(), args, &rounds, single))
}

async fn measure_once<B: BenchStore>(
    bench: &B,
    args: &BenchArgs,
    load: &Load,
    progress: &Progress,
) -> anyhow::Result<SingleMeasurements> {
    progress.begin("settling");
    let settle_rows_per_s = settle_rate::measure(bench, load).await?;
    progress.begin("latency");
    let latency_us = store_round::latency(bench, load).await?;
    progress.begin("latency between processes");
    let between_processes_us = bench.cross_process_latency(load).await?;
    let flatness = match args.table_fill() {
        Some(full) => Some(table_size::measure(bench, load, full, progress).await?),
        None => None,
    };
    let snapshot = match args.snapshot_rows {
        Some(rows) => drain_with_snapshot::measure(bench, load, rows, progress).await?,
        None => None,
    };
    let steady = match args.steady {
        Some(seconds) => Some(soak::measure(bench, load, seconds, progress).await?),
        None => None,
    };
    Ok(SingleMeasurements { settle_rows_per_s, latency_us, between_processes_us, flatness, snapshot, steady })
}
