//! Claims: leases due rows of all shards, within one limit of rows and bytes for all of them together.

use futures_util::future::join_all;
use posthaste::store::{Claim, ClaimOrder, Claimed, Lease, Leased, Malformed, SUSPECT_LOST_LEASES};
use posthaste::{StoreError, Timestamp};
use redis::Value;

use crate::RedisStore;
use crate::clock_and_pauses::ServerState;
use crate::event_body::{self, Extent};
use crate::field_escape::{escape, unescape};
use crate::keys::Shard;
use crate::row_state::RowState;
use crate::shard_calls::within_bodies_timeout;
use crate::store::{micros, shares};

/// Reply of `claim.lua`: now; id, due time, state and body of each row in one list; the number of members without a
/// body; the size of the first row that did not fit, or 0; the paused routes; the routes with parked rows.
type ClaimReply = (i64, Vec<Value>, u64, usize, Vec<String>, Vec<String>);

/// Values per row in the reply.
const VALUES_PER_ROW: usize = 4;

/// Upper bound of the byte limit in a call: Lua's numbers are doubles, exact up to 2^53.
const MAX_SCRIPT_BYTES: usize = 1 << 52;

/// One call of `claim.lua`: what one shard may contribute.
struct ShardClaim<'k> {
    shard: &'k Shard,
    rows: usize,
    bytes: usize,
    /// The first row is claimed even if it is larger than `bytes`.
    ignores_size: bool,
    /// Whether the reply should contain the paused routes and the routes with parked rows.
    wants_state: bool,
}

/// What the rounds of one claim have collected.
#[derive(Default)]
struct ClaimProgress {
    claimed: Claimed,
    /// Rows with their due time in microseconds, in the order of the replies.
    due: Vec<(i64, Leased)>,
    /// Bytes of the bodies claimed so far.
    bytes: usize,
    /// At least one shard replied.
    has_reply: bool,
    /// The last error of a shard.
    failure: Option<StoreError>,
}

impl ClaimProgress {
    fn rows(&self) -> usize {
        self.due.len() + self.claimed.malformed.len()
    }

    /// Bytes that may still be claimed.
    fn room(&self, claim: &Claim<'_>) -> usize {
        claim.max_bytes.saturating_sub(self.bytes)
    }

    /// Closes shards whose next row does not fit: rows behind it must not overtake it.
    fn close_those_without_room(&mut self, open: &mut Vec<OpenShard<'_>>, claim: &Claim<'_>) {
        if self.rows() == 0 {
            return;
        }
        let (room, before) = (self.room(claim), open.len());
        open.retain(|open| room > 0 && open.next.is_none_or(|next| next <= room));
        self.claimed.cut |= open.len() < before;
    }
}

/// A shard that may have more due rows.
struct OpenShard<'k> {
    shard: &'k Shard,
    /// Size of its next row in bytes, if that row did not fit in the last round.
    next: Option<usize>,
}

impl RedisStore {
    /// Claims what is due.
    pub(crate) async fn claim_due(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        if claim.order == ClaimOrder::Seq && self.keys().count() > 1 {
            let operation = "claim in the order of insertion from several shards: open it with one shard";
            return Err(StoreError::Unsupported { store: "Redis", operation });
        }
        within_bodies_timeout(async {
            let progress = self.claim_rounds(claim).await;
            self.finish_claim(claim, progress)
        })
        .await
    }

