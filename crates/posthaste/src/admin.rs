//! Operators' access to a store: what waits, what is late, what is DEAD and why.

mod backlog;
mod finding;
mod finding_text;
mod row_findings;
mod server_findings;
mod tolerance;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::StoreError;
use crate::event::EventId;
use crate::row::{EventDetail, EventRow, Status};
use crate::store::Purge;
use crate::time::Timestamp;

pub use self::backlog::{Backlog, BacklogBy, BacklogGroup};
pub use self::finding::{Finding, Severity};
pub use self::row_findings::{LostLeases, ParkedRoute, PausedRoute, RowObservations};
pub use self::tolerance::Tolerance;
pub use crate::route::ParkReason;

/// Reads a store and changes what needs an operator. The command line and the dashboard use this trait and contain no
/// SQL; the engine does not use it.
///
/// # Contract
///
/// Every list is bounded and paged by keyset. Every call that changes something takes the name of the person or program
/// behind it (`actor`) and leaves an [`AuditEntry`], in the same transaction as the change if the store has
/// transactions. A call that changes nothing leaves none. A change is one guarded statement, so two operators who press
/// the same button change each row once. Zero rows is a result, not an error. There are no default methods.
#[async_trait]
pub trait Admin: fmt::Debug + Send + Sync + 'static {
    /// How many events wait, are late, DEAD and DONE. Returns within a second, whatever the number of rows: each count
    /// is exact up to [`Stats::MAX_EXACT_COUNT`]; above it a store may estimate and marks the count as estimated.
    async fn stats(&self) -> Result<Stats, StoreError>;

    /// Pending events by type or by tenant: the largest groups first, at most `limit` of them (cut to
    /// [`PageRequest::MAX_LIMIT`]). A store reads the oldest [`Backlog::MAX_ROWS`] pending rows at most.
    async fn backlog(&self, by: BacklogBy, limit: usize) -> Result<Backlog, StoreError>;

    /// How many rows match.
    async fn count(&self, filter: &Filter) -> Result<u64, StoreError>;

    /// One page of the rows that match, oldest first. A page may be short or empty and still have a `next`, because a
    /// store may stop after reading enough rows.
    async fn list(&self, filter: &Filter, page: &PageRequest) -> Result<Page<EventRow>, StoreError>;

    /// One event with everything in its row. The archive is searched last.
    async fn get(&self, id: &EventId) -> Result<Option<EventDetail>, StoreError>;

    /// DEAD rows grouped by type and reason, the largest group first, at most `limit` groups. A store may group only
    /// the newest ten thousand.
    async fn dead_groups(&self, limit: usize) -> Result<Vec<DeadGroup>, StoreError>;

    /// Sends one DEAD event again: NEW and due now. Resets attempts, deferrals, lost leases, error, lease and
    /// `done_at`, and raises `replays`. Returns `false` if the event is not DEAD.
    async fn replay(&self, id: &EventId, replay: &Replay<'_>) -> Result<bool, StoreError>;

    /// Replays up to `limit` DEAD events that match, oldest first. Returns how many. Call it until it returns zero.
    async fn replay_all(&self, filter: &Filter, limit: usize, replay: &Replay<'_>)
    -> Result<u64, StoreError>;

    /// Deletes up to `limit` DEAD events that match, oldest first. Returns how many.
    async fn discard(&self, filter: &Filter, limit: usize, actor: &str) -> Result<u64, StoreError>;

    /// The same as [`Store::purge_batch`](crate::Store::purge_batch), for an operator.
    async fn purge(&self, purge: &Purge, actor: &str) -> Result<u64, StoreError>;

    /// Stops deliveries of a route on every engine. Its events are parked. Returns `false` if it was paused already.
    async fn pause(&self, route: &str, actor: &str) -> Result<bool, StoreError>;

    /// Ends a pause. Returns `false` if there was none.
    async fn resume(&self, route: &str, actor: &str) -> Result<bool, StoreError>;

    /// Problems of this store and the server behind it, each with what to do. Anything within the tolerance is left
    /// out. Reads a bounded number of rows. What a server does not report, for example for lack of a privilege, is
    /// neither an error nor a finding.
    async fn diagnose(&self, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError>;

    /// One page of operators' actions, newest first. The page ends at the `seq` of an entry.
    async fn audit(&self, page: &PageRequest) -> Result<Page<AuditEntry>, StoreError>;
}

/// Counts of an outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// NEW rows, including leased, parked and delayed ones.
    pub new: u64,
    /// RETRY rows, including leased, parked and delayed ones.
    pub retry: u64,
    /// DONE rows that are kept.
    pub done: u64,
    /// DEAD rows.
    pub dead: u64,
    /// Rows in the archive.
    pub archived: u64,
    /// Pending rows that are due now and not leased.
    pub due: u64,
    /// Pending rows on lease.
    pub leased: u64,
    /// Pending rows that wait for a closed route.
    pub parked: u64,
    /// Pending rows that are not due yet.
    pub scheduled: u64,
    /// The age of the oldest pending row that has been due once.
    pub oldest_pending: Option<Duration>,
    /// Routes that an operator has paused.
    pub paused: BTreeSet<String>,
    /// Which of these counts are estimates.
    pub estimated: Estimated,
}

impl Stats {
    /// Up to this number of rows every count is exact.
    pub const MAX_EXACT_COUNT: u64 = 100_000;

    /// Counts of pending rows only; every other count is zero.
    pub fn of_pending(counts: PendingCounts) -> Self {
        let PendingCounts { new, retry, due, leased, parked, scheduled } = counts;
        Self { new, retry, due, leased, parked, scheduled, ..Self::default() }
    }

    /// Treats the counts of pending rows as those of a sample, and turns them into an estimate of `total` rows. The
    /// estimated counts add up even if those of the sample do not: new and retried rows are as many as due, leased,
    /// parked and scheduled ones.
    pub fn estimate_pending(&mut self, total: u64) {
        ([self.retry], self.new) = split(total, [self.retry], self.new);
        ([self.leased, self.parked, self.scheduled], self.due) =
            split(total, [self.leased, self.parked, self.scheduled], self.due);
        self.estimated.pending = true;
    }
}

/// Splits `total` in proportion to the counts; `rest` gets the remainder. Each share is taken from what the shares
/// before it left over, so rounding never makes the sum larger than `total`, and a count of zero stays zero.
fn split<const N: usize>(total: u64, counts: [u64; N], rest: u64) -> ([u64; N], u64) {
    let mut left = total;
    let mut seen = u128::from(rest) + counts.iter().map(|&count| u128::from(count)).sum::<u128>();
    let shares = counts.map(|count| {
        let share = (u128::from(left) * u128::from(count)).checked_div(seen).unwrap_or(0) as u64;
        left -= share;
        seen -= u128::from(count);
        share
    });
    (shares, left)
}

/// Counts of pending rows: the same rows by status (`new`, `retry`) and by state (the rest). Exhaustive, so that no
/// store forgets a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingCounts {
    /// NEW rows.
    pub new: u64,
    /// RETRY rows.
    pub retry: u64,
    /// Rows that are due now and not leased.
    pub due: u64,
    /// Rows on lease.
    pub leased: u64,
    /// Rows that wait for a closed route.
    pub parked: u64,
    /// Rows that are not due yet.
    pub scheduled: u64,
}

