//! Drains the same backlog through Posthaste, oxide-outbox and pgmq, alternately, on the same server.

mod database;
mod outbox_postgres;
mod pgmq;
mod posthaste;

use std::time::Duration;

use clap::Parser;

use database::Database;

/// Compare how fast Posthaste and two other projects drain a backlog from PostgreSQL
///
/// It creates a database and drops it at the end.
#[derive(Parser)]
struct Args {
    /// URL of the server; the user must be able to create databases
    #[arg(long = "store", value_name = "URL", env = "POSTHASTE_TEST_POSTGRES_URL", hide_env_values = true)]
    url: String,
    /// Events in the backlog
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    events: u32,
    /// Events per claim, the same for all
    #[arg(long, value_name = "N", default_value_t = 500)]
    batch: u32,
    /// Size of each payload
    #[arg(long, value_name = "BYTES", default_value_t = 200)]
    payload_bytes: usize,
    /// Number of rounds; medians are printed
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
}

/// The backlog, the same for all.
#[derive(Clone)]
struct Load {
    events: u32,
    batch: u32,
    /// A JSON text.
    payload: String,
}

/// When the commits of a relay reach the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Commits {
    /// As the server is configured: before COMMIT returns.
    AsTheyCome,
    /// Shortly after COMMIT, as those of Posthaste.
    Asynchronous,
}

/// The contestants, and what each does with a delivered row.
const MEASUREMENT_NAMES: [&str; 6] = [
    "posthaste, rows kept",
    "posthaste, rows deleted",
    "outbox-postgres, rows kept",
    "  with asynchronous commits",
    "pgmq, rows deleted",
    "  with asynchronous commits",
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let payload = format!("\"{}\"", "x".repeat(args.payload_bytes.saturating_sub(2)));
    let load = Load { events: args.events, batch: args.batch, payload };
    let database = Database::create(&args.url).await?;
    let measured = rounds(&database, &load, args.rounds).await;
    database.drop().await?;
    print(&measured?, &load);
    Ok(())
}

/// Events per second: one list per round, one figure per name.
async fn rounds(database: &Database, load: &Load, rounds: usize) -> anyhow::Result<Vec<[f64; 6]>> {
    outbox_postgres::install(database).await?;
    pgmq::install(database).await?;
    let rate = |took: Duration| f64::from(load.events) / took.as_secs_f64();
    let mut measured = Vec::new();
    for round in 0..rounds {
        measured.push([
            rate(posthaste::drain(database, load, posthaste::Rows::Kept).await?),
            rate(posthaste::drain(database, load, posthaste::Rows::Deleted).await?),
            rate(outbox_postgres::drain(database, load, Commits::AsTheyCome).await?),
            rate(outbox_postgres::drain(database, load, Commits::Asynchronous).await?),
            rate(pgmq::drain(database, load, Commits::AsTheyCome).await?),
            rate(pgmq::drain(database, load, Commits::Asynchronous).await?),
        ]);
        eprintln!("round {} of {rounds}", round + 1);
    }
    Ok(measured)
}

fn print(rounds: &[[f64; 6]], load: &Load) {
    println!(
        "{} events of {} bytes, {} per claim, medians of {} rounds",
        load.events,
        load.payload.len(),
        load.batch,
        rounds.len()
    );
    println!("{:<30} {:>10}  posthaste is faster by (lowest to highest round)", "", "events/s");
    for (at, name) in MEASUREMENT_NAMES.iter().enumerate() {
        // Compared with the Posthaste variant that does the same with its rows.
        let ours = if at < 4 { 0 } else { 1 };
        let (rate, _, _) = spread(rounds.iter().map(|round| round[at]));
        let (times, lowest, highest) = spread(rounds.iter().map(|round| round[ours] / round[at]));
        match at {
            0 | 1 => println!("{name:<30} {rate:>10.0}"),
            _ => println!("{name:<30} {rate:>10.0}  {times:.2} ({lowest:.2} to {highest:.2})"),
        }
    }
}

/// Median, lowest and highest.
fn spread(figures: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let last = figures.len().saturating_sub(1);
    let at = |index: usize| figures.get(index).copied().unwrap_or_default();
    ((at(last / 2) + at(last.div_ceil(2))) / 2.0, at(0), at(last))
}
