//! The operator's door to a store: what waits, what is late, what died and why.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::StoreError;
use crate::event::EventId;
use crate::row::{EventDetail, EventRow, Status};
use crate::store::Purge;
use crate::time::Timestamp;

/// Looks into a store and mends what needs a person. The command line and the dashboard speak
/// to this trait and contain no SQL; the engine does not see it.
///
/// # Contract
///
/// Every list is bounded and paged by keyset. Every call that changes something takes the name
/// of the person or program that asks (`actor`) and leaves an [`AuditEntry`], in the same
/// transaction as the change where the store has one; a call that changes nothing leaves none.
/// A change is one guarded statement: two operators who press the same button change each row once.
/// Zero rows is an answer, not an error. There are no default methods.
#[async_trait]
pub trait Admin: fmt::Debug + Send + Sync + 'static {
    /// How much is waiting, late, dead and done.
    async fn stats(&self) -> Result<Stats, StoreError>;

    /// How many rows match.
    async fn count(&self, filter: &Filter) -> Result<u64, StoreError>;

    /// One page of the rows that match, oldest first. A page may be short, or empty, and still have
    /// a `next`: a store may stop after looking at enough rows.
    async fn list(&self, filter: &Filter, page: &PageRequest) -> Result<Page<EventRow>, StoreError>;

    /// One event with all that its row knows; the archive is looked into last.
    async fn get(&self, id: &EventId) -> Result<Option<EventDetail>, StoreError>;

    /// DEAD rows grouped by type and reason, largest group first, at most `limit` groups. A store
    /// may group the newest ten thousand only.
    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, StoreError>;

    /// Sends one DEAD event out again: NEW and due now, with attempts, deferrals, lost leases,
    /// error, lease and `done_at` reset and `replays` raised. Answers false if it is not DEAD.
    async fn replay(&self, id: &EventId, replay: &Replay<'_>) -> Result<bool, StoreError>;

    /// Replays up to `limit` DEAD events that match, oldest first; answers how many. Call it again
    /// until it answers zero.
    async fn replay_all(&self, filter: &Filter, limit: usize, replay: &Replay<'_>)
    -> Result<u64, StoreError>;

    /// Deletes up to `limit` DEAD events that match, oldest first; answers how many.
    async fn discard(&self, filter: &Filter, limit: usize, actor: &str) -> Result<u64, StoreError>;

    /// As [`Store::purge`](crate::Store::purge), on an operator's word.
    async fn purge(&self, purge: &Purge, actor: &str) -> Result<u64, StoreError>;

    /// Stops deliveries of a route on every engine; its events are parked. Answers false if it
    /// was paused already.
    async fn pause(&self, route: &str, actor: &str) -> Result<bool, StoreError>;

    /// Ends a pause. Answers false if there was none.
    async fn resume(&self, route: &str, actor: &str) -> Result<bool, StoreError>;

    /// What looks wrong with this store, with what to do about it.
    async fn diagnose(&self) -> Result<Vec<Finding>, StoreError>;

    /// One page of what operators did, newest first. The bound is the entry's `seq`.
    async fn audit(&self, page: &PageRequest) -> Result<Page<AuditEntry>, StoreError>;
}

/// Counts of a whole outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Stats {
    /// NEW rows, leased, parked and delayed ones included.
    pub new: u64,
    /// RETRY rows, likewise.
    pub retry: u64,
    /// DONE rows that are kept; may be an estimate.
    pub done: u64,
    /// DEAD rows.
    pub dead: u64,
    /// Rows in the archive; may be an estimate.
    pub archived: u64,
    /// Pending rows that are due now and not leased.
    pub due: u64,
    /// Pending rows on lease.
    pub leased: u64,
    /// Pending rows that wait for a closed route.
    pub parked: u64,
    /// Pending rows that wait for their time.
    pub scheduled: u64,
    /// The age of the oldest pending row that has been due once.
    pub oldest_pending: Option<Duration>,
    /// Routes that an operator has paused.
    pub paused: BTreeSet<String>,
}

/// Which rows are meant. An empty filter means all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this status.
    pub status: Option<Status>,
    /// Only this id.
    pub id: Option<EventId>,
    /// Only this event type.
    pub event_type: Option<String>,
    /// Only this aggregate type.
    pub aggregate_type: Option<String>,
    /// Only this aggregate id.
    pub aggregate_id: Option<String>,
    /// Only this tenant.
    pub tenant_id: Option<String>,
    /// Only rows parked for this route.
    pub parked: Option<String>,
    /// Only rows whose `last_error` contains this text.
    pub error_contains: Option<String>,
}

impl Filter {
    /// All rows of one status.
    pub fn status(status: Status) -> Self {
        Self { status: Some(status), ..Self::default() }
    }