/// Which counts of [`Stats`] are estimates. Default: none. Exhaustive, because a reader must know which counts are
/// exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Estimated {
    /// `new`, `retry`, `due`, `leased`, `parked` and `scheduled`. Estimates of them still add up.
    pub pending: bool,
    /// `done`.
    pub done: bool,
    /// `dead`.
    pub dead: bool,
    /// `archived`.
    pub archived: bool,
}

/// Selects rows. An empty filter selects all of them.
///
/// ```
/// use posthaste::admin::Filter;
///
/// let filter = Filter::dead().with_event_type("OrderPlaced").with_tenant_id("acme");
/// assert_eq!(filter.to_string(), "status=DEAD event_type=OrderPlaced tenant_id=acme");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Only rows that are parked for this reason: a [`ParkReason`] as text, as it is in the row.
    pub parked: Option<String>,
    /// Only rows whose `last_error` contains this text.
    pub error_contains: Option<String>,
    /// Only rows that ended at least this long ago by the store's clock, or that were inserted this long ago if they
    /// have no `done_at`.
    pub older_than: Option<Duration>,
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

    /// Only rows of this status.
    #[must_use]
    pub fn with_status(self, status: Status) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Only the event of this id.
    #[must_use]
    pub fn with_id(self, id: impl Into<EventId>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Only events of this type.
    #[must_use]
    pub fn with_event_type(self, event_type: impl Into<String>) -> Self {
        Self { event_type: Some(event_type.into()), ..self }
    }

    /// Only events of aggregates of this type.
    #[must_use]
    pub fn with_aggregate_type(self, aggregate_type: impl Into<String>) -> Self {
        Self { aggregate_type: Some(aggregate_type.into()), ..self }
    }

    /// Only events of the aggregate of this id.
    #[must_use]
    pub fn with_aggregate_id(self, aggregate_id: impl Into<String>) -> Self {
        Self { aggregate_id: Some(aggregate_id.into()), ..self }
    }

    /// Only events of this tenant.
    #[must_use]
    pub fn with_tenant_id(self, tenant_id: impl Into<String>) -> Self {
        Self { tenant_id: Some(tenant_id.into()), ..self }
    }

    /// Only rows that are parked for this reason.
    ///
    /// ```
    /// use posthaste::admin::{Filter, ParkReason};
    ///
    /// let filter = Filter::default().with_parked(ParkReason::Route("mail"));
    /// assert_eq!(filter.to_string(), "parked=mail");
    /// ```
    #[must_use]
    pub fn with_parked(self, reason: ParkReason<'_>) -> Self {
        Self { parked: Some(reason.to_string()), ..self }
    }

    /// Only rows whose `last_error` contains this text.
    #[must_use]
    pub fn with_error_containing(self, text: impl Into<String>) -> Self {
        Self { error_contains: Some(text.into()), ..self }
    }

    /// Only rows that ended, or were inserted, at least this long ago: see [`older_than`](Self::older_than).
    #[must_use]
    pub fn with_older_than(self, age: Duration) -> Self {
        Self { older_than: Some(age), ..self }
    }
}

