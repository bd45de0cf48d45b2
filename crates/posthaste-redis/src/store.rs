//! The engine's door.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use posthaste::store::{
    Claim, ClaimOrder, Claimed, Lease, Leased, MAX_LOST_LEASES, Malformed, OnDone, Park, Purge, Purgeable,
    Release, Renew, Settle, Settled, Settlement, Store, Unpark, Verdict, Wake,
};
use posthaste::{EventId, StoreError, Timestamp};
use redis::Value;

use crate::RedisStore;
use crate::body::{self, Extent};
use crate::error::unexpected;
use crate::keys::{Shard, Sid};
use crate::scripts::Call;
use crate::state::State;
use crate::text::escape;

/// What a claim answers: the clock; id, due time, state and body of each row, one after another; the ids that
/// died; how many orphans it met; paused routes; whether there was more than fits into an answer.
type ClaimAnswer = (i64, Vec<Value>, Vec<String>, u64, Vec<String>, bool);

/// How many values a claim answers for each row.
const ROW: usize = 4;

#[async_trait]
impl Store for RedisStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        if claim.order == ClaimOrder::Seq && self.keys().count() > 1 {
            let operation = "claim in the order of insertion from several shards: open it with one shard";
            return Err(StoreError::Unsupported { store: "Redis", operation });
        }
        let mut due = Vec::new();
        let mut claimed = Claimed::default();
        let mut shards = self.in_turn();
        loop {
            let missing = claim.limit.saturating_sub(due.len() + claimed.malformed.len());
            let asked = shares(&shards, missing);
            let answers =
                join_all(asked.iter().map(|(shard, share)| self.claim_in(shard, claim, *share))).await;
            let empty = self.take_answers(claim, &asked, answers, &mut claimed, &mut due)?;
            shards.retain(|shard| !empty.contains(&shard.number));
            if shards.is_empty() || missing == 0 || due.len() + claimed.malformed.len() >= claim.limit {
                break;
            }
        }
        match claim.order {
            ClaimOrder::Due => due.sort_by_key(|(due, leased): &(i64, Leased)| (*due, leased.lease.seq)),
            ClaimOrder::Seq => due.sort_by_key(|(_, leased)| leased.lease.seq),
        }
        claimed.events = due.into_iter().map(|(_, leased)| leased).collect();
        Ok(claimed)
    }

    async fn settle(&self, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        let mut settled = vec![Settled::Stale; settle.settlements.len()];
        let shards = self.by_shard(settle.settlements.iter().map(|settlement| settlement.lease.seq));
        let answers = shards.iter().map(|(shard, places)| self.settle_in(shard, settle, places));
        for (place, answer) in try_join_all(answers).await?.into_iter().flatten() {
            settled[place] = answer;
        }
        self.count_dead(settled.iter().filter(|settled| matches!(settled, Settled::Dead { .. })).count());
        Ok(settled)
    }

    async fn renew(&self, renew: &Renew<'_>) -> Result<Vec<EventId>, StoreError> {
        let request = Held { owner: renew.owner.as_str(), what: "renew", wait: renew.lease, route: "" };
        let held = self.held(&request, renew.leases, renew.now).await?;
        Ok(held.into_iter().map(EventId::from).collect())
    }

    async fn release(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        let request =
            Held { owner: release.owner.as_str(), what: "release", wait: Duration::ZERO, route: "" };
        Ok(self.held(&request, release.leases, release.now).await?.len() as u64)
    }

    async fn park(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        let request =
            Held { owner: park.owner.as_str(), what: "park", wait: park.duration, route: park.route };
        Ok(self.held(&request, park.leases, park.now).await?.len() as u64)
    }

    async fn unpark(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        let mut count = 0;
        for shard in self.keys().shards() {
            let limit = (unpark.limit as u64).saturating_sub(count);
            let call =
                self.scripts().unpark.on(shard).arg(clock(unpark.now)).arg(&*escape(unpark.route)).arg(limit);
            count += call.run::<u64>(self.link()).await?;
        }
        if count > 0 {
            self.ring();
        }
        Ok(count)
    }

    async fn purge(&self, purge: &Purge) -> Result<u64, StoreError> {
        self.purge_for(purge, "").await
    }

    async fn oldest_pending(&self, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        let ask = |shard| async move {
            let call = self.scripts().oldest.on(shard).arg(clock(now));
            call.run::<Option<u64>>(self.link()).await
        };
        let ages = try_join_all(self.keys().shards().iter().map(ask)).await?;
        Ok(ages.into_iter().flatten().max().map(Duration::from_micros))
    }

    fn wake(&self) -> Option<Wake> {
        Some(self.listen())
    }
}

impl RedisStore {
    /// The shards, beginning with another one each time, or a small limit would starve the last ones.
    pub(crate) fn in_turn(&self) -> Vec<&Shard> {
        let shards = self.keys().shards();
        let (behind, first) = shards.split_at(self.next_turn() % shards.len());
        first.iter().chain(behind).collect()
    }

