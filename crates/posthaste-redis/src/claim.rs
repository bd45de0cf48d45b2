//! Claims: due rows of all shards, bounded in rows and in bytes over all of them together.

use futures_util::future::join_all;
use posthaste::store::{Claim, ClaimOrder, Claimed, Lease, Leased, Malformed, SUSPECT_AFTER};
use posthaste::{StoreError, Timestamp};
use redis::Value;

use crate::RedisStore;
use crate::escape::{escape, unescape};
use crate::event_body::{self, Extent};
use crate::keys::Shard;
use crate::row_state::RowState;
use crate::server_state::ServerState;
use crate::shard_calls::within_bodies_timeout;
use crate::store::{clock, micros, shares};

/// What a claim answers: the clock; id, due time, state and body of each row, one after another; how many
/// orphans it met; how large the row is for which there was no room; paused routes; those with parked rows.
type Answer = (i64, Vec<Value>, u64, usize, Vec<String>, Vec<String>);

/// How many values a claim answers for each row.
const ROW: usize = 4;

/// Lua counts in floating point: more bytes than this are as good as no limit.
const MOST_BYTES: usize = 1 << 52;

/// What one shard is asked for.
struct Ask<'k> {
    shard: &'k Shard,
    rows: usize,
    bytes: usize,
    /// Its first row is wanted whatever its size.
    whatever: bool,
    /// Whether to look which routes are paused, and which have parked rows.
    look: bool,
}

/// What was claimed so far.
#[derive(Default)]
struct Taken {
    claimed: Claimed,
    due: Vec<(i64, Leased)>,
    bytes: usize,
    /// A shard has answered.
    is_answered: bool,
    failure: Option<StoreError>,
}

impl Taken {
    fn rows(&self) -> usize {
        self.due.len() + self.claimed.malformed.len()
    }

    /// How many bytes may still be claimed.
    fn room(&self, claim: &Claim<'_>) -> usize {
        claim.max_bytes.saturating_sub(self.bytes)
    }

    /// What comes after a row that does not fit must not overtake it.
    fn close_those_without_room(&mut self, open: &mut Vec<Open<'_>>, claim: &Claim<'_>) {
        if self.rows() == 0 {
            return;
        }
        let (room, before) = (self.room(claim), open.len());
        open.retain(|open| room > 0 && open.next.is_none_or(|next| next <= room));
        self.claimed.cut |= open.len() < before;
    }
}