/// The target in an [`AuditEntry`]: every condition, or `all`.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let older_than = self.older_than.map(|age| humantime::format_duration(age).to_string());
        let conditions = [
            ("status", self.status.map(Status::name)),
            ("id", self.id.as_ref().map(EventId::as_str)),
            ("event_type", self.event_type.as_deref()),
            ("aggregate_type", self.aggregate_type.as_deref()),
            ("aggregate_id", self.aggregate_id.as_deref()),
            ("tenant_id", self.tenant_id.as_deref()),
            ("parked", self.parked.as_deref()),
            ("error_contains", self.error_contains.as_deref()),
            ("older_than", older_than.as_deref()),
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
#[non_exhaustive]
pub struct PageRequest {
    /// Continues after this `seq`, the `next` of the previous page. `None` starts at the beginning.
    pub after: Option<i64>,
    /// The most entries; stores cut it to [`PageRequest::MAX_LIMIT`].
    pub limit: usize,
}

impl PageRequest {
    /// The largest page.
    pub const MAX_LIMIT: usize = 1000;

    /// The first page with at most `limit` entries.
    pub fn first(limit: usize) -> Self {
        Self { after: None, limit }
    }

    /// The page after one with this `next`; the first page for `None`.
    pub fn after(seq: impl Into<Option<i64>>, limit: usize) -> Self {
        Self { after: seq.into(), limit }
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// The entries.
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<i64>,
}

impl<T> Page<T> {
    /// These entries, and where the next page begins.
    pub fn new(items: Vec<T>, next: Option<i64>) -> Self {
        Self { items, next }
    }
}

/// How to replay.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Replay<'a> {
    /// The operator or program that replays.
    pub actor: &'a str,
    /// Delivers to every destination of a fan-out again, including those that have the event.
    pub forget_progress: bool,
}

impl<'a> Replay<'a> {
    /// A replay that delivers only to destinations without the event.
    pub fn by(actor: &'a str) -> Self {
        Self { actor, forget_progress: false }
    }

    /// Sets whether to deliver to every destination of a fan-out again. Default: only to those without the event.
    #[must_use]
    pub fn with_forget_progress(self, forget_progress: bool) -> Self {
        Self { forget_progress, ..self }
    }
}

/// DEAD events of one type with one reason.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct DeadGroup {
    /// Their aggregate type.
    pub aggregate_type: String,
    /// Their event type.
    pub event_type: String,
    /// The first 200 characters of the reason.
    pub reason: String,
    /// How many there are.
    pub count: u64,
    /// When the first of them became DEAD.
    pub first: Option<Timestamp>,
    /// When the last of them became DEAD.
    pub last: Option<Timestamp>,
}

impl DeadGroup {
    /// An empty group of this type and reason.
    pub fn new(aggregate_type: String, event_type: String, reason: String) -> Self {
        Self { aggregate_type, event_type, reason, count: 0, first: None, last: None }
    }

