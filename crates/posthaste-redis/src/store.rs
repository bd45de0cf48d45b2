//! The store API of the engine (`Store`) on Redis: settle, renew, release, park, purge. `claim.rs` has the claim.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use posthaste::store::{
    Claim, Claimed, Lease, Notifier, OnDone, Park, Purge, Purgeable, Release, Renew, SUSPECT_LOST_LEASES,
    Settle, Settled, Settlement, Store, Unpark, Verdict,
};
use posthaste::{StoreError, Timestamp};

use crate::RedisStore;
use crate::error::{is_call_without_reply, unexpected};
use crate::field_escape::escape;
use crate::keys::{Shard, StreamId};
use crate::scripts::ScriptCall;
use crate::shard_calls::successful;

#[async_trait]
impl Store for RedisStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.claim_due(claim).await
    }

    async fn settle(&self, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        // A shard that backs off is skipped: its rows stay `Unknown`, and the outcomes of other shards are not delayed.
        let mut settled = vec![Settled::Unknown; settle.settlements.len()];
        let responding: Vec<u16> = self.responding_shards().iter().map(|shard| shard.number).collect();
        let rows = settle.settlements.iter().map(|settlement| self.keys().of_seq(settlement.lease.seq));
        let shards = self.keys().group(rows);
        let shards = shards.iter().filter(|(shard, _)| responding.contains(&shard.number));
        let results = shards.map(|(shard, places)| self.settle_in(shard, settle, places));
        let mut failure = None;
        // All shards are awaited, even if one fails: each has written its outcomes.
        for result in join_all(results).await {
            match result {
                Ok(rows) => rows.into_iter().for_each(|(place, outcome)| settled[place] = outcome),
                Err(error) if is_call_without_reply(&error) && self.is_any_shard_responding() => {}
                Err(error) => failure = Some(error),
            }
        }
        self.count_dead(settled.iter().filter(|settled| matches!(settled, Settled::Dead { .. })).count());
        failure.map_or(Ok(settled), Err)
    }

    async fn renew(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        let what = if renew.start { "start" } else { "renew" };
        let request = LeaseChange { owner: renew.owner.as_str(), what, wait: renew.lease, route: "" };
        let held = self.change_leases(&request, renew.leases, renew.now).await?;
        Ok(held.into_iter().cloned().collect())
    }

    async fn release(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        let request =
            LeaseChange { owner: release.owner.as_str(), what: "release", wait: Duration::ZERO, route: "" };
        Ok(self.change_leases(&request, release.leases, release.now).await?.len() as u64)
    }

    async fn park(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        let request =
            LeaseChange { owner: park.owner.as_str(), what: "park", wait: park.duration, route: park.route };
        Ok(self.change_leases(&request, park.leases, park.now).await?.len() as u64)
    }

    async fn unpark(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        let (mut count, mut results) = (0, Vec::new());
        for shard in self.responding_shards() {
            let limit = (unpark.limit as u64).saturating_sub(count);
            let call = self.scripts().unpark.on(shard, unpark.now).arg((escape(unpark.route), limit));
            let result = self.call_shard::<u64>(shard, &call).await;
            count += result.as_ref().unwrap_or(&0);
            results.push(result);
        }
        if count > 0 {
            self.notify_due();
        }
        // Rows of a failed shard may stay parked. When the shard replies again, its parked routes are read again.
        successful(results).map(|_| count)
    }

    async fn purge_batch(&self, purge: &Purge) -> Result<u64, StoreError> {
        self.purge_for(purge, "").await
    }

    async fn oldest_pending(&self, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        let age_in = |shard| async move {
            let call = self.scripts().oldest_due_age.on(shard, now);
            call.run::<Option<u64>>(self.connections()).await
        };
        let ages = try_join_all(self.keys().shards().iter().map(age_in)).await?;
        Ok(ages.into_iter().flatten().max().map(Duration::from_micros))
    }

    fn wake(&self) -> Option<Notifier> {
        Some(self.listen())
    }
}

