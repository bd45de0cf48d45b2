//! Leases of tickets: a worker holds tickets for a while, until it has decided them. Also removes old decisions.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use posthaste::StoreError;

use super::{DueExpiry, RedisExpiry, ScoredTicket, sort_due};
use crate::keys::Shard;
use crate::shard_calls::successful;
use crate::store::shares;

/// Decisions of each kind that one call forgets per shard. More would block the server.
const MAX_PRUNED: usize = 500;

/// Reply of a shard: tickets, and the milliseconds until the next one is due.
type TicketClaimReply = (Vec<ScoredTicket>, Option<u64>);

/// Tickets that a worker has leased.
#[derive(Debug, Default)]
pub(super) struct ClaimedTickets {
    pub(super) due: Vec<DueExpiry>,
    /// Whether there may be more due tickets.
    pub(super) is_full: bool,
    /// Time until the next ticket is due; `None` if there is none.
    pub(super) next_due: Option<Duration>,
}

impl RedisExpiry {
    /// Leases tickets that are due and not leased, oldest first.
    pub(super) async fn claim(&self, limit: usize, lease: Duration) -> Result<ClaimedTickets, StoreError> {
        let shards = self.store().responding_shards_in_turn();
        let claims =
            shares(&shards, limit).into_iter().map(|(shard, share)| self.claim_in(shard, share, lease));
        let (mut claimed, mut scored) = (ClaimedTickets::default(), Vec::new());
        for (share, (found, next_due)) in successful(join_all(claims).await)? {
            claimed.is_full |= found.len() == share;
            claimed.next_due = claimed.next_due.into_iter().chain(next_due.map(Duration::from_millis)).min();
            scored.extend(found);
        }
        claimed.due = sort_due(scored);
        Ok(claimed)
    }

    /// Leases tickets of one shard; returns the limit with the reply.
    async fn claim_in(
        &self,
        shard: &Shard,
        limit: usize,
        lease: Duration,
    ) -> Result<(usize, TicketClaimReply), StoreError> {
        let call = self.scripts.claim.on(shard, self.now).arg((limit, millis(lease)));
        Ok((limit, call.run(self.store().connections()).await?))
    }

    /// Forgets a number of decisions that are older than the retention. Returns how many, and whether there may be
    /// more.
    pub(super) async fn prune(&self) -> Result<(u64, bool), StoreError> {
        let prune = |shard| async move {
            let call = self.scripts.prune.on(shard, self.now).arg((millis(self.retention), MAX_PRUNED));
            call.run::<u64>(self.store().connections()).await
        };
        let pruned = try_join_all(self.store().keys().shards().iter().map(prune)).await?;
        Ok((pruned.iter().sum(), pruned.iter().any(|&count| count >= MAX_PRUNED as u64)))
    }
}

/// A duration in milliseconds, at most 100 years: scores are doubles, exact up to 2^53.
fn millis(duration: Duration) -> u64 {
    crate::store::micros(duration).div_ceil(1000)
}
