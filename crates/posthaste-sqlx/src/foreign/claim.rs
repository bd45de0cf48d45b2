//! Claims: take the oldest due rows of a foreign table and lease them in memory.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste::store::{Claim, Claimed, Lease};
use posthaste::{EventId, StoreError};
use tokio::time::Instant;

use super::ForeignTableStore;
use super::byte_budget::ByteBudget;
use super::row_key::{ReadRow, RowKey, RowsRead};

/// How many times one claim reads the table, at most. A row that ends after its key was read and before the row itself
/// is read leaves a gap in the batch, and the engine regards a batch that is not full as the last one. So the claim
/// reads again.
const MAX_PASSES: usize = 3;

/// The result of one read of the table.
enum ClaimPass {
    /// This many rows were chosen, and these still exist.
    Read { chosen: usize, read: RowsRead },
    /// So many rows wait in memory for their time that there is no room for more.
    Full,
    /// Another process holds the lock.
    StandingBy,
}

impl ForeignTableStore {
    /// Claims events. Returns none while another process holds the lock.
    pub(super) async fn claim_rows(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let (mut rows, mut budget, mut cut) = (Vec::new(), ByteBudget::new(claim.max_bytes), false);
        for _ in 0..MAX_PASSES {
            match self.claim_pass(claim, claim.limit - rows.len(), budget).await {
                Ok(ClaimPass::Read { read, chosen }) => {
                    budget = budget.after(&read);
                    let is_all = read.rows.len() == chosen;
                    rows.extend(read.rows);
                    cut = !read.left.is_empty();
                    self.leave(claim, read.left);
                    if is_all || cut {
                        break;
                    }
                }
                Ok(ClaimPass::Full) => break,
                Ok(ClaimPass::StandingBy) => {
                    self.lock_lost();
                    return Ok(Claimed::default());
                }
                Err(error) => {
                    self.leases().release_all(claim.token, Instant::now());
                    return Err(error);
                }
            }
        }
        let mut claimed = self.take(claim, rows);
        claimed.cut = cut;
        Ok(claimed)
    }

    /// Leases and reads up to `limit` of the oldest due rows.
    async fn claim_pass(
        &self,
        claim: &Claim<'_>,
        limit: usize,
        budget: ByteBudget,
    ) -> Result<ClaimPass, StoreError> {
        let now = Instant::now();
        let waiting = {
            let mut leases = self.leases();
            leases.prune(now);
            leases.waiting(now)
        };
        if self.is_full(waiting) || limit == 0 {
            return Ok(ClaimPass::Full);
        }
        let chosen = AtomicUsize::new(0);
        let choose = |newly: bool, keys: Vec<RowKey>| {
            let mut leases = self.leases();
            if newly {
                leases.forget_leases(now);
            }
            // The rows are leased before any other call can choose them: for a short time two engines of one process
            // may share this store.
            let free = leases.free(keys, limit, now);
            free.iter().for_each(|key| leases.lease(key.clone(), claim.token, now + claim.lease));
            chosen.store(free.len(), Ordering::Relaxed);
            free
        };
        let Some(read) = self.table().claim(claim, limit + waiting, budget, &choose).await? else {
            return Ok(ClaimPass::StandingBy);
        };
        self.log_leadership(true);
        Ok(ClaimPass::Read { chosen: chosen.into_inner(), read })
    }

    /// Makes rows that did not fit due again.
    fn leave(&self, claim: &Claim<'_>, keys: Vec<RowKey>) {
        let lease = |key: RowKey| Lease::new(key.id, 0, claim.token);
        let leases: Vec<Lease> = keys.into_iter().map(lease).collect();
        self.leases().release(&leases, Instant::now());
    }

    /// Combines the rows that were read with what is remembered of them. Forgets rows that no longer exist.
    fn take(&self, claim: &Claim<'_>, rows: Vec<(RowKey, ReadRow)>) -> Claimed {
        let mut leases = self.leases();
        let mut claimed = Claimed::default();
        claimed.parked = leases.parked();
        let found: HashSet<EventId> = rows.iter().map(|(key, _)| key.id.clone()).collect();
        leases.forget_but(claim.token, &found);
        for (key, found) in rows {
            let history = leases.history(&key.id);
            match found {
                Ok(mut leased) => {
                    leased.attempts = leased.attempts.max(history.attempts);
                    leased.deferrals = history.deferrals;
                    leased.progress = history.progress;
                    claimed.events.push(leased);
                }
                Err(malformed) => claimed.malformed.push(malformed),
            }
        }
        claimed
    }
}
