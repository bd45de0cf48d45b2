//! The JSON documents of the API, each described once: the router and the command line write them, the client reads
//! them, and the OpenAPI document has their schemas.
//!
//! Names stay from release to release, and new fields may come: a client ignores what it does not know. Times are
//! RFC 3339 text in UTC, ages are seconds.

mod payload;
mod time;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use posthaste::admin::{self, BacklogGroup, Page, Severity};
use posthaste::{EventDetail, EventRow, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use payload::Payload;
pub use time::Time;

/// What is wrong, and what to do about it: the body of every response that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Error {
    /// What is wrong.
    pub error: String,
    /// What to do about it.
    pub advice: String,
}

/// Whether the process is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Live {
    /// Always true.
    pub live: bool,
}

/// Whether every outbox keeps up.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Ready {
    /// Whether all of them are ready.
    pub ready: bool,
    /// Each of them.
    pub outboxes: Vec<OutboxReadiness>,
}

/// Whether one outbox keeps up.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct OutboxReadiness {
    /// Its name.
    pub outbox: String,
    /// Whether its store answers and no due event has waited for too long.
    pub ready: bool,
    /// Why it is not ready.
    pub reason: Option<NotReady>,
    /// The age of the oldest event that is due.
    pub oldest_pending_seconds: Option<f64>,
}

/// Why an outbox is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NotReady {
    /// The store could not be opened yet.
    StoreNotOpen,
    /// The store does not answer, or not in time.
    StoreSilent,
    /// The oldest due event has waited for too long.
    Late,
    /// The process finishes what it has begun, and takes nothing new.
    Stopping,
}

/// The outboxes of a process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Outboxes {
    /// In the order of the configuration.
    pub outboxes: Vec<Outbox>,
}

/// One outbox.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Outbox {
    /// Its name.
    pub outbox: String,
    /// Whether its store could be opened.
    pub open: bool,
    /// The names of its routes.
    pub routes: Vec<String>,
    /// Which of them an operator has paused; null if the store does not answer.
    pub paused: Option<BTreeSet<String>>,
}

/// The counts of an outbox.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Stats {
    /// Events that wait.
    pub pending: Pending,
    /// Events that were delivered and are kept.
    pub done: u64,
    /// Events that were given up.
    pub dead: u64,
    /// Events in the archive.
    pub archived: u64,
    /// Which of these counts are estimates.
    pub estimated: Estimated,
    /// The age of the oldest pending event that has been due once.
    pub oldest_pending_seconds: Option<f64>,
    /// Routes that an operator has paused.
    pub paused: BTreeSet<String>,
}

/// Pending events, counted twice: by status, and by what they wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Pending {
    /// Never attempted.
    pub new: u64,
    /// Attempted, and to be tried again.
    pub retry: u64,
    /// Due now and on no lease.
    pub due: u64,
    /// On lease.
    pub leased: u64,
    /// Waiting for a closed route.
    pub parked: u64,
    /// Waiting for their time.
    pub scheduled: u64,
}

/// Which counts of [`Stats`] are estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Estimated {
    /// Everything in `pending`.
    pub pending: bool,
    /// `done`.
    pub done: bool,
    /// `dead`.
    pub dead: bool,
    /// `archived`.
    pub archived: bool,
}

impl From<&admin::Stats> for Stats {
    fn from(stats: &admin::Stats) -> Self {
        let &admin::Stats { new, retry, done, dead, archived, due, leased, parked, scheduled, .. } = stats;
        let admin::Estimated { pending, done: done_too, dead: dead_too, archived: archived_too } =
            stats.estimated;
        Self {
            pending: Pending { new, retry, due, leased, parked, scheduled },
            done,
            dead,
            archived,
            estimated: Estimated { pending, done: done_too, dead: dead_too, archived: archived_too },
            oldest_pending_seconds: stats.oldest_pending.map(|age| age.as_secs_f64()),
            paused: stats.paused.clone(),
        }
    }
}

impl From<Stats> for admin::Stats {
    fn from(wire: Stats) -> Self {
        let Estimated { pending, done, dead, archived } = wire.estimated;
        let mut stats = Self::default();
        stats.new = wire.pending.new;
        stats.retry = wire.pending.retry;
        stats.due = wire.pending.due;
        stats.leased = wire.pending.leased;
        stats.parked = wire.pending.parked;
        stats.scheduled = wire.pending.scheduled;
        stats.done = wire.done;
        stats.dead = wire.dead;
        stats.archived = wire.archived;
        stats.oldest_pending = age(wire.oldest_pending_seconds);
        stats.paused = wire.paused;
        stats.estimated = admin::Estimated { pending, done, dead, archived };
        stats
    }
}

fn age(seconds: Option<f64>) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds?).ok()
}

