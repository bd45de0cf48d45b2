//! Claims while another session holds an old snapshot: the database then keeps every version of every row that was
//! delivered since.

use posthaste::store::{OnDone, Verdict};
use serde::Serialize;

use super::bench_store::{BenchStore, BenchTables};
use super::progress::Progress;
use super::table_size::{HandDrivenTable, backlog};
use super::workload::Load;
use posthaste_measurements::{Histogram, Quantiles};

/// Events per claim.
const CLAIM_EVENTS: u64 = 100;

/// Results of draining the same backlog twice.
#[derive(Debug, Serialize)]
pub(super) struct HeldSnapshot {
    pub(super) rows: u64,
    pub(super) without: Option<Quantiles>,
    pub(super) with: Option<Quantiles>,
    /// The last fifth, when most old versions exist.
    pub(super) with_last_fifth: Option<Quantiles>,
}

/// Returns `None` if the store has no snapshots.
pub(super) async fn measure<B: BenchStore>(
    bench: &B,
    load: &Load,
    rows: u64,
    progress: &Progress,
) -> anyhow::Result<Option<HeldSnapshot>> {
    let rows = (rows / CLAIM_EVENTS).max(1) * CLAIM_EVENTS;
    let (without, _) = drain(bench, load, rows, progress).await?;
    let mut table = backlog(bench, load, rows, progress).await?;
    let Some(snapshot) = bench.hold_snapshot().await? else { return Ok(None) };
    progress.begin("drain with a snapshot held");
    let (with, last) = claims(&mut table, rows).await?;
    drop(snapshot);
    Ok(Some(HeldSnapshot { rows, without, with, with_last_fifth: last }))
}

type ClaimQuantiles = (Option<Quantiles>, Option<Quantiles>);

async fn drain<B: BenchStore>(
    bench: &B,
    load: &Load,
    rows: u64,
    progress: &Progress,
) -> anyhow::Result<ClaimQuantiles> {
    let mut table = backlog(bench, load, rows, progress).await?;
    progress.begin("drain without a snapshot");
    claims(&mut table, rows).await
}

/// Latencies of the claims: all of them, and those of the last fifth.
async fn claims<T: BenchTables>(table: &mut HandDrivenTable<T>, rows: u64) -> anyhow::Result<ClaimQuantiles> {
    let (mut all, mut last) = (Histogram::default(), Histogram::default());
    for number in 0..rows / CLAIM_EVENTS {
        let (claim, _) = table.claim_and_settle(CLAIM_EVENTS, &Verdict::Done, OnDone::Keep).await?;
        all.add(claim);
        if number >= rows / CLAIM_EVENTS * 4 / 5 {
            last.add(claim);
        }
    }
    Ok((all.quantiles(), last.quantiles()))
}