    async fn claim_in(
        &self,
        shard: &Shard,
        claim: &Claim<'_>,
        limit: usize,
    ) -> Result<ClaimAnswer, StoreError> {
        let order = match claim.order {
            ClaimOrder::Due => "due",
            ClaimOrder::Seq => "seq",
        };
        let call = self.scripts().claim.on(shard).arg(clock(claim.now)).arg(&*escape(claim.owner.as_str()));
        let call = call.arg(claim.token.as_i64()).arg(micros(claim.lease)).arg(limit);
        call.arg(micros(claim.skip_recent)).arg(order).arg(MAX_LOST_LEASES).run(self.link()).await
    }

    /// Takes what the shards answered, and answers which of them have nothing more. A shard that fails does
    /// not hide the others: what they leased would wait for its lease to end.
    fn take_answers(
        &self,
        claim: &Claim<'_>,
        asked: &[(&Shard, usize)],
        answers: Vec<Result<ClaimAnswer, StoreError>>,
        claimed: &mut Claimed,
        due: &mut Vec<(i64, Leased)>,
    ) -> Result<Vec<u16>, StoreError> {
        let (mut empty, mut failure) = (Vec::new(), None);
        for ((shard, share), answer) in asked.iter().zip(answers) {
            let (now, rows, died, orphans, paused, is_cut) = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    failure = Some(error);
                    empty.push(shard.number);
                    continue;
                }
            };
            if rows.len() / ROW + died.len() < *share && !is_cut {
                empty.push(shard.number);
            }
            for row in rows.chunks_exact(ROW) {
                match self.leased(claim, shard, row, Timestamp::from_micros(now)) {
                    (at, Ok(leased)) => due.push((at, leased)),
                    (_, Err(malformed)) => claimed.malformed.push(malformed),
                }
            }
            self.count_dead(died.len());
            claimed.died.extend(died.into_iter().map(EventId::from));
            claimed.paused.extend(paused);
            self.count_orphans_met(orphans);
        }
        match failure {
            Some(error) if due.is_empty() && claimed.malformed.is_empty() && claimed.died.is_empty() => {
                Err(error)
            }
            Some(error) => {
                tracing::warn!(%error, "a shard of the outbox cannot be claimed from; the others are");
                Ok(empty)
            }
            None => Ok(empty),
        }
    }

    fn leased(
        &self,
        claim: &Claim<'_>,
        shard: &Shard,
        row: &[Value],
        now: Timestamp,
    ) -> (i64, Result<Leased, Malformed>) {
        let [id, _, state, body] = [0, 1, 2, 3].map(|column| bytes(&row[column]));
        let (id, state) = (String::from_utf8_lossy(id), State::parse(&String::from_utf8_lossy(state)));
        let due = if let Value::Int(due) = row[1] { due } else { 0 };
        let decoded = body::decode(&id, Some(body), state.inserted_at(), Extent::Whole);
        let lease =
            Lease { id: decoded.event.id().clone(), seq: state.sid.seq(shard.number), token: claim.token };
        let leased = match state.defect().or(decoded.defect) {
            Some(reason) => Err(Malformed { lease, reason }),
            None => Ok(Leased {
                lease,
                event: decoded.event,
                attempts: state.attempts(),
                replays: state.replays,
                age: now.since(state.inserted_at()),
                progress: state.progress,
            }),
        };
        (due, leased)
    }

    /// Settles the rows of one shard; answers the place of each in the request, and what became of it.
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
        let call =
            self.scripts().settle.on(shard).arg(clock(settle.now)).arg(&*escape(settle.owner.as_str()));
        let mut call = call.arg(on_done).arg(delivered.len());
        for &place in &delivered {
            let lease = &settle.settlements[place].lease;
            call.push(lease.id.as_str());
            call.push(Sid::of_seq(lease.seq).place());
        }
        others.iter().for_each(|&place| self.push_settlement(&mut call, &settle.settlements[place]));
        let (done, rest): (Vec<bool>, Vec<String>) = call.run(self.link()).await?;
        if done.len() != delivered.len() || rest.len() != others.len() {
            return Err(unexpected("settle"));
        }
        let done = done.into_iter().map(|done| if done { Settled::Done } else { Settled::Stale });
        let rest: Option<Vec<Settled>> = rest.iter().map(|answer| read_settled(answer)).collect();
        let answers = done.chain(rest.ok_or_else(|| unexpected("settle"))?);
        Ok(delivered.into_iter().chain(others).zip(answers).collect())
    }

    fn push_settlement(&self, call: &mut Call<'_>, settlement: &Settlement) {
        let delivered: Vec<_> = settlement.delivered.iter().map(|name| escape(name)).collect();
        self.push_lease(call, &settlement.lease);
        let mut push = |verdict: &str, text: &str, number: u64, list: &str| {
            call.push(verdict);
            call.push(delivered.join(","));
            call.push(text);
            call.push(number);
            call.push(list);
        };
        match &settlement.verdict {
            Verdict::Done => push("done", "", 0, ""),
            Verdict::Failed { error, backoff } => {
                let delays: Vec<String> =
                    backoff.delays.iter().map(|&delay| micros(delay).to_string()).collect();
                push("failed", error, backoff.max_attempts.into(), &delays.join(","));
            }
            Verdict::Deferred { delay } => push("deferred", "", micros(*delay), ""),
            Verdict::Dead { reason } => push("dead", reason, 0, ""),
            Verdict::Unreachable { error, delay, park } => {
                push("unreachable", error, micros(*delay), &escape(park.as_deref().unwrap_or_default()));
            }
        }
    }

    fn push_lease(&self, call: &mut Call<'_>, lease: &Lease) {
        call.push(lease.id.as_str());
        call.push(Sid::of_seq(lease.seq).place());
        call.push(lease.token.as_i64());
    }

    /// Renews, releases or parks; answers the ids that were held.
    async fn held(
        &self,
        request: &Held<'_>,
        leases: &[Lease],
        now: Option<Timestamp>,
    ) -> Result<Vec<String>, StoreError> {
        let shards = self.by_shard(leases.iter().map(|lease| lease.seq));
        let ask = |(shard, places): &(&Shard, Vec<usize>)| {
            let call = self.scripts().lease.on(shard).arg(clock(now)).arg(&*escape(request.owner));
            let mut call = call.arg(request.what).arg(micros(request.wait)).arg(&*escape(request.route));
            places.iter().for_each(|&place| self.push_lease(&mut call, &leases[place]));
            async move { call.run::<Vec<String>>(self.link()).await }
        };
        Ok(try_join_all(shards.iter().map(ask)).await?.concat())
    }

    /// Removes old rows; an operator is named.
    pub(crate) async fn purge_for(&self, purge: &Purge, actor: &str) -> Result<u64, StoreError> {
        let what = match purge.what {
            Purgeable::Done => "done",
            Purgeable::Dead => "dead",
            Purgeable::Any => "any",
            Purgeable::Archived => "archived",
        };
        // More in one call would keep others waiting.
        const BATCH: u64 = 1000;
        let (target, limit) = (purge.to_string(), purge.limit as u64);
        let mut count = 0;
        for shard in self.keys().shards() {
            let mut after = String::new();
            loop {
                let call = self.scripts().purge.on(shard).arg(clock(purge.now)).arg(what);
                let call = call.arg(micros(purge.older_than)).arg(u8::from(purge.archive));
                let call = call.arg((limit - count).min(BATCH)).arg(self.audited_inside(actor)).arg(&target);
                let (gone, next): (u64, String) = call.arg(after).run(self.link()).await?;
                count += gone;
                if next.is_empty() || count >= limit {
                    break;
                }
                after = next;
            }
        }
        self.note(actor, "purge", &target, count).await?;
        Ok(count)
    }

    /// The places of a request's rows, shard by shard.
    fn by_shard(&self, seqs: impl Iterator<Item = i64>) -> Vec<(&Shard, Vec<usize>)> {
        let mut shards: Vec<(&Shard, Vec<usize>)> =
            self.keys().shards().iter().map(|shard| (shard, Vec::new())).collect();
        for (place, seq) in seqs.enumerate() {
            shards[usize::from(self.keys().of_seq(seq).number)].1.push(place);
        }
        shards.retain(|(_, places)| !places.is_empty());
        shards
    }
}

