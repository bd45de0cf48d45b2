//! How workers share the tickets: each holds those that it is about to decide, for a while.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use posthaste::StoreError;

use super::{DueExpiry, RedisExpiry, ScoredTicket, sort_due};
use crate::keys::Shard;
use crate::store::{clock, shares};

/// How many decisions of each kind one call forgets in a shard: more would keep others waiting.
const MAX_PRUNED: usize = 500;

/// What a shard answers: tickets, and in how many milliseconds the next one is due.
type TicketClaimReply = (Vec<ScoredTicket>, Option<u64>);

/// Tickets that a worker holds.
#[derive(Debug, Default)]
pub(super) struct ClaimedTickets {
    pub(super) due: Vec<DueExpiry>,
    /// Whether there may be more.
    pub(super) is_full: bool,
    /// How long until another ticket is due.
    pub(super) next_due: Option<Duration>,
}

impl RedisExpiry {
    /// Leases tickets whose time has come and that nobody holds, oldest first.
    pub(super) async fn claim(&self, limit: usize, lease: Duration) -> Result<ClaimedTickets, StoreError> {
        let shards = self.store().responding_shards_in_turn();
        let asked = shares(&shards, limit);
        let answers = join_all(asked.iter().map(|(shard, share)| self.claim_in(shard, *share, lease))).await;
        let (mut claimed, mut scored, mut failure) = (ClaimedTickets::default(), Vec::new(), None);
        for ((_, share), answer) in asked.iter().zip(answers) {
            match answer {
                Ok((found, next_due)) => {
                    claimed.is_full |= *share > 0 && found.len() == *share;
                    claimed.next_due =
                        claimed.next_due.into_iter().chain(next_due.map(Duration::from_millis)).min();
                    scored.extend(found);
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if scored.is_empty() => return Err(error),
            // What the others leased would wait for its lease to end.
            Some(error) => tracing::warn!(%error, "a shard has not answered; expiring the others' tickets"),
            None => {}
        }
        claimed.due = sort_due(scored);
        Ok(claimed)
    }

    async fn claim_in(
        &self,
        shard: &Shard,
        limit: usize,
        lease: Duration,
    ) -> Result<TicketClaimReply, StoreError> {
        let call = self.store().scripts().expiry_claim.on(shard).arg(clock(self.now));
        call.arg(limit).arg(millis(lease)).run(self.store().connections()).await
    }

    /// Forgets decisions that are older than the retention, some at a time; answers how many, and whether
    /// there may be more.
    pub(super) async fn prune(&self) -> Result<(u64, bool), StoreError> {
        let prune = |shard| async move {
            let call = self.store().scripts().expiry_prune.on(shard).arg(clock(self.now));
            call.arg(millis(self.retention)).arg(MAX_PRUNED).run::<u64>(self.store().connections()).await
        };
        let pruned = try_join_all(self.store().keys().shards().iter().map(prune)).await?;
        Ok((pruned.iter().sum(), pruned.iter().any(|&count| count >= MAX_PRUNED as u64)))
    }
}

/// A duration in milliseconds, cut to a hundred years: scores are exact up to 2^53.
fn millis(duration: Duration) -> u64 {
    crate::store::micros(duration).div_ceil(1000)
}
