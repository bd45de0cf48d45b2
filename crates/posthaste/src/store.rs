//! The engine's door to a store: what every store promises.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::error::StoreError;
use crate::event::{Event, EventId};
use crate::time::Timestamp;

/// An event with so many lost leases is a *suspect*: it may be what kills its owners. Claims raise the count no
/// further; from here on only deliveries that were begun count ([`Renew::start`]).
pub const SUSPECT_LOST_LEASES: u32 = 10;

/// With so many lost leases an event is given up: the engine that claims it settles it as DEAD.
pub const MAX_LOST_LEASES: u32 = 20;

/// Where committed events wait until they are settled.
///
/// # Contract
///
/// **A lease is a due time.** A row is *pending* while its status is NEW or RETRY and *due* when
/// its `available_at` has passed. Claiming moves `available_at` to the lease's end; renewing
/// moves it on; releasing sets it to now. A lapsed lease needs no second condition.
///
/// **A row is held** by the owner and token of its last claim (or of its born-leased INSERT)
/// until a settlement, a release or a park consumes the token, or another claim replaces it.
/// A lease that has lapsed but that nobody took over is still held. A call that names a lease
/// which is not held changes nothing and says so; that is never an error.
///
/// **A lease names its row by id and `seq` together.** Either alone can repeat: numbers are given
/// twice after a failover or a restore, and an id can be written again after its row was deleted.
///
/// **Terminal rows** (DONE, DEAD) are changed by no call here but [`purge`](Store::purge).
///
/// **The store decides** retry or dead, at write time, from its own attempt count, and every
/// comparison of times uses the store's own clock. `now` in a request replaces that clock; it is
/// there for tests, and the engine leaves it out.
///
/// **Only committed rows** are seen by any call, and a rolled-back row never existed.
///
/// **Calls may be dropped** at any await and repeated: a call took effect entirely or not at all.
/// Implementations bound every wait; the engine bounds it once more.
///
/// There are no default methods, so that a wrapper cannot forget one.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Leases up to `limit` due rows to the owner, in the order of [`Claim::order`].
    ///
    /// Each row claimed has `locked_by`, `locked_at` and the token set, `parked` cleared, and
    /// becomes due again when the lease ends. No row is leased to two claims at once. A row
    /// whose previous lease lapsed in the hands of *another* owner has `lost_leases` raised, up to
    /// [`SUSPECT_LOST_LEASES`]; an owner that takes over its own lapsed lease lost only an answer. A row
    /// that cannot be decoded is leased as well and answered in [`Claimed::malformed`]; it never
    /// hides the others. `limit: 0` claims nothing and still answers [`Claimed::paused`].
    ///
    /// The claim ends before the first row that does not fit into [`Claim::max_bytes`], and no
    /// payload is read that is not answered.
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError>;

    /// Writes outcomes back, and answers what became of each: exactly one answer per settlement, in
    /// the order of the request. Each event stands in a request at most once. A delay that the
    /// store cannot represent is cut to the longest it can.
    ///
    /// A settlement whose lease is not held changes nothing ([`Settled::Stale`]), except that
    /// [`Verdict::Done`] is accepted from anyone while the row is pending. A store with several servers may
    /// return [`Settled::Unknown`] for the rows of one that is down, so that the others go on.
    async fn settle(&self, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError>;

    /// Moves the end of leases to `now + lease` and answers those that are still held.
    ///
    /// The engine also asks this to learn which rows of an unproven commit exist.
    async fn renew(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError>;

    /// Gives held rows back, due at once, as if they had not been claimed; answers how many.
    async fn release(&self, release: &Release<'_>) -> Result<u64, StoreError>;

    /// Moves held rows out of the claims' way because their route is closed: `parked` is set to
    /// the route, they become due `duration` from now, attempts stay. Answers how many.
    async fn park(&self, park: &Park<'_>) -> Result<u64, StoreError>;

    /// Makes up to `limit` rows parked for this route due now, oldest `seq` first; answers how
    /// many. A row that was claimed since it was parked is not touched.
    async fn unpark(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError>;

    /// Deletes or archives up to `limit` old rows; answers how many.
    async fn purge(&self, purge: &Purge) -> Result<u64, StoreError>;

    /// The age, by insertion time, of the oldest pending row that has been due once; none when
    /// there is no such row. Rows still in their first delay do not count: a row has been due if it
    /// is due now, is leased or parked, or has an error, a failed attempt, a deferral or a lost
    /// lease. A store may look at the oldest thousand pending rows only.
    async fn oldest_pending(&self, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError>;

    /// The store's wake-up: notified when there may be something to claim, by a commit of another process for
    /// example, if this store can tell. A hint: it may come for nothing and may miss a row, and the poller
    /// alone is enough.
    fn wake(&self) -> Option<Notifier>;
}

/// A shared store is a store.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store + ?Sized> Store for Arc<S> {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        (**self).claim(claim).await
    }

    async fn settle(&self, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
        (**self).settle(settle).await
    }

    async fn renew(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError> {
        (**self).renew(renew).await
    }

    async fn release(&self, release: &Release<'_>) -> Result<u64, StoreError> {
        (**self).release(release).await
    }

    async fn park(&self, park: &Park<'_>) -> Result<u64, StoreError> {
        (**self).park(park).await
    }

    async fn unpark(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError> {
        (**self).unpark(unpark).await
    }

    async fn purge(&self, purge: &Purge) -> Result<u64, StoreError> {
        (**self).purge(purge).await
    }

    async fn oldest_pending(&self, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        (**self).oldest_pending(now).await
    }

    fn wake(&self) -> Option<Notifier> {
        (**self).wake()
    }
}

/// Who holds a lease: one running engine, random at every start.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// The longest name, in characters.
    pub const MAX_CHARS: usize = 128;

    /// A new owner in this process, as operators meet it: name, host and process id before the random
    /// part.
    pub fn of_this_process(name: &str) -> Self {
        let host = gethostname::gethostname();
        let host: String = host.to_string_lossy().chars().take(40).collect();
        let name: String = name.chars().take(30).collect();
        Self::random(&format!("{name}@{host}:{}", std::process::id()))
    }

    /// A new owner: `prefix` and a random part, so that a restarted process never inherits the
    /// leases of the one before it.
    pub fn random(prefix: &str) -> Self {
        let prefix: String = prefix.chars().filter(|c| !c.is_control()).take(90).collect();
        Self(format!("{prefix}#{}", Uuid::new_v4().simple()).into())
    }

    /// The owner as it stands in `locked_by`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Owner {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fences write-backs: one value per claim call or born-leased INSERT, never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseToken(i64);

impl LeaseToken {
    /// A new token. 63 random bits: two claims of one row never meet the same one.
    pub fn random() -> Self {
        Self(fastrand::i64(1..))
    }

    /// The token as it stands in its column.
    pub fn as_i64(self) -> i64 {
        self.0
    }
}

impl From<i64> for LeaseToken {
    fn from(value: i64) -> Self {
        Self(value)
    }
}

/// Names one held row. `seq` is the store's own key and may be faster to look up than the id.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lease {
    /// The event.
    pub id: EventId,
    /// Its row's insertion number; zero in stores without one.
    pub seq: i64,
    /// The token it is held by.
    pub token: LeaseToken,
}

/// What to claim.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// Who claims.
    pub owner: &'a Owner,
    /// The token of this claim.
    pub token: LeaseToken,
    /// How long the lease lasts.
    pub lease: Duration,
    /// At most so many rows. The engine asks for whole batches or powers of two, so that a store may
    /// write the number into its statement.
    pub limit: usize,
    /// The payloads and headers of all rows together, as they are stored, have at most so many
    /// bytes. The first row is claimed whatever its size.
    pub max_bytes: usize,
    /// Which of the due rows come first.
    pub order: ClaimOrder,
    /// Rows inserted less than this ago are left out.
    pub skip_recent: Duration,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

/// Which due rows a claim takes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimOrder {
    /// By due time, then insertion: a failing row moves to the back.
    #[default]
    Due,
    /// By insertion alone, and never past a row that is on lease: while somebody works on an
    /// older event, nothing younger is claimed. Rows that wait for their time are stepped over.
    /// For strict mode. Such claims are serialised with each other, so that two at once do not
    /// step over what the other is taking; a store without insertion numbers answers
    /// [`StoreError::Unsupported`].
    Seq,
}

/// What a claim found.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// The rows now leased to the owner.
    pub events: Vec<Leased>,
    /// Rows leased to the owner that no engine can read; they have to be settled as dead.
    pub malformed: Vec<Malformed>,
    /// [`Claim::max_bytes`] ended the claim: the next row was due and did not fit.
    pub cut: bool,
    /// Routes that an operator has paused. May be up to a second old.
    pub paused: BTreeSet<String>,
    /// What rows are parked for, as it stands in `parked`: the first
    /// [`MAX_PARKED_NAMES`](Self::MAX_PARKED_NAMES) names. May be a second old, and more where the store is slow to
    /// say it: no claim waits for it.
    pub parked: BTreeSet<String>,
}

impl Claimed {
    /// The most names in [`parked`](Self::parked).
    pub const MAX_PARKED_NAMES: usize = 1000;
}

/// An event on lease.
#[derive(Clone, Debug)]
pub struct Leased {
    /// The lease it is held by.
    pub lease: Lease,
    /// The event.
    pub event: Event,
    /// How many attempts have failed so far.
    pub attempts: u32,
    /// How often its owner died, this claim's finding included.
    pub lost_leases: u32,
    /// How often an operator has replayed it.
    pub replays: u32,
    /// How long ago it was inserted, by the store's clock.
    pub age: Duration,
    /// The destinations of a fan-out that have it already.
    pub progress: BTreeSet<String>,
}

/// A row on lease that cannot be decoded.
#[derive(Clone, Debug)]
pub struct Malformed {
    /// The lease it is held by.
    pub lease: Lease,
    /// What is wrong with it, without its payload.
    pub reason: String,
}

/// Outcomes to write back.
#[derive(Clone, Debug)]
pub struct Settle<'a> {
    /// Who settles.
    pub owner: &'a Owner,
    /// What happened, one entry per event.
    pub settlements: &'a [Settlement],
    /// What becomes of a delivered row.
    pub on_done: OnDone,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

/// One event's outcome on its way to the store.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The lease the event was held by.
    pub lease: Lease,
    /// What to do with the row.
    pub verdict: Verdict,
    /// Destinations of a fan-out to add to `progress`, whatever the verdict.
    pub delivered: Vec<String>,
}

/// What to do with a row after an attempt to deliver it.
///
/// After [`Failed`](Self::Failed) and [`Deferred`](Self::Deferred) a row that stays pending has its `lost_leases`
/// set to zero: it was delivered, and its owner lived to say so. After [`Unreachable`](Self::Unreachable) it
/// was not delivered, so only a start that was counted ([`Renew::start`]) is taken back: a number above
/// [`SUSPECT_LOST_LEASES`] falls by one.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Delivered: DONE, `done_at` set, `last_error` cleared.
    Done,
    /// A failed attempt: `attempts` grows by one; at `backoff.max_attempts` the row is DEAD,
    /// otherwise RETRY and due after the delay for that count.
    Failed {
        /// What went wrong, at most [`LAST_ERROR_MAX_LENGTH`](crate::LAST_ERROR_MAX_LENGTH) characters.
        error: String,
        /// From which the store picks.
        backoff: Backoff,
    },
    /// Not now: NEW and due after the delay; attempts stay, `deferrals` grows by one.
    Deferred {
        /// How long to wait.
        delay: Duration,
    },
    /// Never: DEAD, `done_at` set; attempts stay.
    Dead {
        /// Why, kept as `last_error`.
        reason: String,
    },
    /// The destination was not there: the status stays, attempts stay, due after the delay.
    Unreachable {
        /// What went wrong, kept as `last_error`.
        error: String,
        /// How long to wait.
        delay: Duration,
        /// The route to park the row for, so that `unpark` brings it back earlier.
        park: Option<String>,
        /// If it has been put off in this way for so long, the row is DEAD instead. The time
        /// counts, by the store's clock, from the first such settlement that no other verdict
        /// followed; releases and claims do not interrupt it. [`park`](Store::park) and
        /// [`unpark`](Store::unpark) end it: while a route is closed nothing is tried, and when it opens
        /// the time starts again. Of different limits since that first settlement the longest counts: an
        /// event that waits for a busy destination is not given up because one node, which has no route for
        /// it, would wait for a shorter time. None: it may go on for ever.
        give_up_after: Option<Duration>,
    },
}

