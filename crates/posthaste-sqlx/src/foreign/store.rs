//! The store of a foreign table, as the engine uses it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::store::{
    Backoff, Claim, ClaimOrder, Claimed, Lease, Notifier, Park, Purge, Release, Renew, Settle, Settled,
    Settlement, Store, Unpark, Verdict,
};
use posthaste::{EventId, StoreError, Timestamp};
use tokio::time::Instant;

use super::Layout;
use super::foreign_table::ForeignTable;
use super::leases::Leases;
use super::row_key::{FailedAttempt, RowKey};
use super::server::Caller;

/// Delay before the next attempt of an event that can neither be delivered nor given up.
const UNDELIVERABLE_RETRY_DELAY: Duration = Duration::from_secs(300);

/// A foreign outbox table, relayed as it is. Cheap to clone.
///
/// One process at a time delivers from it: the one that holds the lock of the table. Other processes claim nothing. One
/// of them takes over when the first one ends or loses its connection; events that were in delivery then are delivered
/// again.
#[derive(Clone, Debug)]
pub struct ForeignTableStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    table: ForeignTable,
    /// The memory of the delivering process. Locked for short computations only, never across an await.
    leases: Mutex<Leases>,
    /// Whether this process held the lock at the last claim; `None` before the first one. Used to log changes.
    leads: Mutex<Option<bool>>,
    /// Whether the last claim was refused because too many rows wait in memory. Used to log when that begins.
    is_full: AtomicBool,
    /// Whether the engine may purge.
    purges: bool,
}

impl ForeignTableStore {
    pub(super) fn new(table: ForeignTable, purges: bool) -> Self {
        let (leases, leads, is_full) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        Self(Arc::new(Inner { table, leases, leads, is_full, purges }))
    }

    /// The layout with which the store was opened.
    pub fn layout(&self) -> &Layout {
        &self.table().resolved().layout
    }

    /// Closes the store's connections and releases the lock. Calls after it fail.
    pub async fn close(&self) {
        self.0.table.close().await;
    }

    pub(super) fn table(&self) -> &ForeignTable {
        &self.0.table
    }

    pub(super) fn leases(&self) -> MutexGuard<'_, Leases> {
        self.0.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn unsupported(&self, operation: &'static str) -> StoreError {
        self.table().resolved().unsupported(operation)
    }

    /// Logs when this process begins to deliver or to stand by.
    pub(super) fn log_leadership(&self, leads: bool) {
        let mut before = self.0.leads.lock().unwrap_or_else(PoisonError::into_inner);
        if before.replace(leads) == Some(leads) {
            return;
        }
        let table = self.layout().table_name();
        match leads {
            true => tracing::info!(%table, "this process delivers from the table: it holds the table lock"),
            false => tracing::info!(%table, "standing by: another process holds the table lock"),
        }
    }

    /// True if no more rows can wait in memory. Logs when that begins, because the outbox then looks as if nothing were
    /// due.
    pub(super) fn is_full(&self, waiting: usize) -> bool {
        let is_full = waiting >= Leases::MAX_WAITING_ROWS;
        let was_full = self.0.is_full.swap(is_full, Ordering::Relaxed);
        if is_full && !was_full {
            let table = self.layout().table_name();
            tracing::warn!(
                %table, waiting,
                "nothing is claimed until some of the waiting events are due, because no more can wait in \
                 memory; fix the destination that they wait for, or remove the events that it will never accept"
            );
        }
        is_full
    }

    /// Ends all leases, because this process has lost the lock and another one may have held it.
    pub(super) fn lock_lost(&self) {
        self.log_leadership(false);
        self.leases().forget_leases(Instant::now());
    }

    /// The key of the row that was claimed with a lease. If this process has lost its memory of that claim, the key is
    /// the id, where the id is the whole key. Such a key matches no row of a table that has a time of writing.
    fn key_of(&self, lease: &Lease) -> Option<RowKey> {
        let known = self.leases().key(lease).cloned();
        let alone = || RowKey { id: lease.id.clone(), parts: vec![lease.id.to_string()], written: None };
        known.or_else(|| (self.layout().key_columns().len() == 1).then(alone))
    }

    /// True if this process holds none of these rows and the settlement would write nothing. The engine sends such a
    /// settlement to find out whether the store works, and memory always does.
    fn knows_nothing_of(&self, settle: &Settle<'_>) -> bool {
        let is_unknown = |settlement: &Settlement| match settlement.verdict {
            Verdict::Done => self.key_of(&settlement.lease).is_none(),
            _ => !self.leases().holds(&settlement.lease),
        };
        settle.settlements.iter().all(is_unknown)
    }

