//! JSON documents of the API. The router and the command line write them, the client reads them, and the OpenAPI
//! document has their schemas.
//!
//! Field names do not change from release to release. A later release may add fields, so a client must ignore fields
//! that it does not know. Times are RFC 3339 text in UTC; ages are in seconds.

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

/// The body of every response that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Error {
    /// What is wrong.
    pub error: String,
    /// What to do about it.
    pub advice: String,
}

/// The response of `/health/live`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Live {
    /// Always true.
    pub live: bool,
}

/// The response of `/health/ready`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Ready {
    /// Whether all outboxes are ready.
    pub ready: bool,
    /// Each outbox.
    pub outboxes: Vec<OutboxReadiness>,
}

/// The readiness of one outbox.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct OutboxReadiness {
    /// The name of the outbox.
    pub outbox: String,
    /// Whether its store replies and the lag is at most `ready_lag`.
    pub ready: bool,
    /// Why the outbox is not ready; null if it is.
    pub reason: Option<NotReady>,
    /// The lag: the age of the oldest pending event that has been due. Null if there is none, or if it is unknown.
    pub oldest_pending_seconds: Option<f64>,
}

/// The reason why an outbox is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NotReady {
    /// The store could not be opened yet.
    StoreNotOpen,
    /// The store failed, or did not reply in time.
    StoreSilent,
    /// The lag is more than `ready_lag`.
    Late,
    /// The process is stopping: it finishes its deliveries and claims no more events.
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

/// One outbox of a process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Outbox {
    /// The name of the outbox.
    pub outbox: String,
    /// Whether its store could be opened.
    pub open: bool,
    /// The names of its routes.
    pub routes: Vec<String>,
    /// Routes that an operator has paused; null if the store is not open or does not reply.
    pub paused: Option<BTreeSet<String>>,
}

/// The counts of an outbox.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Stats {
    /// Events that are not delivered yet.
    pub pending: Pending,
    /// Events that were delivered and whose rows are kept.
    pub done: u64,
    /// Events that failed permanently and wait for an operator.
    pub dead: u64,
    /// Events in the archive.
    pub archived: u64,
    /// Which of these counts are estimates.
    pub estimated: Estimated,
    /// The age of the oldest pending event that is or was due.
    pub oldest_pending_seconds: Option<f64>,
    /// Routes that an operator has paused.
    pub paused: BTreeSet<String>,
}

/// Pending events, counted by status (`new`, `retry`) and again by what they wait for (the other four).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Pending {
    /// Never failed.
    pub new: u64,
    /// Failed at least once, and to be tried again.
    pub retry: u64,
    /// Due now and not leased.
    pub due: u64,
    /// Leased by an engine.
    pub leased: u64,
    /// Waiting for a route that is paused, or whose circuit breaker is open.
    pub parked: u64,
    /// Waiting for their due time: delayed events and retries.
    pub scheduled: u64,
}

/// The counts of [`Stats`] that are estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Estimated {
    /// Whether all counts in `pending` are.
    pub pending: bool,
    /// Whether `done` is.
    pub done: bool,
    /// Whether `dead` is.
    pub dead: bool,
    /// Whether `archived` is.
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

/// Pending events in groups, by type or by tenant.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Backlog {
    /// The groups, the largest first.
    pub groups: Vec<PendingGroup>,
    /// Whether `groups` has all groups and counts every pending event.
    pub complete: bool,
}

/// Pending events of one type or tenant.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct PendingGroup {
    /// The type or the tenant; null for events without a tenant.
    pub key: Option<String>,
    /// The number of events.
    pub count: u64,
    /// The age of the oldest event.
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

/// A row without its headers and its payload.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Row {
    /// The insertion number.
    pub seq: i64,
    /// The id of the event.
    pub id: String,
    /// The type of the event.
    pub event_type: String,
    /// The type of its aggregate.
    pub aggregate_type: String,
    /// The id of its aggregate.
    pub aggregate_id: Option<String>,
    /// The tenant of the event.
    pub tenant_id: Option<String>,
    /// The size of the payload.
    pub payload_bytes: u64,
    /// The state of the event.
    #[schemars(with = "String", extend("enum" = ["NEW", "RETRY", "DONE", "DEAD", "ARCHIVED"]))]
    pub status: Status,
    /// The number of failed attempts.
    pub attempts: u32,
    /// The number of deferrals, which do not count as attempts.
    pub deferrals: u32,
    /// The number of leases that ended without an outcome, because their engine died.
    pub lost_leases: u32,
    /// The number of replays by operators.
    pub replays: u32,
    /// The closed route that the event waits for.
    pub parked: Option<String>,
    /// The destinations of a fan-out that have the event already.
    pub progress: BTreeSet<String>,
    /// When the event is due: when it was inserted, after its delay, or at its next attempt.
    pub available_at: Time,
    /// When the event happened, by the clock of the producer.
    pub created_at: Time,
    /// When the row was inserted, by the clock of the store.
    pub inserted_at: Time,
    /// When the event became DONE or DEAD.
    pub done_at: Option<Time>,
    /// The error of the last failed attempt, or the reason why the event is DEAD.
    pub last_error: Option<String>,
    /// The engine that has the lease.
    pub locked_by: Option<String>,
    /// The start of the lease.
    pub locked_at: Option<Time>,
    /// The end of the lease.
    pub lease_until: Option<Time>,
    /// What in this row cannot be decoded; null if all of it can.
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
            lease_until: row.lease_until.map(Time),
            malformed: row.malformed.clone(),
        }
    }
}

