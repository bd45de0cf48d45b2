//! [`Store`](crate::Store) of the memory store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::row::{Hold, MemoryRow};
use super::table::Table;
use crate::error::StoreError;
use crate::row::Status;
use crate::store::{
    Backoff, Claim, ClaimOrder, Claimed, Lease, Leased, Malformed, Notifier, OnDone, Park, Purge, Purgeable,
    Release, Renew, SUSPECT_LOST_LEASES, Settle, Settled, Settlement, Store, Unpark, Verdict,
};
use crate::time::Timestamp;

#[async_trait]
impl Store for MemoryStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let now = claim.now.unwrap_or_else(|| self.now());
        let mut table = self.table();
        let mut claimed =
            Claimed { paused: table.paused.clone(), parked: parked(&table), ..Claimed::default() };
        let due = find_claimable(&table, claim, now);
        let fitting = fitting(&table, claim.max_bytes, &due);
        claimed.cut = fitting < due.len();
        for &seq in &due[..fitting] {
            match table.change(seq, |row| take(row, claim, now)) {
                Some(Taken::Event(leased)) => claimed.events.push(leased),
                Some(Taken::Malformed(malformed)) => claimed.malformed.push(malformed),
                None => {}
            }
        }
        Ok(claimed)
    }

    async fn settle(&self, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        let now = settle.now.unwrap_or_else(|| self.now());
        let mut table = self.table();
        let settled = settle.settlements.iter().map(|settlement| {
            let settled = table.update_leased(&settlement.lease, |row| {
                apply_if_allowed(row, settle, settlement, now).map(|settled| (row.seq, settled))
            });
            let Some((seq, settled)) = settled else { return Settled::Stale };
            if settled == Settled::Done && settle.on_done != OnDone::Keep {
                table.remove(seq, settle.on_done == OnDone::Archive);
            }
            settled
        });
        Ok(settled.collect())
    }

    async fn renew(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        let end = renew.now.unwrap_or_else(|| self.now()) + renew.lease;
        let mut table = self.table();
        let held = renew.leases.iter().filter_map(|lease| {
            table.update_leased(lease, |row| {
                let held = row.is_held_by(renew.owner, lease.token);
                row.hold.as_mut().filter(|_| held).map(|hold| {
                    hold.until = end;
                    row.lost_leases = row.lost_leases.saturating_add(renew.start.into());
                    lease.clone()
                })
            })
        });
        Ok(held.collect())
    }

    async fn release(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        let now = release.now.unwrap_or_else(|| self.now());
        let mut table = self.table();
        let released = release.leases.iter().filter_map(|lease| {
            table.update_leased(lease, |row| {
                row.is_held_by(release.owner, lease.token).then(|| row.let_go(now))
            })
        });
        Ok(released.count() as u64)
    }

    async fn park(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        let due = park.now.unwrap_or_else(|| self.now()) + park.duration;
        let route: Arc<str> = park.route.into();
        let mut table = self.table();
        let parked = park.leases.iter().filter_map(|lease| {
            table.update_leased(lease, |row| {
                row.is_held_by(park.owner, lease.token).then(|| {
                    row.let_go(due);
                    row.put_off = None;
                    row.parked = Some(Arc::clone(&route));
                })
            })
        });
        Ok(parked.count() as u64)
    }

    async fn unpark(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        let now = unpark.now.unwrap_or_else(|| self.now());
        let count = {
            let mut table = self.table();
            let seqs: Vec<i64> = match table.index.parked.get(unpark.route) {
                Some(parked) => parked.iter().copied().take(unpark.limit).collect(),
                None => Vec::new(),
            };
            let unparked = seqs.into_iter().filter_map(|seq| {
                table.change(seq, |row| {
                    row.let_go(now);
                    row.put_off = None;
                })
            });
            unparked.count() as u64
        };
        if count > 0 {
            self.0.wake.notify();
        }
        Ok(count)
    }

    async fn purge_batch(&self, purge: &Purge) -> Result<u64, StoreError> {
        let now = purge.now.unwrap_or_else(|| self.now());
        Ok(purge_rows(&mut self.table(), purge, now))
    }

    async fn oldest_pending(&self, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        let now = now.unwrap_or_else(|| self.now());
        Ok(oldest_pending(&self.table(), now))
    }

    fn wake(&self) -> Option<Notifier> {
        Some(self.0.wake.clone())
    }
}

/// The age of the first pending row, by insertion, whose first delay is over.
pub(super) fn oldest_pending(table: &Table, now: Timestamp) -> Option<Duration> {
    let mut pending = table.index.pending.iter().filter_map(|seq| table.rows.get(seq));
    pending.find(|row| row.first_due <= now).map(|row| now.since(row.inserted_at))
}

pub(super) fn purge_rows(table: &mut Table, purge: &Purge, now: Timestamp) -> u64 {
    let before = now - purge.older_than;
    if purge.what == Purgeable::Archived {
        return table.forget_archived(before, purge.limit);
    }
    let seqs: Vec<i64> = match purge.what {
        Purgeable::Done => {
            table.index.done.range(..=(before, i64::MAX)).take(purge.limit).map(|&(_, seq)| seq).collect()
        }
        Purgeable::Dead => {
            table.index.dead.range(..=(before, i64::MAX)).take(purge.limit).map(|&(_, seq)| seq).collect()
        }
        Purgeable::Any | Purgeable::Archived => {
            let old = table.rows.values().filter(|row| row.inserted_at <= before);
            old.take(purge.limit).map(|row| row.seq).collect()
        }
    };
    for &seq in &seqs {
        table.remove(seq, purge.archive);
    }
    seqs.len() as u64
}

