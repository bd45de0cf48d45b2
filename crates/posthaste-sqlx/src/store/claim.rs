//! Claims: the part that is the same for all databases.

use std::collections::BTreeSet;

use posthaste::store::{Claim, Claimed};
use posthaste::{StoreError, Timestamp};

use super::{SqlStore, StoreDialect};
use crate::claim_floor::{ClaimRange, IndexPosition};
use crate::clock_and_pauses::ServerState;

/// The SQL of one database for claims.
pub(crate) trait ClaimDialect: StoreDialect {
    fn read_server_state(
        store: &SqlStore<Self>,
    ) -> impl Future<Output = Result<ServerState, StoreError>> + Send;

    /// The names for which rows are parked.
    fn read_parked_names(
        store: SqlStore<Self>,
    ) -> impl Future<Output = Result<BTreeSet<String>, StoreError>> + Send + 'static;

    /// Leases rows and adds them to `claimed`. `seen_at` is a time of the server's clock before this claim.
    fn take(
        store: &SqlStore<Self>,
        claim: &Claim<'_>,
        seen_at: Timestamp,
        claimed: &mut Claimed,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

impl<D: ClaimDialect> SqlStore<D> {
    pub(crate) async fn claim_rows(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let state = self.server_state().await?;
        let parked = self.0.parked_names.names(|| D::read_parked_names(self.clone())).await;
        let mut claimed = Claimed::default();
        (claimed.paused, claimed.parked) = (state.paused, parked);
        if claim.limit > 0 {
            D::take(self, claim, state.now, &mut claimed).await?;
        }
        Ok(claimed)
    }

    /// A claim in the order of due times, over the range whose turn it is. `last` is the position of the last row that
    /// it leased; `None` if the claim has seen all that is due in its range.
    pub(crate) async fn claim_from_floor<T>(
        &self,
        claim: &Claim<'_>,
        seen_at: Timestamp,
        take: impl AsyncFnOnce(ClaimRange) -> Result<T, StoreError>,
        last: impl Fn(&T) -> Option<IndexPosition>,
    ) -> Result<T, StoreError> {
        let (taken, range) = self.0.claim_floor.around(claim, seen_at, take, &last).await?;
        if range.is_partial() && last(&taken).is_none() {
            self.wake_for_sweep();
        }
        Ok(taken)
    }

    /// Wakes the engine at the next sweep. A commit notifies only once, and the claim that follows does not see its row
    /// if that row is below the floor.
    fn wake_for_sweep(&self) {
        let (Some(wake), Some(at)) = (self.0.wake.get().cloned(), self.0.claim_floor.plan_wake_up()) else {
            return;
        };
        tokio::spawn(async move {
            tokio::time::sleep_until(at.into()).await;
            wake.notify();
        });
    }

    async fn server_state(&self) -> Result<ServerState, StoreError> {
        if let Some(state) = self.0.server_state.recent() {
            return Ok(state);
        }
        let state = D::read_server_state(self).await?;
        self.0.server_state.set(Some(state.clone()));
        Ok(state)
    }
}