/// Pending events in groups.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Backlog {
    /// The largest first.
    pub groups: Vec<PendingGroup>,
    /// Whether these are all groups, and every pending event was counted.
    pub complete: bool,
}

/// Pending events of one type or tenant.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct PendingGroup {
    /// The type or the tenant; null for events that have none.
    pub key: Option<String>,
    /// How many there are.
    pub count: u64,
    /// The age of the oldest.
    pub oldest_seconds: Option<f64>,
}

impl From<admin::Backlog> for Backlog {
    fn from(backlog: admin::Backlog) -> Self {
        let group = |group: BacklogGroup| PendingGroup {
            key: group.key,
            count: group.count,
            oldest_seconds: group.oldest.map(|age| age.as_secs_f64()),
        };
        Self { groups: backlog.groups.into_iter().map(group).collect(), complete: backlog.complete }
    }
}

impl From<Backlog> for admin::Backlog {
    fn from(backlog: Backlog) -> Self {
        let group =
            |group: PendingGroup| BacklogGroup::new(group.key, group.count, age(group.oldest_seconds));
        Self::new(backlog.groups.into_iter().map(group).collect(), backlog.complete)
    }
}

/// A row, but for its headers and its payload.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Row {
    /// The insertion number.
    pub seq: i64,
    /// The event's id.
    pub id: String,
    /// The event's type.
    pub event_type: String,
    /// Its aggregate's type.
    pub aggregate_type: String,
    /// Its aggregate's id.
    pub aggregate_id: Option<String>,
    /// Its tenant.
    pub tenant_id: Option<String>,
    /// The payload's size.
    pub payload_bytes: u64,
    /// Its status.
    #[schemars(with = "String", extend("enum" = ["NEW", "RETRY", "DONE", "DEAD", "ARCHIVED"]))]
    pub status: Status,
    /// Failed attempts.
    pub attempts: u32,
    /// How often its handler asked for more time.
    pub deferrals: u32,
    /// How often its owner died.
    pub lost_leases: u32,
    /// How often an operator replayed it.
    pub replays: u32,
    /// The route it waits for.
    pub parked: Option<String>,
    /// Destinations of a fan-out that have it.
    pub progress: BTreeSet<String>,
    /// When it is due: its lease's end, its retry time or its delay.
    pub available_at: Time,
    /// When it happened, by its producer's clock.
    pub created_at: Time,
    /// When it was inserted, by the store's clock.
    pub inserted_at: Time,
    /// When it became DONE or DEAD.
    pub done_at: Option<Time>,
    /// Why it failed last, or died.
    pub last_error: Option<String>,
    /// Which engine holds it.
    pub locked_by: Option<String>,
    /// Since when.
    pub locked_at: Option<Time>,
    /// What cannot be read of this row.
    pub malformed: Option<String>,
}

impl From<&EventRow> for Row {
    fn from(row: &EventRow) -> Self {
        Self {
            seq: row.seq,
            id: row.id.to_string(),
            event_type: row.event_type.clone(),
            aggregate_type: row.aggregate_type.clone(),
            aggregate_id: row.aggregate_id.clone(),
            tenant_id: row.tenant_id.clone(),
            payload_bytes: row.payload_bytes,
            status: row.status,
            attempts: row.attempts,
            deferrals: row.deferrals,
            lost_leases: row.lost_leases,
            replays: row.replays,
            parked: row.parked.clone(),
            progress: row.progress.clone(),
            available_at: Time(row.available_at),
            created_at: Time(row.created_at),
            inserted_at: Time(row.inserted_at),
            done_at: row.done_at.map(Time),
            last_error: row.last_error.clone(),
            locked_by: row.locked_by.clone(),
            locked_at: row.locked_at.map(Time),
            malformed: row.malformed.clone(),
        }
    }
}

/// A row together with its event.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Event {
    /// What the row knows.
    #[serde(flatten)]
    pub row: Row,
    /// Where its producer wants it to go.
    pub topic: Option<String>,
    /// The payload's media type.
    pub content_type: Option<String>,
    /// The version of the payload's schema.
    pub schema_version: Option<u32>,
    /// Its headers; left out for those who may not see them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Its payload; left out for those who may not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
}

impl Event {
    /// Without headers and payload, which may hold personal data.
    pub fn without_content(detail: &EventDetail) -> Self {
        let EventDetail { row, event, .. } = detail;
        Self {
            row: row.into(),
            topic: event.topic().map(str::to_owned),
            content_type: event.content_type().map(str::to_owned),
            schema_version: event.schema_version(),
            headers: None,
            payload: None,
        }
    }
}

impl From<&EventDetail> for Event {
    fn from(detail: &EventDetail) -> Self {
        let headers = detail.event.headers().iter().map(|(name, value)| (name.clone(), value.clone()));
        Self {
            headers: Some(headers.collect()),
            payload: Some(Payload::of(&detail.event)),
            ..Self::without_content(detail)
        }
    }
}