impl RedisStore {
    /// Settles the rows of one shard; returns the index of each in the request, and its outcome.
    async fn settle_in(
        &self,
        shard: &Shard,
        settle: &Settle<'_>,
        places: &[usize],
    ) -> Result<Vec<(usize, Settled)>, StoreError> {
        let on_done = match settle.on_done {
            OnDone::Keep => "keep",
            OnDone::Delete => "delete",
            OnDone::Archive => "archive",
        };
        let (delivered, others): (Vec<usize>, Vec<usize>) =
            places.iter().partition(|&&place| is_simply_delivered(&settle.settlements[place]));
        let call = self.scripts().settle.on(shard, settle.now);
        let owner = escape(settle.owner.as_str());
        let mut call = call.arg((owner, on_done, SUSPECT_LOST_LEASES, delivered.len()));
        for &place in &delivered {
            let lease = &settle.settlements[place].lease;
            call.push((lease.id.as_str(), StreamId::of_seq(lease.seq).sort_key()));
        }
        others.iter().for_each(|&place| self.push_settlement(&mut call, &settle.settlements[place]));
        let (done, rest): (Vec<bool>, Vec<String>) = self.call_shard(shard, &call).await?;
        if done.len() != delivered.len() || rest.len() != others.len() {
            return Err(unexpected("settle"));
        }
        let done = done.into_iter().map(|done| if done { Settled::Done } else { Settled::Stale });
        let rest: Option<Vec<Settled>> = rest.iter().map(|text| read_settled(text)).collect();
        let outcomes = done.chain(rest.ok_or_else(|| unexpected("settle"))?);
        Ok(delivered.into_iter().chain(others).zip(outcomes).collect())
    }

    /// Adds the arguments of a row that was not simply delivered. `settle.lua` documents them.
    fn push_settlement(&self, call: &mut ScriptCall<'_>, settlement: &Settlement) {
        let delivered: Vec<_> = settlement.delivered.iter().map(|name| escape(name)).collect();
        self.push_lease(call, &settlement.lease);
        let mut push = |verdict: &str, text: &str, number: u64, list: &str, limit: Option<Duration>| {
            let limit = limit.map(|limit| micros(limit).to_string()).unwrap_or_default();
            call.push((verdict, delivered.join(","), text, number, list, limit));
        };
        match &settlement.verdict {
            Verdict::Done => push("done", "", 0, "", None),
            Verdict::Failed { error, backoff } => {
                let delays: Vec<String> =
                    backoff.delays.iter().map(|&delay| micros(delay).to_string()).collect();
                push("failed", error, backoff.max_attempts.into(), &delays.join(","), None);
            }
            Verdict::Deferred { delay } => push("deferred", "", micros(*delay), "", None),
            Verdict::Dead { reason } => push("dead", reason, 0, "", None),
            Verdict::Unreachable { error, delay, park, give_up_after } => {
                let park = escape(park.as_deref().unwrap_or_default());
                push("unreachable", error, micros(*delay), &park, *give_up_after);
            }
        }
    }

    fn push_lease(&self, call: &mut ScriptCall<'_>, lease: &Lease) {
        call.push((lease.id.as_str(), StreamId::of_seq(lease.seq).sort_key(), lease.token.as_i64()));
    }