    /// Claims in rounds, until the claim is full or no shard has more.
    ///
    /// The first round claims from one shard only, a different one in each claim. The first row of that shard is
    /// claimed whatever the row's size, so that even the largest row is claimed at some time. Later rounds divide the
    /// rest of the limit among all open shards, which are called concurrently. If a round claimed nothing because a
    /// share was too small for a row, that row's shard alone gets all that is left.
    async fn claim_rounds(&self, claim: &Claim<'_>) -> ClaimProgress {
        let mut open: Vec<OpenShard<'_>> = self
            .responding_shards_in_turn()
            .into_iter()
            .map(|shard| OpenShard { shard, next: None })
            .collect();
        let mut progress = ClaimProgress::default();
        let mut claims = self.first_round(&open, claim);
        while !claims.is_empty() {
            let before = progress.rows();
            let replies = join_all(claims.iter().map(|shard_claim| self.claim_in(shard_claim, claim))).await;
            for (shard_claim, reply) in claims.iter().zip(replies) {
                self.add_reply(claim, shard_claim, reply, &mut open, &mut progress);
            }
            progress.close_those_without_room(&mut open, claim);
            let cramped = open.iter().position(|open| open.next.is_some());
            claims = match cramped.filter(|_| progress.rows() == before) {
                Some(at) => next_round(&open[at..=at], claim, &progress),
                None => next_round(&open, claim, &progress),
            };
        }
        progress
    }

