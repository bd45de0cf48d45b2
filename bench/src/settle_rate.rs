//! Rows settled per second on one connection: 1,000 per statement, or one by one by hand.

use posthaste::store::{OnDone, Verdict};
use serde::Serialize;

use super::bench_store::BenchStore;
use super::statistics::per_second;
use super::statistics::{Ratio, median};
use super::table_size::HandDrivenTable;
use super::workload::Load;

/// Rows per statement, and number of samples of each kind.
const STATEMENT_ROWS: u64 = 1_000;
const SAMPLE_COUNT: usize = 15;

/// Rows per sample that are settled one by one.
const ONE_BY_ONE_ROWS: u64 = 100;

/// Medians, in rows per second.
#[derive(Debug, Serialize)]
pub(super) struct SettleRates {
    pub(super) kept: f64,
    pub(super) deleted: f64,
    /// By hand, with an UPDATE and a COMMIT for each row; `None` if the store has no baseline.
    pub(super) one_by_one: Option<f64>,
    pub(super) kept_to_one_by_one: Option<Ratio>,
}

pub(super) async fn measure<B: BenchStore>(bench: &B, load: &Load) -> anyhow::Result<SettleRates> {
    let mut kept = (HandDrivenTable::new(bench.fresh().await?, load)?, Vec::new());
    let mut deleted = (HandDrivenTable::new(bench.create().await?, load)?, Vec::new());
    let mut one_by_one = Vec::new();
    for _ in 0..SAMPLE_COUNT {
        for ((table, rates), on_done) in [(&mut kept, OnDone::Keep), (&mut deleted, OnDone::Delete)] {
            let (_, settle) = table.turn_over(STATEMENT_ROWS, &Verdict::Done, on_done).await?;
            rates.push(per_second(STATEMENT_ROWS, settle));
        }
        let took = kept.0.settle_by_hand(ONE_BY_ONE_ROWS).await?;
        one_by_one.extend(took.map(|took| per_second(ONE_BY_ONE_ROWS, took)));
    }
    // Each pair of samples was taken in immediate succession.
    let ratios = kept.1.iter().zip(&one_by_one).map(|(kept, one_by_one)| kept / one_by_one);
    let kept_to_one_by_one = Ratio::of(ratios);
    Ok(SettleRates {
        kept: median(kept.1).round(),
        deleted: median(deleted.1).round(),
        one_by_one: (!one_by_one.is_empty()).then(|| median(one_by_one).round()),
        kept_to_one_by_one,
    })
}