    /// All DEAD rows.
    pub fn dead() -> Self {
        Self::status(Status::Dead)
    }

    /// One event.
    pub fn id(id: impl Into<EventId>) -> Self {
        Self { id: Some(id.into()), ..Self::default() }
    }
}

/// What an [`AuditEntry`] names as its target: every condition, or `all`.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions = [
            ("status", self.status.map(Status::name)),
            ("id", self.id.as_ref().map(EventId::as_str)),
            ("event_type", self.event_type.as_deref()),
            ("aggregate_type", self.aggregate_type.as_deref()),
            ("aggregate_id", self.aggregate_id.as_deref()),
            ("tenant_id", self.tenant_id.as_deref()),
            ("parked", self.parked.as_deref()),
            ("error_contains", self.error_contains.as_deref()),
        ];
        let mut separator = "";
        for (name, value) in conditions {
            let Some(value) = value else { continue };
            write!(f, "{separator}{name}={value}")?;
            separator = " ";
        }
        if separator.is_empty() { f.write_str("all") } else { Ok(()) }
    }
}

/// Which page to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// Continue after this `seq`, the `next` of the page before. None starts at the beginning.
    pub after: Option<i64>,
    /// At most so many entries; stores cut it to [`PageRequest::MAX_LIMIT`].
    pub limit: usize,
}

impl PageRequest {
    /// The largest page.
    pub const MAX_LIMIT: usize = 1000;

    /// The first page with at most `limit` entries.
    pub fn first(limit: usize) -> Self {
        Self { after: None, limit }
    }

    /// The page that follows one whose `next` was this.
    pub fn after(seq: i64, limit: usize) -> Self {
        Self { after: Some(seq), limit }
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Page<T> {
    /// The entries.
    pub items: Vec<T>,
    /// Where the next page begins; none on the last.
    pub next: Option<i64>,
}

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub struct Replay<'a> {
    /// Who asks.
    pub actor: &'a str,
    /// Deliver to every destination of a fan-out again, also to those that have the event.
    pub forget_progress: bool,
}

impl<'a> Replay<'a> {
    /// A replay that keeps the progress of a fan-out.
    pub fn by(actor: &'a str) -> Self {
        Self { actor, forget_progress: false }
    }
}

/// DEAD events of one type with one reason.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DeadGroup {
    /// Their aggregate type.
    pub aggregate_type: String,
    /// Their event type.
    pub event_type: String,
    /// The first 200 characters of their reason.
    pub reason: String,
    /// How many there are.
    pub count: u64,
    /// When the first of them died.
    pub first: Option<Timestamp>,
    /// When the last of them died.
    pub last: Option<Timestamp>,
}

/// Something that looks wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was seen.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

impl Finding {
    fn new(severity: Severity, what: String, advice: &str) -> Self {
        Self { severity, what, advice: advice.to_owned() }
    }

    /// The oldest pending event has waited for this long; none if that is less than five minutes.
    pub fn late(age: Duration) -> Option<Self> {
        const LATE: Duration = Duration::from_secs(5 * 60);
        let shown = humantime::format_duration(Duration::from_secs(age.as_secs()));
        (age >= LATE).then(|| {
            Self::new(
                Severity::Problem,
                format!("the oldest pending event has waited for {shown}"),
                "see whether an engine runs, and which destination is slow or closed",
            )
        })
    }

    /// So many events are DEAD; none if none is.
    pub fn dead(count: u64) -> Option<Self> {
        (count > 0).then(|| {
            Self::new(
                Severity::Warning,
                format!("DEAD events: {count}"),
                "look at their reasons, mend the cause, then replay or discard them",
            )
        })
    }

    /// So many pending rows cannot be read; none if all can.
    pub fn unreadable(count: u64) -> Option<Self> {
        (count > 0).then(|| {
            Self::new(
                Severity::Warning,
                format!("pending rows that cannot be read: {count}"),
                "mend the program that writes them; an engine makes them DEAD with the reason",
            )
        })
    }

    /// So many events wait for a route that no operator has paused.
    pub fn parked(route: &str, count: u64) -> Self {
        Self::new(
            Severity::Note,
            format!("events that wait for the route {route:?}, which nobody has paused: {count}"),
            "see whether its destination can be reached, and whether any engine knows the route",
        )
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Will hurt some day.
    Warning,
    /// Hurts now.
    Problem,
}

/// One thing an operator did.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct AuditEntry {
    /// The entry's number.
    pub seq: i64,
    /// When, by the store's clock.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// What: `replay`, `discard`, `purge`, `pause` or `resume`.
    pub action: String,
    /// To what: an id, a filter or a route.
    pub target: String,
    /// How many rows it changed.
    pub rows: u64,
}
