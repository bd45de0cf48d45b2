//! Diagnosis: findings about the rows and the servers. Reads a bounded number of rows.

mod server;

use std::collections::{BTreeSet, HashMap};

use posthaste::admin::{
    Admin as _, Filter, Finding, LostLeases, PageRequest, ParkedRoute, PausedRoute, RowObservations, Stats,
    Tolerance,
};
use posthaste::{EventRow, Status, StoreError, Timestamp};

use crate::RedisStore;
use crate::page::{Direction, PAGE_ROWS, ScanBudget};

/// Audit entries searched at most for the pauses of the paused routes.
const MAX_AUDIT_ENTRIES: usize = 10_000;

impl RedisStore {
    pub(crate) async fn read_findings(&self, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        let stats = self.stats().await?;
        let mut findings = self.observe_rows(&stats).await?.findings(&stats, tolerance);
        findings.extend(self.compare_clocks(tolerance).await);
        findings.extend(self.diagnose_servers(tolerance).await);
        Ok(findings)
    }

    async fn observe_rows(&self, stats: &Stats) -> Result<RowObservations, StoreError> {
        let newest = self.page(&Filter::default(), None, PAGE_ROWS, Direction::NewestFirst).await?;
        let mut seen = PendingRows::default();
        let (mut after, mut budget) = (None, ScanBudget::at_most(RowObservations::MAX_OLDEST_ROWS));
        loop {
            let pending = Filter::status(Status::New);
            let page = self.page(&pending, after, PAGE_ROWS, Direction::OldestFirst).await?;
            budget.add(&page);
            page.rows.iter().for_each(|row| seen.add(row));
            match page.next {
                Some(next) if !budget.is_over() => after = Some(next),
                _ => break,
            }
        }
        let mut observed = RowObservations::default();
        observed.now = self.clock().await?;
        observed.unreadable = seen.unreadable;
        observed.lost_leases = seen.lost_leases;
        observed.parked = seen.parked.into_values().collect();
        observed.paused = self.read_pauses(&stats.paused).await?;
        observed.written = newest.rows.iter().map(|row| (row.created_at, row.inserted_at)).collect();
        Ok(observed)
    }

    /// Adds to each paused route since when and by whom it is paused, which only the audit knows.
    async fn read_pauses(&self, routes: &BTreeSet<String>) -> Result<Vec<PausedRoute>, StoreError> {
        let (mut entries, mut page) = (Vec::new(), PageRequest::first(PageRequest::MAX_LIMIT));
        while !routes.is_empty() && entries.len() < MAX_AUDIT_ENTRIES {
            let read = self.audit(&page).await?;
            entries.extend(read.items);
            let Some(next) = read.next else { break };
            page = PageRequest::after(next, PageRequest::MAX_LIMIT);
        }
        Ok(PausedRoute::from_audit(routes, &entries))
    }

    async fn compare_clocks(&self, tolerance: &Tolerance) -> Option<Finding> {
        let before = Timestamp::now();
        let store = self.clock().await.ok()?;
        Finding::clock_skew(before, store, Timestamp::now(), tolerance)
    }
}

/// Observations about the oldest pending rows.
#[derive(Default)]
struct PendingRows {
    unreadable: u64,
    lost_leases: LostLeases,
    parked: HashMap<String, ParkedRoute>,
}

impl PendingRows {
    fn add(&mut self, row: &EventRow) {
        self.unreadable += u64::from(row.malformed.is_some());
        self.lost_leases.add(row.id.as_str(), row.lost_leases);
        if let Some(route) = &row.parked {
            let parked = self.parked.entry(route.clone()).or_default();
            parked.route.clone_from(route);
            parked.waiting += 1;
            parked.see(row.inserted_at, row.last_error.as_deref());
        }
    }
}
