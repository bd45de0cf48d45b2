//! The engine's door to a store: what every store promises.

mod claim;
mod lease_requests;
mod notifier;
mod owner;
mod purge;
mod settle;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use self::claim::{Claim, ClaimOrder, Claimed, Leased, Malformed};
pub use self::lease_requests::{Park, Release, Renew, Unpark};
pub use self::notifier::Notifier;
pub use self::owner::{Lease, LeaseToken, Owner};
pub use self::purge::{Purge, Purgeable};
pub use self::settle::{Backoff, OnDone, Settle, Settled, Settlement, Verdict};
use crate::error::StoreError;
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
/// **Terminal rows** (DONE, DEAD) are changed by no call here but [`purge_batch`](Store::purge_batch).
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
/// There are no default methods, so that a wrapper cannot forget one. Requests and results may get further
/// fields, so they are made by their constructors; what decides what a store does with a row
/// ([`Verdict`], [`OnDone`], [`ClaimOrder`], [`Purgeable`]) is exhaustive, so that no store overlooks a new case.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "pass a `MemoryStore`, or a store that another crate opens, such as `PgStore` of posthaste-sqlx; a URL, a \
            pool or a connection is not a store"
)]
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
    async fn purge_batch(&self, purge: &Purge) -> Result<u64, StoreError>;

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

    async fn purge_batch(&self, purge: &Purge) -> Result<u64, StoreError> {
        (**self).purge_batch(purge).await
    }

    async fn oldest_pending(&self, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError> {
        (**self).oldest_pending(now).await
    }

    fn wake(&self) -> Option<Notifier> {
        (**self).wake()
    }
}
