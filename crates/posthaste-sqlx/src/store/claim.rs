//! Claims: the part that is the same for all databases.

use std::collections::BTreeSet;

use posthaste::store::{Claim, Claimed};
use posthaste::{StoreError, Timestamp};

use super::{SqlStore, StoreDialect};
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

    async fn server_state(&self) -> Result<ServerState, StoreError> {
        if let Some(state) = self.0.server_state.recent() {
            return Ok(state);
        }
        let state = D::read_server_state(self).await?;
        self.0.server_state.set(Some(state.clone()));
        Ok(state)
    }
}