impl Verdict {
    /// Replaces the text of an error by one that every store can keep.
    pub(crate) fn forget_text(&mut self) {
        const REFUSED_TEXT: &str = "the store refused the text of this error";
        match self {
            Self::Done | Self::Deferred { .. } => {}
            Self::Failed { error: text, .. }
            | Self::Dead { reason: text }
            | Self::Unreachable { error: text, .. } => REFUSED_TEXT.clone_into(text),
        }
    }
}

/// How many failed attempts an event has, and how long to wait after each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The attempt at which the row dies. At least one.
    pub max_attempts: u32,
    /// The delay after the first, second, … failed attempt, jitter applied; the last one serves
    /// all further attempts. At most 64.
    pub delays: Arc<[Duration]>,
}

impl Backoff {
    /// The longest list of delays.
    pub const MAX_DELAYS: usize = 64;

    /// What follows the failed attempt number `count` (1, 2, …): a delay, or none for DEAD. This
    /// is the rule that every store implements.
    ///
    /// ```
    /// use std::time::Duration;
    /// use posthaste::store::Backoff;
    ///
    /// let backoff = Backoff { max_attempts: 3, delays: [Duration::from_secs(1)].into() };
    /// assert_eq!(backoff.after(2), Some(Duration::from_secs(1)));
    /// assert_eq!(backoff.after(3), None);
    /// ```
    pub fn after(&self, count: u32) -> Option<Duration> {
        if count >= self.max_attempts {
            return None;
        }
        let index = (count.max(1) as usize - 1).min(self.delays.len().saturating_sub(1));
        Some(self.delays.get(index).copied().unwrap_or_default())
    }
}