/// A row together with its event.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Event {
    /// The row.
    #[serde(flatten)]
    pub row: Row,
    /// The topic that the producer chose.
    pub topic: Option<String>,
    /// The media type of the payload.
    pub content_type: Option<String>,
    /// The version of the payload's schema.
    pub schema_version: Option<u32>,
    /// The headers; left out for a viewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// The payload; left out for a viewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
}

impl Event {
    /// The event without headers and payload, which may contain personal data.
    pub(crate) fn without_content(detail: &EventDetail) -> Self {
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
    /// The events, oldest first.
    pub events: Vec<Row>,
    /// The `after` of the next page; null on the last.
    pub next: Option<i64>,
}

impl From<&Page<EventRow>> for Events {
    fn from(page: &Page<EventRow>) -> Self {
        Self { events: page.items.iter().map(Row::from).collect(), next: page.next }
    }
}

/// The number of events that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Count {
    /// The number.
    pub count: u64,
}

/// DEAD events in groups.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Groups {
    /// The groups, the largest first.
    pub groups: Vec<DeadGroup>,
}

/// DEAD events of one type with one reason.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct DeadGroup {
    /// The aggregate type of the events.
    pub aggregate_type: String,
    /// The event type.
    pub event_type: String,
    /// The beginning of the reason.
    pub reason: String,
    /// The number of events.
    pub count: u64,
    /// When the first of them became DEAD.
    pub first: Option<Time>,
    /// When the last of them became DEAD.
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

/// The result of a change of events.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Changed {
    /// The action.
    #[schemars(extend("enum" = ["replay", "discard", "purge"]))]
    pub action: String,
    /// The number of events that were changed.
    pub changed: u64,
    /// Whether more events may match: repeat the request until this is false.
    pub more: bool,
    /// The requested ids that are not those of DEAD events.
    pub unchanged: Vec<String>,
}

/// The result of pausing or resuming a route.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct RouteChanged {
    /// The action.
    #[schemars(extend("enum" = ["pause", "resume"]))]
    pub action: String,
    /// The name of the route.
    pub route: String,
    /// Whether this changed the route; false if it was paused, or not paused, already.
    pub changed: bool,
}

/// One page of the actions of operators.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Audit {
    /// The actions, newest first.
    pub entries: Vec<AuditEntry>,
    /// The `after` of the next page; null on the last.
    pub next: Option<i64>,
}

impl From<&Page<admin::AuditEntry>> for Audit {
    fn from(page: &Page<admin::AuditEntry>) -> Self {
        Self { entries: page.items.iter().map(AuditEntry::from).collect(), next: page.next }
    }
}

/// One action of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct AuditEntry {
    /// The number of the entry.
    pub seq: i64,
    /// The time of the action, by the clock of the store.
    pub at: Time,
    /// The operator: `api:NAME` for a token of the API.
    pub actor: String,
    /// `replay`, `discard`, `purge`, `pause` or `resume`.
    pub action: String,
    /// An id, a filter or a route.
    pub target: String,
    /// The number of rows that were changed.
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

/// Everything that looks wrong with an outbox.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Findings {
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
}

/// Something that looks wrong.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct Finding {
    /// A code for programs, which does not change from release to release.
    pub code: String,
    /// The severity.
    #[schemars(with = "String", extend("enum" = ["note", "warning", "problem"]))]
    pub severity: Severity,
    /// What was observed.
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

/// One line of a tail: the outcome of one attempt. It contains no payload, header or error text, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TailLine {
    /// The time of the outcome, by the clock of the delivering process.
    pub at: Time,
    /// The id of the event.
    pub id: String,
    /// The type of the event.
    pub event_type: String,
    /// The type of its aggregate.
    pub aggregate_type: String,
    /// The id of its aggregate.
    pub aggregate_id: Option<String>,
    /// The tenant of the event.
    pub tenant_id: Option<String>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// `done`, `retry`, `deferred`, `dead`, `unreachable` or `busy`.
    pub outcome: String,
}

/// A line of a tail in place of the lines that a slow reader missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct MissedLines {
    /// The number of lines that were missed.
    pub missed: u64,
}