/// One page of events.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Events {
    /// Oldest first.
    pub events: Vec<Row>,
    /// The `after` of the next page; null on the last.
    pub next: Option<i64>,
}

impl From<&Page<EventRow>> for Events {
    fn from(page: &Page<EventRow>) -> Self {
        Self { events: page.items.iter().map(Row::from).collect(), next: page.next }
    }
}

/// How many events match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Count {
    /// So many.
    pub count: u64,
}

/// DEAD events in groups.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Groups {
    /// The largest first.
    pub groups: Vec<DeadGroup>,
}

/// DEAD events of one type with one reason.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct DeadGroup {
    /// Their aggregate type.
    pub aggregate_type: String,
    /// Their event type.
    pub event_type: String,
    /// The beginning of their reason.
    pub reason: String,
    /// How many there are.
    pub count: u64,
    /// When the first of them died.
    pub first: Option<Time>,
    /// When the last of them died.
    pub last: Option<Time>,
}

impl From<&admin::DeadGroup> for DeadGroup {
    fn from(group: &admin::DeadGroup) -> Self {
        Self {
            aggregate_type: group.aggregate_type.clone(),
            event_type: group.event_type.clone(),
            reason: group.reason.clone(),
            count: group.count,
            first: group.first.map(Time),
            last: group.last.map(Time),
        }
    }
}

impl From<DeadGroup> for admin::DeadGroup {
    fn from(group: DeadGroup) -> Self {
        let (first, last) = (group.first.map(|Time(at)| at), group.last.map(|Time(at)| at));
        Self::new(group.aggregate_type, group.event_type, group.reason).with_deaths(group.count, first, last)
    }
}

/// What a change of events did.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Changed {
    /// What was done.
    #[schemars(extend("enum" = ["replay", "discard", "purge"]))]
    pub action: String,
    /// How many events were changed.
    pub changed: u64,
    /// Whether there may be more of them: ask again until this is false.
    pub more: bool,
    /// Ids that were named and are not of DEAD events.
    pub unchanged: Vec<String>,
}

/// What a pause or its end did.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct RouteChanged {
    /// What was done.
    #[schemars(extend("enum" = ["pause", "resume"]))]
    pub action: String,
    /// The route.
    pub route: String,
    /// Whether it was not so before.
    pub changed: bool,
}

/// One page of what operators did.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Audit {
    /// Newest first.
    pub entries: Vec<AuditEntry>,
    /// The `after` of the next page; null on the last.
    pub next: Option<i64>,
}

impl From<&Page<admin::AuditEntry>> for Audit {
    fn from(page: &Page<admin::AuditEntry>) -> Self {
        Self { entries: page.items.iter().map(AuditEntry::from).collect(), next: page.next }
    }
}

/// One thing an operator did.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct AuditEntry {
    /// The entry's number.
    pub seq: i64,
    /// When, by the store's clock.
    pub at: Time,
    /// Who.
    pub actor: String,
    /// What: `replay`, `discard`, `purge`, `pause` or `resume`.
    pub action: String,
    /// To what: an id, a filter or a route.
    pub target: String,
    /// How many rows it changed.
    pub rows: u64,
}

impl From<&admin::AuditEntry> for AuditEntry {
    fn from(entry: &admin::AuditEntry) -> Self {
        Self {
            seq: entry.seq,
            at: Time(entry.at),
            actor: entry.actor.clone(),
            action: entry.action.clone(),
            target: entry.target.clone(),
            rows: entry.rows,
        }
    }
}

/// What looks wrong with an outbox.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Findings {
    /// The worst first.
    pub findings: Vec<Finding>,
}

/// Something that looks wrong.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Finding {
    /// What it is about, in a word that stays the same from release to release.
    pub code: String,
    /// How bad it is.
    #[schemars(with = "String", extend("enum" = ["note", "warning", "problem"]))]
    pub severity: Severity,
    /// What was seen.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

impl From<admin::Finding> for Finding {
    fn from(finding: admin::Finding) -> Self {
        let admin::Finding { code, severity, what, advice, .. } = finding;
        Self { code: code.to_owned(), severity, what, advice }
    }
}

/// One line of a tail: what became of one attempt. No payload, no header, no error text: the row has them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TailLine {
    /// By the clock of the delivering process.
    pub at: Time,
    /// The event's id.
    pub id: String,
    /// Its type.
    pub event_type: String,
    /// Its aggregate's type.
    pub aggregate_type: String,
    /// Its aggregate's id.
    pub aggregate_id: Option<String>,
    /// Its tenant.
    pub tenant_id: Option<String>,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// `done`, `retry`, `deferred`, `dead`, `unreachable` or `busy`.
    pub outcome: String,
}

/// A line of a tail whose reader was too slow for some others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct MissedLines {
    /// How many lines were lost.
    pub missed: u64,
}