    /// The largest `limit` groups of these DEAD rows. For a store that cannot group them in a statement.
    pub fn largest(dead: impl IntoIterator<Item = EventRow>, limit: usize) -> Vec<Self> {
        const MAX_REASON_CHARS: usize = 200;
        let mut groups: HashMap<(String, String, String), Self> = HashMap::new();
        for row in dead {
            let error = row.last_error.unwrap_or_default();
            let reason: String = error.chars().take(MAX_REASON_CHARS).collect();
            let key = (row.aggregate_type, row.event_type, reason);
            let group = groups.entry(key).or_insert_with_key(|(aggregate_type, event_type, reason)| {
                let group = Self::new(aggregate_type.clone(), event_type.clone(), reason.clone());
                group.with_deaths(0, row.done_at, row.done_at)
            });
            group.count += 1;
            group.first = group.first.min(row.done_at);
            group.last = group.last.max(row.done_at);
        }
        let mut groups: Vec<Self> = groups.into_values().collect();
        groups.sort_by(|a, b| {
            b.count.cmp(&a.count).then_with(|| (&a.event_type, &a.reason).cmp(&(&b.event_type, &b.reason)))
        });
        groups.truncate(limit.min(PageRequest::MAX_LIMIT));
        groups
    }

    /// Sets the number of events, and when the first and the last of them became DEAD.
    #[must_use]
    pub fn with_deaths(self, count: u64, first: Option<Timestamp>, last: Option<Timestamp>) -> Self {
        Self { count, first, last, ..self }
    }
}

/// One action of an operator.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// The entry's number.
    pub seq: i64,
    /// When, by the store's clock.
    pub at: Timestamp,
    /// The operator or program.
    pub actor: String,
    /// The action: `replay`, `discard`, `purge`, `pause` or `resume`.
    pub action: String,
    /// The target: an id, a filter or a route.
    pub target: String,
    /// How many rows it changed.
    pub rows: u64,
}

impl AuditEntry {
    /// An entry, in the order of its fields.
    pub fn new(seq: i64, at: Timestamp, actor: String, action: String, target: String, rows: u64) -> Self {
        Self { seq, at, actor, action, target, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_names_every_condition() {
        let week = Duration::from_secs(7 * 24 * 3600);
        let filter = Filter::dead().with_older_than(week).with_tenant_id("acme");
        assert_eq!(filter.to_string(), "status=DEAD tenant_id=acme older_than=7days");
        assert_eq!(Filter::default().with_older_than(week).to_string(), "older_than=7days");
        assert_eq!(Filter::default().to_string(), "all");
    }

    #[test]
    fn estimated_counts_of_pending_rows_add_up() {
        for total in [0, 1, 7, 100_001, 9_999_999, u64::MAX] {
            let mut stats =
                Stats { new: 5, retry: 2, due: 3, leased: 2, parked: 1, scheduled: 1, ..Stats::default() };
            stats.estimate_pending(total);
            assert_eq!(stats.new + stats.retry, total);
            assert_eq!(stats.due + stats.leased + stats.parked + stats.scheduled, total);
            assert!(stats.estimated.pending && stats.retry <= stats.new, "{stats:?}");
        }
    }

    #[test]
    fn counts_that_were_rounded_one_by_one_still_add_up() {
        let mut random = fastrand::Rng::with_seed(8);
        for _ in 0..10_000 {
            let (weight, new, retry) = (random.f64() * 3.0, random.u64(..100), random.u64(1..100));
            let leased = random.u64(..=new + retry);
            let rounded = |count: u64| (weight * count as f64) as u64;
            let sample = Stats { new: rounded(new), retry: rounded(retry), ..Stats::default() };
            let total = random.u64(100_001..10_000_000);

            let parked = rounded(new + retry).max(1);
            let mut all_parked = Stats { parked, ..sample.clone() };
            all_parked.estimate_pending(total);
            assert_eq!((all_parked.new + all_parked.retry, all_parked.parked), (total, total));
            assert_eq!((all_parked.due, all_parked.leased, all_parked.scheduled), (0, 0, 0));

            let (leased, parked) = (rounded(leased), rounded(new + retry - leased));
            let mut mixed = Stats { leased, parked, due: rounded(1), ..sample };
            mixed.estimate_pending(total);
            assert_eq!(mixed.new + mixed.retry, total);
            assert_eq!(mixed.due + mixed.leased + mixed.parked + mixed.scheduled, total);
        }
    }

    #[test]
    fn estimate_from_an_empty_sample_is_all_new_and_due() {
        let mut stats = Stats::default();
        stats.estimate_pending(9);
        assert_eq!((stats.new, stats.due), (9, 9));
    }
}