/// What became of a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The row is DONE (kept, deleted or archived).
    Done,
    /// The row is RETRY.
    Retry {
        /// Failed attempts, this one included.
        attempts: u32,
        /// The delay the store picked.
        delay: Duration,
    },
    /// The row waits, with no attempt spent.
    Waiting {
        /// The delay that was asked for.
        delay: Duration,
    },
    /// The row is DEAD.
    Dead {
        /// Failed attempts.
        attempts: u32,
    },
    /// Nothing changed: the lease was lost, or the row is terminal or gone.
    Stale,
    /// The part of the store that has the row cannot be reached, and others can: the caller tries again later.
    /// Where no part can be reached the whole call is an error.
    Unknown,
}

/// What becomes of a row when it is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(rename_all = "snake_case"))]
pub enum OnDone {
    /// Kept as DONE until the purger takes it. The default.
    #[default]
    Keep,
    /// Deleted at once: the fastest, without a trace.
    Delete,
    /// Moved to the archive at once.
    Archive,
}

/// Leases to renew.
#[derive(Clone, Debug)]
pub struct Renew<'a> {
    /// Who holds them.
    pub owner: &'a Owner,
    /// The leases.
    pub leases: &'a [Lease],
    /// How long from now they shall last.
    pub lease: Duration,
    /// Their delivery is about to begin: raises `lost_leases`, so that it counts if the owner dies
    /// of it. The engine asks this for suspects only.
    pub start: bool,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