/// A text of an answer, as it came.
fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::BulkString(bytes) => bytes,
        _ => &[],
    }
}

/// Most rows are, and two values are enough to say so.
fn is_simply_delivered(settlement: &Settlement) -> bool {
    settlement.verdict == Verdict::Done && settlement.delivered.is_empty()
}

/// What to do with rows that are held.
struct Held<'a> {
    owner: &'a str,
    what: &'static str,
    wait: Duration,
    route: &'a str,
}

/// How many rows to ask each shard for. The first shard is always asked: it knows the paused routes.
pub(crate) fn shares<'k>(shards: &[&'k Shard], limit: usize) -> Vec<(&'k Shard, usize)> {
    let (each, rest) = (limit / shards.len(), limit % shards.len());
    let share = |(place, shard): (usize, &&'k Shard)| (*shard, each + usize::from(place < rest));
    let is_asked = |(shard, share): &(&Shard, usize)| *share > 0 || shard.number == 0;
    shards.iter().enumerate().map(share).filter(is_asked).collect()
}

/// The clock of a script: the server's own, unless a test brings another.
pub(crate) fn clock(now: Option<Timestamp>) -> String {
    now.map(|now| now.as_micros().to_string()).unwrap_or_default()
}

/// A duration in microseconds, cut to a hundred years: scores are exact up to 2^53.
pub(crate) fn micros(duration: Duration) -> u64 {
    const LONGEST: u64 = 100 * 365 * 24 * 3600 * 1_000_000;
    u64::try_from(duration.as_micros()).unwrap_or(LONGEST).min(LONGEST)
}

fn read_settled(answer: &str) -> Option<Settled> {
    let mut words = answer.split(' ');
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
