//! Leases between claim and settlement: renew, release, park, unpark.

use posthaste::StoreError;
use posthaste::store::{Lease, Park, Release, Renew, Unpark};

use super::{SqlStore, StoreDialect};

/// The SQL of one database for leased and parked rows.
pub(crate) trait LeaseDialect: StoreDialect {
    fn renew(
        store: &SqlStore<Self>,
        renew: &Renew<'_>,
    ) -> impl Future<Output = Result<Vec<Lease>, StoreError>> + Send;

    fn release(
        store: &SqlStore<Self>,
        release: &Release<'_>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    fn park(store: &SqlStore<Self>, park: &Park<'_>) -> impl Future<Output = Result<u64, StoreError>> + Send;

    fn unpark(
        store: &SqlStore<Self>,
        unpark: &Unpark<'_>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;
}
