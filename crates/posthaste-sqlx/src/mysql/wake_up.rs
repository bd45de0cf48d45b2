//! Wake-ups on MySQL, which has no notifications between processes. A task polls for due rows, often while there are
//! any and rarely while there are none. Such a query is one step in the index, far less than a claim.

use std::sync::Weak;
use std::time::{Duration, Instant};

use posthaste::store::Notifier;
use sqlx::{MySql, MySqlConnection};
use tokio_util::sync::CancellationToken;

use super::MySqlStore;
use super::value::{self, at};
use crate::claim_floor::IndexPosition;
use crate::store::{Inner, SqlStore};

/// The polling interval while events arrive, and while none do.
const BUSY_INTERVAL: Duration = Duration::from_millis(20);
const QUIET_INTERVAL: Duration = Duration::from_millis(250);

/// The interval of queries from the bottom of the index, where leases lapse. The others begin at the claim floor, so
/// that they do not step over the rows that engines hold.
const BOTTOM_INTERVAL: Duration = Duration::from_secs(1);

/// A few steps in the index that claims read. Leased rows are stepped over, up to a thousand of them.
pub(super) const ANYTHING_DUE: &str = concat!(
    "SELECT 1 FROM (SELECT lease_until FROM `{table}` FORCE INDEX (`{table}_due`)
  WHERE phase = 0 AND phase_at <= UTC_TIMESTAMP(6) AND phase_at >= ",
    at!(),
    " ORDER BY phase_at, seq LIMIT 1000) AS first
WHERE lease_until IS NULL OR lease_until <= UTC_TIMESTAMP(6) LIMIT 1"
);

/// Notifies when a row is due and not leased. Ends with the store.
pub(super) async fn watch(store: Weak<Inner<MySql>>, stop: CancellationToken, wake: Notifier) {
    let mut interval = BUSY_INTERVAL;
    let mut next_from_bottom = Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        let Some(inner) = store.upgrade() else { return };
        let store: MySqlStore = SqlStore(inner);
        if store.connections().is_closed() {
            return;
        }
        let mut from = store.0.claim_floor.position();
        if next_from_bottom <= Instant::now() {
            next_from_bottom = Instant::now() + BOTTOM_INTERVAL;
            from = IndexPosition::BOTTOM;
        }
        let due = is_anything_due(&store, from).await;
        interval = if due { BUSY_INTERVAL } else { (interval * 2).min(QUIET_INTERVAL) };
        if due {
            wake.notify();
        }
    }
}

async fn is_anything_due(store: &MySqlStore, from: IndexPosition) -> bool {
    let query = async |connection: &mut MySqlConnection| {
        let query = store.sql().query::<MySql>(ANYTHING_DUE).bind(value::time(from.due));
        query.fetch_optional(connection).await
    };
    match store.connections().engine(query).await {
        Ok(row) => row.is_some(),
        Err(error) => {
            // Only a hint is lost: the poller of the engine is sufficient and reports the error.
            tracing::debug!(%error, "the outbox could not be watched");
            false
        }
    }
}
