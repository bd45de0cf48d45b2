//! What a relay's API answers, as far as it is shown. Fields that are not listed are not read.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste::Timestamp;
use posthaste::admin::{Backlog, BacklogGroup, DeadGroup, Estimated, Stats};
use serde::Deserialize;

use super::seen::DeadEvent;

#[derive(Deserialize)]
pub(super) struct Outboxes {
    pub(super) outboxes: Vec<Outbox>,
}

#[derive(Deserialize)]
pub(super) struct Outbox {
    pub(super) outbox: String,
    pub(super) open: bool,
    pub(super) routes: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Count {
    pub(super) count: u64,
}

#[derive(Deserialize)]
pub(super) struct Changed {
    pub(super) changed: u64,
}

#[derive(Deserialize)]
pub(super) struct StatsAnswer {
    pending: PendingAnswer,
    done: u64,
    dead: u64,
    archived: u64,
    estimated: EstimatedAnswer,
    oldest_pending_seconds: Option<f64>,
    paused: BTreeSet<String>,
}

#[derive(Deserialize)]
pub(super) struct PendingAnswer {
    new: u64,
    retry: u64,
    due: u64,
    leased: u64,
    parked: u64,
    scheduled: u64,
}

#[derive(Deserialize)]
pub(super) struct EstimatedAnswer {
    pending: bool,
    done: bool,
    dead: bool,
    archived: bool,
}

impl From<StatsAnswer> for Stats {
    fn from(answer: StatsAnswer) -> Self {
        let PendingAnswer { new, retry, due, leased, parked, scheduled } = answer.pending;
        let EstimatedAnswer { pending, done, dead, archived } = answer.estimated;
        Self {
            new,
            retry,
            done: answer.done,
            dead: answer.dead,
            archived: answer.archived,
            due,
            leased,
            parked,
            scheduled,
            oldest_pending: age(answer.oldest_pending_seconds),
            paused: answer.paused,
            estimated: Estimated { pending, done, dead, archived },
        }
    }
}

fn age(seconds: Option<f64>) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds?).ok()
}

#[derive(Deserialize)]
pub(super) struct BacklogAnswer {
    groups: Vec<BacklogGroupAnswer>,
    complete: bool,
}

#[derive(Deserialize)]
pub(super) struct BacklogGroupAnswer {
    key: Option<String>,
    count: u64,
    oldest_seconds: Option<f64>,
}

impl From<BacklogAnswer> for Backlog {
    fn from(BacklogAnswer { groups, complete }: BacklogAnswer) -> Self {
        let groups = groups.into_iter().map(|BacklogGroupAnswer { key, count, oldest_seconds }| {
            BacklogGroup { key, count, oldest: age(oldest_seconds) }
        });
        Self { groups: groups.collect(), complete }
    }
}

#[derive(Deserialize)]
pub(super) struct Groups {
    pub(super) groups: Vec<GroupAnswer>,
}

#[derive(Deserialize)]
pub(super) struct GroupAnswer {
    aggregate_type: String,
    event_type: String,
    reason: String,
    count: u64,
    first: Option<String>,
    last: Option<String>,
}

impl From<GroupAnswer> for DeadGroup {
    fn from(answer: GroupAnswer) -> Self {
        let GroupAnswer { aggregate_type, event_type, reason, count, first, last } = answer;
        Self { aggregate_type, event_type, reason, count, first: instant(first), last: instant(last) }
    }
}

#[derive(Deserialize)]
pub(super) struct Events {
    pub(super) events: Vec<EventAnswer>,
}

#[derive(Deserialize)]
pub(super) struct EventAnswer {
    id: String,
    event_type: String,
    aggregate_type: String,
    aggregate_id: Option<String>,
    tenant_id: Option<String>,
    attempts: u32,
    replays: u32,
    done_at: Option<String>,
    last_error: Option<String>,
}

impl From<EventAnswer> for DeadEvent {
    fn from(answer: EventAnswer) -> Self {
        Self {
            id: answer.id,
            event_type: answer.event_type,
            aggregate_type: answer.aggregate_type,
            aggregate_id: answer.aggregate_id,
            tenant_id: answer.tenant_id,
            attempts: answer.attempts,
            replays: answer.replays,
            died: instant(answer.done_at),
            error: answer.last_error,
        }
    }
}

fn instant(text: Option<String>) -> Option<Timestamp> {
    humantime::parse_rfc3339(&text?).ok().map(Timestamp::from)
}