    /// Renews, starts, releases or parks; returns the leases that are known to be held. Leases of a failed shard are
    /// not returned, so the engine starts none of their events.
    async fn change_leases<'l>(
        &self,
        request: &LeaseChange<'_>,
        leases: &'l [Lease],
        now: Option<Timestamp>,
    ) -> Result<Vec<&'l Lease>, StoreError> {
        let shards = self.keys().group(leases.iter().map(|lease| self.keys().of_seq(lease.seq)));
        let results = join_all(shards.into_iter().map(|(shard, places)| {
            let leases = places.into_iter().map(|place| &leases[place]).collect();
            self.change_leases_in(shard, request, leases, now)
        }));
        Ok(successful(results.await)?.into_iter().flatten().collect())
    }

    async fn change_leases_in<'l>(
        &self,
        shard: &Shard,
        request: &LeaseChange<'_>,
        leases: Vec<&'l Lease>,
        now: Option<Timestamp>,
    ) -> Result<Vec<&'l Lease>, StoreError> {
        let call = self.scripts().lease.on(shard, now);
        let (owner, route) = (escape(request.owner), escape(request.route));
        let mut call = call.arg((owner, request.what, micros(request.wait), route));
        leases.iter().for_each(|lease| self.push_lease(&mut call, lease));
        let numbers: Vec<usize> = self.call_shard(shard, &call).await?;
        // The script counts from 1.
        let lease = |number: usize| leases.get(number.checked_sub(1)?).copied();
        let held: Option<Vec<_>> = numbers.into_iter().map(lease).collect();
        held.ok_or_else(|| unexpected("a call about leases"))
    }

    /// Purges old rows. `actor`: the operator for the audit; empty if an engine purges.
    pub(crate) async fn purge_for(&self, purge: &Purge, actor: &str) -> Result<u64, StoreError> {
        let what = match purge.what {
            Purgeable::Done => "done",
            Purgeable::Dead => "dead",
            Purgeable::Any => "any",
            Purgeable::Archived => "archived",
        };
        // Larger calls would block the server for too long.
        const PURGE_BATCH_ROWS: u64 = 1000;
        let (target, limit) = (purge.to_string(), purge.limit as u64);
        let mut count = 0;
        for shard in self.keys().shards() {
            let mut after = String::new();
            loop {
                let rows = (limit - count).min(PURGE_BATCH_ROWS);
                let call = self.scripts().purge.on(shard, purge.now);
                let call = call.arg((what, micros(purge.older_than), purge.archive, rows));
                let call = call.arg((self.audited_inside(actor), &target, &after));
                let (gone, next, is_cut): (u64, String, bool) = call.run(self.connections()).await?;
                count += gone;
                if count >= limit || next.is_empty() && !is_cut {
                    break;
                }
                if !is_cut {
                    after = next;
                }
            }
        }
        self.record_audit(actor, "purge", &target, count).await?;
        Ok(count)
    }
}

/// Whether two arguments, id and place, describe the outcome. This is the case for most rows.
fn is_simply_delivered(settlement: &Settlement) -> bool {
    settlement.verdict == Verdict::Done && settlement.delivered.is_empty()
}

/// Arguments of `lease.lua`.
struct LeaseChange<'a> {
    owner: &'a str,
    /// `renew`, `start`, `release` or `park`.
    what: &'static str,
    /// The new lease, or how long to park.
    wait: Duration,
    /// The route to park for; otherwise empty.
    route: &'a str,
}

/// Divides a limit equally among shards; shards without a share are left out.
pub(crate) fn shares<'k>(shards: &[&'k Shard], limit: usize) -> Vec<(&'k Shard, usize)> {
    let (each, rest) = (limit / shards.len(), limit % shards.len());
    let share = |(place, shard): (usize, &&'k Shard)| (*shard, each + usize::from(place < rest));
    shards.iter().enumerate().map(share).filter(|(_, share)| *share > 0).collect()
}

/// A duration in microseconds, at most 100 years: scores are doubles, exact up to 2^53.
pub(crate) fn micros(duration: Duration) -> u64 {
    const MAX_MICROS: u64 = 100 * 365 * 24 * 3600 * 1_000_000;
    u64::try_from(duration.as_micros()).unwrap_or(MAX_MICROS).min(MAX_MICROS)
}

/// Parses the outcome of a row as `settle.lua` returns it.
fn read_settled(text: &str) -> Option<Settled> {
    let mut words = text.split(' ');
    let name = words.next()?;
    let mut number = || words.next()?.parse::<u64>().ok();
    Some(match name {
        "stale" => Settled::Stale,
        "done" => Settled::Done,
        "retry" => {
            let attempts = u32::try_from(number()?).ok()?;
            Settled::Retry { attempts, delay: Duration::from_micros(number()?) }
        }
        "wait" => Settled::Waiting { delay: Duration::from_micros(number()?) },
        "dead" => Settled::Dead { attempts: u32::try_from(number()?).unwrap_or(u32::MAX) },
        _ => return None,
    })
}