/// Leases to give back.
#[derive(Clone, Debug)]
pub struct Release<'a> {
    /// Who holds them.
    pub owner: &'a Owner,
    /// The leases.
    pub leases: &'a [Lease],
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

/// Held rows whose route is closed.
#[derive(Clone, Debug)]
pub struct Park<'a> {
    /// Who holds them.
    pub owner: &'a Owner,
    /// The leases.
    pub leases: &'a [Lease],
    /// The closed route.
    pub route: &'a str,
    /// When they become due by themselves.
    pub duration: Duration,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

/// Parked rows whose route is open again.
#[derive(Clone, Debug)]
pub struct Unpark<'a> {
    /// The route.
    pub route: &'a str,
    /// At most so many rows.
    pub limit: usize,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

/// Old rows to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// Which rows.
    pub what: Purgeable,
    /// Rows at least this old.
    pub older_than: Duration,
    /// Whether to keep a copy in the archive.
    pub archive: bool,
    /// At most so many rows.
    pub limit: usize,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

/// What an [`AuditEntry`](crate::admin::AuditEntry) names as its target, such as `DONE older than 7days`.
impl fmt::Display for Purge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            Purgeable::Done => "DONE",
            Purgeable::Dead => "DEAD",
            Purgeable::Any => "all",
            Purgeable::Archived => "ARCHIVED",
        };
        write!(f, "{what} older than {}", humantime::format_duration(self.older_than))
    }
}

/// What a purge may remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purgeable {
    /// DONE rows, by `done_at` (by insertion time where a foreign program left it empty).
    Done,
    /// DEAD rows, by `done_at` in the same way.
    Dead,
    /// Rows of any status, by insertion time: only for writer-only outboxes.
    Any,
    /// Rows in the archive, by `done_at` in the same way; always deleted. A store that keeps its
    /// archive in days drops whole days, whatever the limit, so a row may stay for a day longer.
    Archived,
}

/// A signal within one process that there may be something to claim. (A *wake-up* is the hint by which a store
/// learns of commits of other processes; it ends in a notifier, see [`Store::wake`].)
#[derive(Clone, Debug, Default)]
pub struct Notifier(Arc<Notify>);

impl Notifier {
    /// A new notifier.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notifies the one task that waits. Notifications before it waits are kept, as one.
    pub fn notify(&self) {
        self.0.notify_one();
    }

    /// Waits for the next notification.
    pub async fn notified(&self) {
        self.0.notified().await;
    }
}
