//! Claims and settlements on a small and on a large table. The large one is full of rows that a claim must skip: DONE
//! rows, and retries that are not yet due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::store::{Backoff, Claim, OnDone, Owner, Purge, Purgeable, Settle, Settlement, Verdict};
use posthaste::{Outbox, Routes, Store};
use serde::Serialize;

use super::bench_store::{BenchStore, BenchTables, BenchWriter, TableFill};
use super::progress::Progress;
use super::statistics::rounded;
use super::workload::Load;
use posthaste_measurements::{Histogram, Quantiles};

/// Rows of the small table.
const SMALL_TABLE_ROWS: u64 = 1_000;

/// Events per claim and settlement, and number of samples.
const BATCH_EVENTS: u64 = 100;
const SAMPLE_COUNT: u64 = 200;

/// Rows per statement while the table is filled.
const FILL_BATCH_ROWS: u64 = 1_000;

/// Long enough that no retry becomes due.
pub(super) const FAR_FUTURE: Duration = Duration::from_secs(24 * 3600);

/// The same measurement on both tables.
#[derive(Debug, Serialize)]
pub(super) struct TableSizeComparison {
    /// Events per call.
    pub(super) batch: u64,
    pub(super) few: TableSample,
    pub(super) many: TableSample,
    /// Latency of the large table divided by that of the small one.
    pub(super) claim_p50_many_to_few: Option<f64>,
    pub(super) settle_p50_many_to_few: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct TableSample {
    pub(super) done_rows: u64,
    pub(super) future_rows: u64,
    pub(super) claim_us: Option<Quantiles>,
    pub(super) settle_us: Option<Quantiles>,
}

pub(super) async fn measure<B: BenchStore>(
    bench: &B,
    load: &Load,
    full: TableFill,
    progress: &Progress,
) -> anyhow::Result<TableSizeComparison> {
    let mut few = HandDrivenTable::new(bench.fresh().await?, load)?;
    let mut many = HandDrivenTable::new(bench.create().await?, load)?;
    few.fill(TableFill { done_rows: SMALL_TABLE_ROWS, ..TableFill::default() }, progress).await?;
    many.fill(full, progress).await?;
    progress.begin("claim and settle");
    // Alternately, so that background load affects both equally.
    for _ in 0..SAMPLE_COUNT {
        few.sample().await?;
        many.sample().await?;
    }
    let (few, many) = (few.result(), many.result());
    Ok(TableSizeComparison {
        batch: BATCH_EVENTS,
        claim_p50_many_to_few: p50_ratio(many.claim_us, few.claim_us),
        settle_p50_many_to_few: p50_ratio(many.settle_us, few.settle_us),
        few,
        many,
    })
}

fn p50_ratio(many: Option<Quantiles>, few: Option<Quantiles>) -> Option<f64> {
    Some(rounded(many?.p50 as f64 / few?.p50.max(1) as f64, 3))
}

/// One outbox table whose store is called directly, without an engine.
pub(super) struct HandDrivenTable<T: BenchTables> {
    tables: T,
    store: Arc<dyn Store>,
    writer: T::Writer,
    load: Load,
    owner: Owner,
    done_rows: u64,
    future_rows: u64,
    claims: Histogram,
    settles: Histogram,
}

/// A new table with this many pending events.
pub(super) async fn backlog<B: BenchStore>(
    bench: &B,
    load: &Load,
    events: u64,
    progress: &Progress,
) -> anyhow::Result<HandDrivenTable<B::Tables>> {
    let mut table = HandDrivenTable::new(bench.fresh().await?, load)?;
    table.fill(TableFill::pending(events), progress).await?;
    Ok(table)
}

impl<T: BenchTables> HandDrivenTable<T> {
    pub(super) fn new(tables: T, load: &Load) -> anyhow::Result<Self> {
        let store = tables.store();
        // The rows are written without a lease, as by a service without an engine.
        let outbox = Outbox::builder(Arc::clone(&store), Routes::new()).writer_only().build()?;
        Ok(Self {
            writer: tables.writer(&outbox),
            tables,
            store,
            load: load.clone(),
            owner: Owner::random("bench"),
            done_rows: 0,
            future_rows: 0,
            claims: Histogram::default(),
            settles: Histogram::default(),
        })
    }