/// Due rows in the order of the claim. In the order of due times no other row is read. In the order of insertion, rows
/// that are not due are skipped, and the first leased row ends the search.
fn find_claimable(table: &Table, claim: &Claim<'_>, now: Timestamp) -> Vec<i64> {
    let is_settled_in = |seq: &i64| {
        let old_enough = |row: &MemoryRow| now.since(row.inserted_at) >= claim.skip_recent;
        claim.skip_recent.is_zero() || table.rows.get(seq).is_some_and(old_enough)
    };
    match claim.order {
        ClaimOrder::Due => {
            let due = table.index.claimable.range(..=(now, i64::MAX)).map(|&(_, seq)| seq);
            due.filter(is_settled_in).take(claim.limit).collect()
        }
        ClaimOrder::Seq => {
            let due = |row: &&MemoryRow| row.available_at <= now;
            let pending = table.index.pending.iter().filter_map(|seq| table.rows.get(seq));
            let free = pending.take_while(|row| !row.is_leased(now));
            free.filter(due).map(|row| row.seq).filter(is_settled_in).take(claim.limit).collect()
        }
    }
}

/// How many of these rows fit, in their order; always at least one.
fn fitting(table: &Table, max_bytes: usize, seqs: &[i64]) -> usize {
    let sums = seqs.iter().filter_map(|seq| table.rows.get(seq)).scan(0, |sum: &mut usize, row| {
        *sum = sum.saturating_add(row.event.size());
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= max_bytes).count().max(1).min(seqs.len())
}

fn parked(table: &Table) -> BTreeSet<String> {
    table.index.parked.keys().take(Claimed::MAX_PARKED_NAMES).map(ToString::to_string).collect()
}

enum Taken {
    Event(Leased),
    Malformed(Malformed),
}

/// Leases one due row. If another owner still holds it, that owner died. If this owner holds it, the reply to an
/// earlier claim was lost.
fn take(row: &mut MemoryRow, claim: &Claim<'_>, now: Timestamp) -> Taken {
    if row.hold.as_ref().is_some_and(|hold| hold.owner != *claim.owner) {
        row.lost_leases = (row.lost_leases + 1).min(SUSPECT_LOST_LEASES).max(row.lost_leases);
    }
    row.parked = None;
    let (owner, until) = (claim.owner.clone(), now + claim.lease);
    row.hold = Some(Hold { owner, token: claim.token, since: now, until });
    match row.defect() {
        Some(reason) => Taken::Malformed(Malformed::new(row.lease(claim.token), reason)),
        None => Taken::Event(row.leased(claim.token, now)),
    }
}

/// Applies an outcome if its lease is held. "Delivered" is a fact and applies under any lease while the row is pending.
fn apply_if_allowed(
    row: &mut MemoryRow,
    settle: &Settle<'_>,
    settlement: &Settlement,
    now: Timestamp,
) -> Option<Settled> {
    let held = row.is_held_by(settle.owner, settlement.lease.token);
    let delivered = settlement.verdict == Verdict::Done && row.is_pending();
    if !held && !delivered {
        return None;
    }
    row.progress.extend(settlement.delivered.iter().cloned());
    if !matches!(settlement.verdict, Verdict::Unreachable { give_up_after: Some(_), .. }) {
        row.put_off = None;
    }
    let settled = apply(row, &settlement.verdict, now);
    if row.is_pending() {
        row.lost_leases = match settlement.verdict {
            Verdict::Unreachable { .. } if row.lost_leases > SUSPECT_LOST_LEASES => row.lost_leases - 1,
            Verdict::Unreachable { .. } => row.lost_leases,
            _ => 0,
        };
    }
    Some(settled)
}

fn apply(row: &mut MemoryRow, verdict: &Verdict, now: Timestamp) -> Settled {
    match verdict {
        Verdict::Done => {
            row.finish(Status::Done, None, now);
            Settled::Done
        }
        Verdict::Failed { error, backoff } => fail(row, error, backoff, now),
        Verdict::Deferred { delay } => {
            row.let_go(now + *delay);
            row.status = Status::New.code().into();
            row.deferrals = row.deferrals.saturating_add(1);
            Settled::Waiting { delay: *delay }
        }
        Verdict::Dead { reason } => {
            row.finish(Status::Dead, Some(reason.clone()), now);
            Settled::Dead { attempts: row.attempts() }
        }
        Verdict::Unreachable { error, give_up_after: Some(limit), .. } if !row.put_off(*limit, now) => {
            row.finish(Status::Dead, Some(error.clone()), now);
            Settled::Dead { attempts: row.attempts() }
        }
        Verdict::Unreachable { error, delay, park, .. } => {
            row.let_go(now + *delay);
            row.parked = park.as_deref().map(Into::into);
            row.last_error = Some(error.clone());
            Settled::Waiting { delay: *delay }
        }
    }
}

fn fail(row: &mut MemoryRow, error: &str, backoff: &Backoff, now: Timestamp) -> Settled {
    let attempts = row.attempts().saturating_add(1);
    row.attempts = attempts.into();
    match backoff.after(attempts) {
        Some(delay) => {
            row.let_go(now + delay);
            row.status = Status::Retry.code().into();
            row.last_error = Some(error.to_owned());
            Settled::Retry { attempts, delay }
        }
        None => {
            row.finish(Status::Dead, Some(error.to_owned()), now);
            Settled::Dead { attempts }
        }
    }
}
