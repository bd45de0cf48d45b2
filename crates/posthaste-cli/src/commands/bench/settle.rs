//! How many rows per second one connection settles, a thousand per statement.

use posthaste::store::{OnDone, Verdict};
use serde::Serialize;

use super::flat::Table;
use super::load::Load;
use super::ratio::median;
use super::target::BenchStore;

/// Rows per statement, and how many statements are measured of each kind.
const ROWS: u64 = 1_000;
const SAMPLES: usize = 15;

/// Rows per second, medians.
#[derive(Debug, Serialize)]
pub(super) struct SettleRates {
    pub(super) kept: f64,
    pub(super) deleted: f64,
}

pub(super) async fn measure<B: BenchStore>(bench: &B, load: &Load) -> anyhow::Result<SettleRates> {
    bench.clear().await?;
    let mut kept = (Table::new(bench.create().await?, load)?, Vec::new());
    let mut deleted = (Table::new(bench.create().await?, load)?, Vec::new());
    for _ in 0..SAMPLES {
        for ((table, rates), on_done) in [(&mut kept, OnDone::Keep), (&mut deleted, OnDone::Delete)] {
            let (_, settle) = table.turn_over(ROWS, &Verdict::Done, on_done).await?;
            rates.push(ROWS as f64 / settle.as_secs_f64().max(1e-9));
        }
    }
    Ok(SettleRates { kept: median(kept.1).round(), deleted: median(deleted.1).round() })
}