    /// Fills the table by bulk statements if the store has them. Otherwise rows are written, claimed and settled.
    pub(super) async fn fill(&mut self, full: TableFill, progress: &Progress) -> anyhow::Result<()> {
        progress.filled(0, 0);
        if self.tables.fill(full, &self.load).await? {
            self.done_rows += full.done_rows;
            self.future_rows += full.future_rows;
            return Ok(());
        }
        while self.done_rows < full.done_rows {
            let rows = FILL_BATCH_ROWS.min(full.done_rows - self.done_rows);
            self.turn_over(rows, &Verdict::Done, OnDone::Keep).await?;
            progress.filled(self.done_rows, rows);
        }
        let backoff = Backoff::new(10, [FAR_FUTURE]);
        let failed = Verdict::Failed { error: "not today".to_owned(), backoff };
        while self.future_rows < full.future_rows {
            let rows = FILL_BATCH_ROWS.min(full.future_rows - self.future_rows);
            self.turn_over(rows, &failed, OnDone::Keep).await?;
            progress.filled(self.future_rows, rows);
        }
        let mut left = full.pending_rows;
        while left > 0 {
            let rows = FILL_BATCH_ROWS.min(left);
            self.writer.events(self.load.events(rows)?).await?;
            left -= rows;
        }
        Ok(())
    }

    /// Takes one sample and leaves the table as full as before.
    async fn sample(&mut self) -> anyhow::Result<()> {
        let (claim, settle) = self.turn_over(BATCH_EVENTS, &Verdict::Done, OnDone::Keep).await?;
        self.claims.add(claim);
        self.settles.add(settle);
        let purge = Purge::new(Purgeable::Done, Duration::ZERO, usize::try_from(BATCH_EVENTS)?);
        self.done_rows -= self.store.purge_batch(&purge).await?;
        Ok(())
    }

    fn result(&self) -> TableSample {
        TableSample {
            done_rows: self.done_rows,
            future_rows: self.future_rows,
            claim_us: self.claims.quantiles(),
            settle_us: self.settles.quantiles(),
        }
    }

    /// Writes, claims and settles events. Returns how long the claim and the settlement took.
    pub(super) async fn turn_over(
        &mut self,
        rows: u64,
        verdict: &Verdict,
        on_done: OnDone,
    ) -> anyhow::Result<(Duration, Duration)> {
        self.writer.events(self.load.events(rows)?).await?;
        let took = self.claim_and_settle(rows, verdict, on_done).await?;
        match (verdict, on_done) {
            (Verdict::Done, OnDone::Keep) => self.done_rows += rows,
            (Verdict::Done, _) => {}
            _ => self.future_rows += rows,
        }
        Ok(took)
    }

    /// Writes events and settles them by hand, one by one. Returns how long the settling took.
    pub(super) async fn settle_by_hand(&mut self, rows: u64) -> anyhow::Result<Option<Duration>> {
        let took = self.tables.settle_one_by_one(rows, &self.load).await?;
        self.done_rows += if took.is_some() { rows } else { 0 };
        Ok(took)
    }

    /// Returns how long the claim and the settlement took.
    pub(super) async fn claim_and_settle(
        &self,
        rows: u64,
        verdict: &Verdict,
        on_done: OnDone,
    ) -> anyhow::Result<(Duration, Duration)> {
        let started = Instant::now();
        let settlements = self.claim(rows, verdict).await?;
        let claim = started.elapsed();
        let started = Instant::now();
        self.settle(&settlements, on_done).await?;
        Ok((claim, started.elapsed()))
    }

    pub(super) async fn settle(&self, settlements: &[Settlement], on_done: OnDone) -> anyhow::Result<()> {
        let settle = Settle::new(&self.owner, settlements).with_on_done(on_done);
        let settled = self.store.settle(&settle).await?;
        let (settled, all) = (settled.len(), settlements.len());
        anyhow::ensure!(settled == all, "{settled} of {all} events were settled");
        Ok(())
    }

    pub(super) async fn claim(&self, rows: u64, verdict: &Verdict) -> anyhow::Result<Vec<Settlement>> {
        let claim = Claim::new(&self.owner, FAR_FUTURE, usize::try_from(rows)?);
        let claimed = self.store.claim(&claim).await?;
        let found = claimed.events.len() as u64;
        anyhow::ensure!(found == rows, "{found} of {rows} events were claimed");
        let settle = |lease| Settlement::new(lease, verdict.clone());
        Ok(claimed.events.into_iter().map(|leased| settle(leased.lease)).collect())
    }
}
