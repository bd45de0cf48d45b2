//! Cost of a call, independent of the events in it: claims and settlements of 1, 100 and 1,000 events per call, one
//! call after the other.

use std::time::Duration;

use posthaste::store::{OnDone, Verdict};
use serde::Serialize;

use super::bench_store::BenchStore;
use super::progress::Progress;
use super::statistics::per_second;
use super::statistics::{Ratio, median};
use super::table_size::backlog;
use super::workload::Load;

/// Events per call, and number of events measured.
const ONE_PER_CALL: (u64, u64) = (1, 300);
const HUNDRED_PER_CALL: (u64, u64) = (100, 5_000);
const THOUSAND_PER_CALL: (u64, u64) = (1_000, 10_000);

/// Events per second in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallSizeRound {
    kept: RatesBySize,
    deleted: RatesBySize,
}

#[derive(Clone, Copy, Debug)]
struct RatesBySize {
    one: f64,
    hundred: f64,
    thousand: f64,
}

/// Events claimed and settled per second: medians, and ratios within each round.
#[derive(Debug, Serialize)]
pub(super) struct CallSizeRates {
    pub(super) kept: SizeRates,
    pub(super) deleted: SizeRates,
}

#[derive(Debug, Serialize)]
pub(super) struct SizeRates {
    pub(super) one: f64,
    pub(super) hundred: f64,
    pub(super) thousand: f64,
    pub(super) hundred_to_one: Option<Ratio>,
}

pub(super) async fn measure<B: BenchStore>(
    bench: &B,
    load: &Load,
    progress: &Progress,
) -> anyhow::Result<CallSizeRound> {
    progress.begin("claim and settle, kept");
    let kept = by_size(bench, load, OnDone::Keep, progress).await?;
    progress.begin("claim and settle, deleted");
    let deleted = by_size(bench, load, OnDone::Delete, progress).await?;
    Ok(CallSizeRound { kept, deleted })
}

async fn by_size<B: BenchStore>(
    bench: &B,
    load: &Load,
    on_done: OnDone,
    progress: &Progress,
) -> anyhow::Result<RatesBySize> {
    Ok(RatesBySize {
        one: rate(bench, load, ONE_PER_CALL, on_done, progress).await?,
        hundred: rate(bench, load, HUNDRED_PER_CALL, on_done, progress).await?,
        thousand: rate(bench, load, THOUSAND_PER_CALL, on_done, progress).await?,
    })
}

/// The backlog has only the events of this measurement: a claim may do work for later events, which another call size
/// would pay for.
async fn rate<B: BenchStore>(
    bench: &B,
    load: &Load,
    (size, events): (u64, u64),
    on_done: OnDone,
    progress: &Progress,
) -> anyhow::Result<f64> {
    let table = backlog(bench, load, events, progress).await?;
    let mut took = Duration::ZERO;
    for _ in 0..events / size {
        let (claim, settle) = table.claim_and_settle(size, &Verdict::Done, on_done).await?;
        took += claim + settle;
    }
    Ok(per_second(events, took))
}

impl CallSizeRates {
    pub(super) fn of(rounds: impl Iterator<Item = CallSizeRound>) -> Self {
        let (kept, deleted): (Vec<RatesBySize>, Vec<RatesBySize>) =
            rounds.map(|call_size| (call_size.kept, call_size.deleted)).unzip();
        Self { kept: SizeRates::of(&kept), deleted: SizeRates::of(&deleted) }
    }
}

impl SizeRates {
    fn of(rounds: &[RatesBySize]) -> Self {
        let rate = |figure: &dyn Fn(&RatesBySize) -> f64| median(rounds.iter().map(figure).collect()).round();
        Self {
            one: rate(&|sizes| sizes.one),
            hundred: rate(&|sizes| sizes.hundred),
            thousand: rate(&|sizes| sizes.thousand),
            hundred_to_one: Ratio::of(rounds.iter().map(|sizes| sizes.hundred / sizes.one)),
        }
    }
}