/// A shard that may have more.
struct Open<'k> {
    shard: &'k Shard,
    /// How large its next row is, where there was no room for it.
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
            let taken = self.claim_rounds(claim).await;
            self.finish_claim(claim, taken)
        })
        .await
    }

    /// Claims round by round, until there is enough or nothing more.
    ///
    /// The shard whose turn it is comes first and alone: its first row is claimed whatever its size, so that no
    /// row is too large for ever. The others share what it left, all at once. When a share was too small for a
    /// row and nobody else had anything, its shard gets all that is left.
    async fn claim_rounds(&self, claim: &Claim<'_>) -> Taken {
        let mut open: Vec<Open<'_>> =
            self.responding_shards_in_turn().into_iter().map(|shard| Open { shard, next: None }).collect();
        let mut taken = Taken::default();
        let mut asked = self.first_round(&open, claim);
        while !asked.is_empty() {
            let before = taken.rows();
            let answers = join_all(asked.iter().map(|ask| self.claim_in(ask, claim))).await;
            for (ask, answer) in asked.iter().zip(answers) {
                self.take_answer(claim, ask, answer, &mut open, &mut taken);
            }
            taken.close_those_without_room(&mut open, claim);
            let cramped = open.iter().position(|open| open.next.is_some());
            asked = match cramped.filter(|_| taken.rows() == before) {
                Some(at) => next_round(&open[at..=at], claim, &taken),
                None => next_round(&open, claim, &taken),
            };
        }
        taken
    }

    /// The shard whose turn it is, alone. The others are only looked at, where that is due.
    fn first_round<'k>(&self, open: &[Open<'k>], claim: &Claim<'_>) -> Vec<Ask<'k>> {
        let mut asked = next_round(open, claim, &Taken::default());
        asked.truncate(1);
        asked.iter_mut().for_each(|ask| ask.whatever = true);
        let others = open[asked.len()..].iter().map(|open| Ask {
            shard: open.shard,
            rows: 0,
            bytes: 0,
            whatever: false,
            look: false,
        });
        asked.extend(others);
        asked.iter_mut().for_each(|ask| ask.look = self.0.server_state.is_old(ask.shard.number));
        asked.retain(|ask| ask.rows > 0 || ask.look);
        asked
    }

    async fn claim_in(&self, ask: &Ask<'_>, claim: &Claim<'_>) -> Result<Answer, StoreError> {
        let order = match claim.order {
            ClaimOrder::Due => "due",
            ClaimOrder::Seq => "seq",
        };
        let call =
            self.scripts().claim.on(ask.shard).arg(clock(claim.now)).arg(&*escape(claim.owner.as_str()));
        let call = call.arg(claim.token.as_i64()).arg(micros(claim.lease)).arg(ask.rows);
        let call = call.arg(micros(claim.skip_recent)).arg(order).arg(SUSPECT_AFTER);
        let call = call.arg(ask.bytes.min(MOST_BYTES)).arg(u8::from(ask.whatever)).arg(u8::from(ask.look));
        self.call_shard_for_bodies(ask.shard, &call.arg(Claimed::MAX_PARKED_NAMES)).await
    }

    /// Takes what a shard answered. One that fails does not hide the others: what they leased would wait for its
    /// lease to end.
    fn take_answer(
        &self,
        claim: &Claim<'_>,
        ask: &Ask<'_>,
        answer: Result<Answer, StoreError>,
        open: &mut Vec<Open<'_>>,
        taken: &mut Taken,
    ) {
        let close = |open: &mut Vec<Open<'_>>| open.retain(|open| open.shard.number != ask.shard.number);
        let (now, rows, orphans, too_large, paused, parked) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                taken.failure = Some(error);
                return close(open);
            }
        };
        if too_large == 0 && rows.len() / ROW < ask.rows {
            close(open);
        } else if let Some(open) = open.iter_mut().find(|open| open.shard.number == ask.shard.number) {
            open.next = Some(too_large).filter(|bytes| *bytes > 0);
        }
        taken.is_answered = true;
        self.take_rows(claim, ask.shard, rows, Timestamp::from_micros(now), taken);
        if ask.look {
            let (paused, parked) = (paused.into_iter().collect(), parked.iter().map(|name| unescape(name)));
            self.0.server_state.set(ask.shard.number, ServerState { paused, parked: parked.collect() });
        }
        self.count_orphans_met(orphans);
    }

    /// Reads rows one by one, so that no more than one of them is in memory twice.
    fn take_rows(
        &self,
        claim: &Claim<'_>,
        shard: &Shard,
        rows: Vec<Value>,
        now: Timestamp,
        taken: &mut Taken,
    ) {
        let mut values = rows.into_iter();
        while let (Some(id), Some(due), Some(state), Some(body)) =
            (values.next(), values.next(), values.next(), values.next())
        {
            taken.bytes = taken.bytes.saturating_add(bytes(&body).len());
            let due = if let Value::Int(due) = due { due } else { 0 };
            match self.leased(claim, shard, [&id, &state, &body].map(bytes), now) {
                Ok(leased) => taken.due.push((due, leased)),
                Err(malformed) => taken.claimed.malformed.push(malformed),
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
        let lease =
            Lease { id: decoded.event.id().clone(), seq: state.sid.seq(shard.number), token: claim.token };
        match state.defect().or(decoded.defect) {
            Some(reason) => Err(Malformed { lease, reason }),
            None => Ok(Leased {
                lease,
                event: decoded.event,
                attempts: state.attempts(),
                lost_leases: state.lost,
                replays: state.replays,
                age: now.since(state.inserted_at()),
                progress: state.progress,
            }),
        }
    }

    /// Puts the rows of all shards into their order. A shard that failed hides nothing of the others.
    fn finish_claim(&self, claim: &Claim<'_>, taken: Taken) -> Result<Claimed, StoreError> {
        let Taken { mut claimed, mut due, is_answered, failure, .. } = taken;
        match failure {
            Some(error) if !is_answered => return Err(error),
            Some(error) => {
                tracing::warn!(%error, "a shard of the outbox cannot be claimed from; the others are");
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

/// Equal shares for these shards of what may still be claimed.
fn next_round<'k>(open: &[Open<'k>], claim: &Claim<'_>, taken: &Taken) -> Vec<Ask<'k>> {
    let room = taken.room(claim);
    if open.is_empty() {
        return Vec::new();
    }
    let shards: Vec<&Shard> = open.iter().map(|open| open.shard).collect();
    let whatever = taken.rows() == 0 && shards.len() == 1;
    let ask = |(shard, rows)| Ask { shard, rows, bytes: room / shards.len(), whatever, look: false };
    shares(&shards, claim.limit.saturating_sub(taken.rows())).into_iter().map(ask).collect()
}

/// A text of an answer, as it came.
fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::BulkString(bytes) => bytes,
        _ => &[],
    }
}