    /// The first shard in turn. Other shards get a call without rows, and only if their route state is old.
    fn first_round<'k>(&self, open: &[OpenShard<'k>], claim: &Claim<'_>) -> Vec<ShardClaim<'k>> {
        let mut claims = next_round(open, claim, &ClaimProgress::default());
        claims.truncate(1);
        claims.iter_mut().for_each(|shard_claim| shard_claim.ignores_size = true);
        let others = open[claims.len()..].iter().map(|open| ShardClaim {
            shard: open.shard,
            rows: 0,
            bytes: 0,
            ignores_size: false,
            wants_state: false,
        });
        claims.extend(others);
        claims.iter_mut().for_each(|shard_claim| {
            shard_claim.wants_state = self.0.server_state.is_old(shard_claim.shard.number);
        });
        claims.retain(|shard_claim| shard_claim.rows > 0 || shard_claim.wants_state);
        claims
    }

    async fn claim_in(
        &self,
        shard_claim: &ShardClaim<'_>,
        claim: &Claim<'_>,
    ) -> Result<ClaimReply, StoreError> {
        let order = match claim.order {
            ClaimOrder::Due => "due",
            ClaimOrder::Seq => "seq",
        };
        let &ShardClaim { shard, rows, bytes, ignores_size, wants_state } = shard_claim;
        let owner = escape(claim.owner.as_str());
        let call = self.scripts().claim.on(shard, claim.now);
        let call = call.arg((owner, claim.token.as_i64(), micros(claim.lease), rows));
        let call = call.arg((micros(claim.skip_recent), order, SUSPECT_LOST_LEASES));
        let call = call.arg((bytes.min(MAX_SCRIPT_BYTES), ignores_size, wants_state));
        self.call_shard_for_bodies(shard, &call.arg(Claimed::MAX_PARKED_NAMES)).await
    }

    /// Adds the reply of one shard. The error of a shard must not discard the replies of others: their rows are leased
    /// and would wait until their leases end.
    fn add_reply(
        &self,
        claim: &Claim<'_>,
        shard_claim: &ShardClaim<'_>,
        reply: Result<ClaimReply, StoreError>,
        open: &mut Vec<OpenShard<'_>>,
        progress: &mut ClaimProgress,
    ) {
        let close =
            |open: &mut Vec<OpenShard<'_>>| open.retain(|open| open.shard.number != shard_claim.shard.number);
        let (now, rows, orphans, too_large, paused, parked) = match reply {
            Ok(reply) => reply,
            Err(error) => {
                progress.failure = Some(error);
                return close(open);
            }
        };
        if too_large == 0 && rows.len() / VALUES_PER_ROW < shard_claim.rows {
            close(open);
        } else if let Some(open) = open.iter_mut().find(|open| open.shard.number == shard_claim.shard.number)
        {
            open.next = Some(too_large).filter(|bytes| *bytes > 0);
        }
        progress.has_reply = true;
        self.add_rows(claim, shard_claim.shard, rows, Timestamp::from_micros(now), progress);
        if shard_claim.wants_state {
            let (paused, parked) = (paused.into_iter().collect(), parked.iter().map(|name| unescape(name)));
            self.0
                .server_state
                .set(shard_claim.shard.number, ServerState { paused, parked: parked.collect() });
        }
        self.count_orphans_met(orphans);
    }

    /// Decodes row by row and drops each reply value, so that at most one body is in memory twice.
    fn add_rows(
        &self,
        claim: &Claim<'_>,
        shard: &Shard,
        rows: Vec<Value>,
        now: Timestamp,
        progress: &mut ClaimProgress,
    ) {
        let mut values = rows.into_iter();
        while let (Some(id), Some(due), Some(state), Some(body)) =
            (values.next(), values.next(), values.next(), values.next())
        {
            progress.bytes = progress.bytes.saturating_add(bytes(&body).len());
            let due = if let Value::Int(due) = due { due } else { 0 };
            match self.leased(claim, shard, [&id, &state, &body].map(bytes), now) {
                Ok(leased) => progress.due.push((due, leased)),
                Err(malformed) => progress.claimed.malformed.push(malformed),
            }
        }
    }

    fn leased(
        &self,
        claim: &Claim<'_>,
        shard: &Shard,
        [id, state, body]: [&[u8]; 3],
        now: Timestamp,
    ) -> Result<Leased, Malformed> {
        let (id, state) = (String::from_utf8_lossy(id), RowState::parse(&String::from_utf8_lossy(state)));
        let decoded = event_body::decode(&id, Some(body), state.inserted_at(), Extent::Whole);
        let lease = Lease::new(decoded.event.id().clone(), state.sid.seq(shard.number), claim.token);
        match state.defect().or(decoded.defect) {
            Some(reason) => Err(Malformed::new(lease, reason)),
            None => {
                let mut leased = Leased::new(lease, decoded.event);
                leased.attempts = state.attempts();
                leased.deferrals = state.deferrals;
                leased.lost_leases = state.lost;
                leased.replays = state.replays;
                leased.age = now.since(state.inserted_at());
                leased.progress = state.progress;
                Ok(leased)
            }
        }
    }

    /// Sorts the rows of all shards. Fails only if no shard replied.
    fn finish_claim(&self, claim: &Claim<'_>, progress: ClaimProgress) -> Result<Claimed, StoreError> {
        let ClaimProgress { mut claimed, mut due, has_reply, failure, .. } = progress;
        match failure {
            Some(error) if !has_reply => return Err(error),
            Some(error) => {
                tracing::warn!(%error, "claiming from a shard of the outbox failed; other shards were claimed from");
            }
            None => {}
        }
        let state = self.0.server_state.all();
        claimed.paused = state.paused;
        claimed.parked = state.parked.into_iter().take(Claimed::MAX_PARKED_NAMES).collect();
        match claim.order {
            ClaimOrder::Due => due.sort_by_key(|(due, leased)| (*due, leased.lease.seq)),
            ClaimOrder::Seq => due.sort_by_key(|(_, leased)| leased.lease.seq),
        }
        claimed.events = due.into_iter().map(|(_, leased)| leased).collect();
        Ok(claimed)
    }
}

/// Divides what may still be claimed equally among these shards.
fn next_round<'k>(
    open: &[OpenShard<'k>],
    claim: &Claim<'_>,
    progress: &ClaimProgress,
) -> Vec<ShardClaim<'k>> {
    let room = progress.room(claim);
    if open.is_empty() {
        return Vec::new();
    }
    let shards: Vec<&Shard> = open.iter().map(|open| open.shard).collect();
    let ignores_size = progress.rows() == 0 && shards.len() == 1;
    let shard_claim = |(shard, rows)| ShardClaim {
        shard,
        rows,
        bytes: room / shards.len(),
        ignores_size,
        wants_state: false,
    };
    shares(&shards, claim.limit.saturating_sub(progress.rows())).into_iter().map(shard_claim).collect()
}

/// The bytes of a text in a reply.
fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::BulkString(bytes) => bytes,
        _ => &[],
    }
}