    /// Writes back deliveries. They come first, so that no error of another outcome keeps them from being written.
    async fn settle_delivered(&self, settle: &Settle<'_>, results: &mut [Settled]) -> Result<(), StoreError> {
        let is_done = |settlement: &Settlement| settlement.verdict == Verdict::Done;
        let done = settle.settlements.iter().enumerate().filter(|(_, settlement)| is_done(settlement));
        let (indexes, keys): (Vec<usize>, Vec<RowKey>) =
            done.filter_map(|(index, settlement)| Some((index, self.key_of(&settlement.lease)?))).unzip();
        if keys.is_empty() {
            return Ok(());
        }
        let written = self.table().settle_delivered(&keys, settle.on_done).await?;
        for (index, key) in indexes.into_iter().zip(keys) {
            if written.contains(&key.id) {
                results[index] = Settled::Done;
            }
            self.leases().forget_row(&key);
        }
        Ok(())
    }

    /// Failed attempts whose leases are held, with their indexes in the settlement.
    fn failures<'s>(&self, settle: &'s Settle<'_>) -> Vec<(usize, &'s Lease, &'s str, &'s Backoff)> {
        let leases = self.leases();
        let failures = settle.settlements.iter().enumerate().filter_map(|(index, settlement)| {
            let Verdict::Failed { error, backoff } = &settlement.verdict else { return None };
            leases.holds(&settlement.lease).then_some((index, &settlement.lease, &**error, backoff))
        });
        failures.collect()
    }

    /// Settles failed attempts for a table that counts them.
    async fn settle_counted(&self, settle: &Settle<'_>, results: &mut [Settled]) -> Result<(), StoreError> {
        let failures = self.failures(settle);
        let failed: Vec<FailedAttempt> = failures
            .iter()
            .filter_map(|(_, lease, error, backoff)| {
                let (error, max_attempts) = (self.table().resolved().cut_error(error), backoff.max_attempts);
                Some(FailedAttempt { key: self.key_of(lease)?, error, max_attempts })
            })
            .collect();
        if failed.is_empty() {
            return Ok(());
        }
        let Some(counted) = self.table().count_failures(&failed).await? else {
            self.lock_lost();
            return Ok(());
        };
        let now = Instant::now();
        let mut leases = self.leases();
        for (index, lease, _, backoff) in failures {
            let Some(count) = counted.get(&lease.id) else {
                leases.forget(&lease.id);
                continue;
            };
            let attempts = count.attempts;
            if count.is_dead {
                leases.forget(&lease.id);
                results[index] = Settled::Dead { attempts };
                continue;
            }
            let delay = backoff.after(attempts).unwrap_or_default();
            leases.put_off(lease, now + delay, None);
            results[index] = Settled::Retry { attempts, delay };
        }
        Ok(())
    }

    /// Counts failed attempts in memory, for a table without such a column. Returns the rows to give up, with their
    /// indexes.
    fn count_here(&self, settle: &Settle<'_>, results: &mut [Settled]) -> Vec<(usize, RowKey, String)> {
        let failures = self.failures(settle);
        let (now, mut leases, mut spent) = (Instant::now(), self.leases(), Vec::new());
        for (index, lease, error, backoff) in failures {
            let attempts = leases.attempts(&lease.id).saturating_add(1);
            let delay = match backoff.after(attempts) {
                Some(delay) => delay,
                None if self.layout().can_fail() => {
                    results[index] = Settled::Dead { attempts };
                    spent.extend(leases.key(lease).map(|key| (index, key.clone(), error.to_owned())));
                    continue;
                }
                None => {
                    self.cannot_give_up(&lease.id);
                    backoff.delays.last().copied().unwrap_or_default().max(UNDELIVERABLE_RETRY_DELAY)
                }
            };
            leases.set_attempts(&lease.id, attempts);
            leases.put_off(lease, now + delay, None);
            results[index] = Settled::Retry { attempts, delay };
        }
        spent
    }

    /// Rows to give up because they can never be delivered or were put off for too long. If the layout has no state for
    /// that, they wait instead.
    fn rejected(&self, settle: &Settle<'_>, results: &mut [Settled]) -> Vec<(usize, RowKey, String)> {
        let (now, mut leases) = (Instant::now(), self.leases());
        let mut rejected = Vec::new();
        for (index, settlement) in settle.settlements.iter().enumerate() {
            let lease = &settlement.lease;
            if !leases.holds(lease) {
                continue;
            }
            let reason = match &settlement.verdict {
                Verdict::Dead { reason } => reason,
                Verdict::Unreachable { error, give_up_after: Some(limit), .. }
                    if leases.was_put_off_for(lease, *limit, now) =>
                {
                    error
                }
                _ => continue,
            };
            if self.layout().can_fail() {
                results[index] = Settled::Dead { attempts: leases.attempts(&lease.id) };
                rejected.extend(leases.key(lease).map(|key| (index, key.clone(), reason.clone())));
            } else {
                self.cannot_give_up(&lease.id);
                leases.put_off(lease, now + UNDELIVERABLE_RETRY_DELAY, None);
                results[index] = Settled::Waiting { delay: UNDELIVERABLE_RETRY_DELAY };
            }
        }
        rejected
    }

    /// Leaves out the text of the error, which may quote the payload.
    fn cannot_give_up(&self, id: &EventId) {
        let table = self.layout().table_name();
        tracing::warn!(
            %table, %id,
            "cannot be delivered, and the table has no status for that, so it is retried; fix the \
             destination, or delete the row"
        );
    }

    async fn give_up(
        &self,
        rows: Vec<(usize, RowKey, String)>,
        results: &mut [Settled],
    ) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let resolved = self.table().resolved();
        let dead: Vec<(RowKey, String)> =
            rows.iter().map(|(_, key, error)| (key.clone(), resolved.cut_error(error))).collect();
        let written = self.table().give_up(&dead).await?;
        if written.is_none() {
            self.lock_lost();
        }
        let written = written.unwrap_or_default();
        for (index, key, _) in rows {
            if !written.contains(&key.id) {
                results[index] = Settled::Stale;
            }
            self.leases().forget(&key.id);
        }
        Ok(())
    }

    /// Ends the time for which events were put off, unless they are now put off with a limit again.
    fn end_putting_off(&self, settle: &Settle<'_>) {
        let goes_on =
            |verdict: &Verdict| matches!(verdict, Verdict::Unreachable { give_up_after: Some(_), .. });
        let mut leases = self.leases();
        let ended = settle.settlements.iter().filter(|settlement| !goes_on(&settlement.verdict));
        ended.for_each(|settlement| leases.end_putting_off(&settlement.lease));
    }

    /// Settles the outcomes that are kept in memory only.
    fn settle_waiting(&self, settle: &Settle<'_>, results: &mut [Settled]) {
        let (now, mut leases) = (Instant::now(), self.leases());
        for (settlement, result) in settle.settlements.iter().zip(results) {
            leases.add_progress(&settlement.lease, &settlement.delivered);
            let (delay, park) = match &settlement.verdict {
                Verdict::Deferred { delay } => (*delay, None),
                Verdict::Unreachable { delay, park, .. } => (*delay, park.as_deref()),
                _ => continue,
            };
            if leases.put_off(&settlement.lease, now + delay, park) {
                *result = Settled::Waiting { delay };
                if matches!(settlement.verdict, Verdict::Deferred { .. }) {
                    leases.add_deferral(&settlement.lease.id);
                }
            }
        }
    }
}

