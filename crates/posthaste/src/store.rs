//! The store as the engine sees it: the trait [`Store`] with its contract, its requests and its results.

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

/// An event with this many lost leases is a *suspect*: it may crash the engines that claim it. Claims do not raise the
/// count further; from here on only deliveries that have begun count ([`Renew::start`]).
pub const SUSPECT_LOST_LEASES: u32 = 10;

/// An event with this many lost leases is given up: the engine that claims it settles it as DEAD.
pub const MAX_LOST_LEASES: u32 = 20;

/// Keeps committed events until they are settled.
///
/// # Contract
///
/// **A row is claimable if it is due and not leased.** It is *pending* while its status is NEW or RETRY, *due* when its
/// `available_at` has passed, and *leased* until its `lease_until` has passed. Claiming and renewing set `lease_until`
/// only, so that a claim changes no index. Every other change of a held row clears it, and decides when the row is due.
/// A lapsed lease needs no cleaning up.
///
/// **A row is held** by the owner and token of its last claim (or of its born-leased INSERT) until a settlement, a
/// release or a park consumes the token, or another claim replaces it. A lease that has lapsed but was not taken over
/// is still held. A call that names a lease which is not held changes nothing and reports that; it is never an error.
///
/// **A lease identifies its row by id and `seq` together.** Either can repeat: numbers are assigned twice after a
/// failover or a restore, and an id can be written again after its row was deleted.
///
/// **Terminal rows** (DONE, DEAD) are changed by no call of this trait except [`purge_batch`](Store::purge_batch).
///
/// **The store decides** between retry and dead, at write time, from its own count of attempts. Every comparison of
/// times uses the store's own clock. `now` in a request replaces that clock; it is for tests, and the engine does not
/// set it.
///
/// **Only committed rows** are visible to any call. A row that was rolled back never existed.
///
/// **Calls may be dropped** at any await and repeated: a call took effect entirely or not at all. Implementations limit
/// every wait, and the engine limits it once more.
///
/// There are no default methods, so that a wrapper cannot forget one. Requests and results may get more fields, so they
/// have constructors. The types that decide what a store does with a row ([`Verdict`], [`OnDone`], [`ClaimOrder`],
/// [`Purgeable`]) are exhaustive, so that no store overlooks a new case.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "pass a `MemoryStore`, or a store that another crate opens, such as `PgStore` of posthaste-sqlx; a URL, a \
            pool or a connection is not a store"
)]
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Leases up to `limit` due rows to the owner, in the order of [`Claim::order`].
    ///
    /// Each claimed row gets `locked_by`, `locked_at`, `lease_until` and the token, its `parked` is cleared, and it can
    /// be claimed again when the lease ends. No row is leased by two claims at the same time. If the previous lease of
    /// a row lapsed while *another* owner held it, `lost_leases` is raised, up to [`SUSPECT_LOST_LEASES`]; an owner
    /// that takes over its own lapsed lease has only lost a reply. A row that cannot be decoded is leased, too, and
    /// returned in [`Claimed::malformed`]; it never hides other rows. `limit: 0` claims nothing and still returns
    /// [`Claimed::paused`].
    ///
    /// The claim ends before the first row that does not fit into [`Claim::max_bytes`]. Payloads of rows that are not
    /// returned are not read.
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError>;

    /// Writes outcomes back and returns the result of each: exactly one per settlement, in the order of the request. A
    /// request has at most one settlement per event. A delay that the store cannot represent is cut to the longest that
    /// it can.
    ///
    /// A settlement whose lease is not held changes nothing ([`Settled::Stale`]), except that [`Verdict::Done`] is
    /// accepted from any owner while the row is pending. A store with several servers may return [`Settled::Unknown`]
    /// for the rows of a server that is down, so that other rows are settled.
    async fn settle(&self, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError>;

    /// Moves the end of leases to `now + lease` and returns those that are still held.
    ///
    /// The engine also uses it to find out which rows of an unproven commit exist.
    async fn renew(&self, renew: &Renew<'_>) -> Result<Vec<Lease>, StoreError>;

    /// Releases held rows: they are due immediately, as if they had not been claimed. Returns how many.
    async fn release(&self, release: &Release<'_>) -> Result<u64, StoreError>;

    /// Keeps held rows away from claims, usually because their route is closed: `parked` is set to `Park::route`, which
    /// is a park reason, they are due after `duration`, and `attempts` stays. Returns how many.
    async fn park(&self, park: &Park<'_>) -> Result<u64, StoreError>;

    /// Makes up to `limit` rows that are parked for this route due now, lowest `seq` first. Returns how many. A row
    /// that was claimed after it was parked is not changed.
    async fn unpark(&self, unpark: &Unpark<'_>) -> Result<u64, StoreError>;

    /// Deletes or archives up to `limit` old rows. Returns how many.
    async fn purge_batch(&self, purge: &Purge) -> Result<u64, StoreError>;

    /// The age, by insertion time, of the oldest pending row that has been due once; `None` if there is no such row.
    /// Rows in their first delay do not count: a row has been due if it is due now, is leased or parked, or has an
    /// error, a failed attempt, a deferral or a lost lease. A store may look at the oldest thousand pending rows only.
    async fn oldest_pending(&self, now: Option<Timestamp>) -> Result<Option<Duration>, StoreError>;

    /// The store's notifier, if it has one: notified when there may be rows to claim, for example after a commit of
    /// another process. Only a hint: it may come without a row and may miss a row, and the poller alone is enough.
    fn wake(&self) -> Option<Notifier>;
}

/// A shared store.
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