#[async_trait]
impl Store for ForeignTableStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        if claim.order == ClaimOrder::Seq {
            return Err(self.unsupported("claim in the order of insertion: its table has no number for that"));
        }
        self.claim_rows(claim).await
    }

    async fn settle(&self, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        let mut results = vec![Settled::Stale; settle.settlements.len()];
        if self.knows_nothing_of(settle) {
            self.table().write_nothing().await?;
        }
        self.settle_delivered(settle, &mut results).await?;
        self.end_putting_off(settle);
        let mut given_up = self.rejected(settle, &mut results);
        match self.layout().counts() {
            true => self.settle_counted(settle, &mut results).await?,
            false => given_up.extend(self.count_here(settle, &mut results)),
        }
        self.give_up(given_up, &mut results).await?;
        self.settle_waiting(settle, &mut results);
        Ok(results)
    }

    /// Ignores whether the attempt has started: attempts in memory end with the process anyway.
    async fn renew(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        if !self.table().leads().await? {
            self.lock_lost();
        }
        Ok(self.leases().renew(renew.leases, Instant::now() + renew.lease))
    }

    async fn release(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        Ok(self.leases().release(release.leases, Instant::now()))
    }

    async fn park(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        let (due, mut leases) = (Instant::now() + park.duration, self.leases());
        let mut parks = |lease: &Lease| {
            leases.end_putting_off(lease);
            leases.put_off(lease, due, Some(park.route))
        };
        Ok(park.leases.iter().filter(|lease| parks(lease)).count() as u64)
    }

    async fn unpark(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        Ok(self.leases().unpark(unpark.route, unpark.limit, Instant::now()))
    }

    /// Purges only if the store was opened with `purge`: every engine has a retention time by default, and the table
    /// belongs to another program.
    async fn purge_batch(&self, purge: &Purge) -> Result<u64, StoreError> {
        if !self.0.purges {
            return Ok(0);
        }
        self.table().purge(Caller::Engine, purge).await
    }

    async fn oldest_pending(&self, _now: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        self.table().oldest(Caller::Engine).await
    }

    /// A foreign table has no notifications.
    fn wake(&self) -> Option<Notifier> {
        None
    }
}
