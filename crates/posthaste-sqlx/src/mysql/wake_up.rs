//! Wake-ups on MySQL, which has no notifications between processes. A task polls for due rows, often while there are
//! any and rarely while there are none. Such a query is one step in the index, far less than a claim.

use std::sync::Weak;
use std::time::Duration;

use posthaste::store::Notifier;
use sqlx::{MySql, MySqlConnection};
use tokio_util::sync::CancellationToken;

use super::MySqlStore;
use crate::store::{Inner, SqlStore};

/// The polling interval while events arrive, and while none do.
const BUSY_INTERVAL: Duration = Duration::from_millis(20);
const QUIET_INTERVAL: Duration = Duration::from_millis(250);

/// One step in the index that claims read.
pub(super) const ANYTHING_DUE: &str = "SELECT 1 FROM `{table}` FORCE INDEX (`{table}_due`)
WHERE phase = 0 AND phase_at <= UTC_TIMESTAMP(6) LIMIT 1";

/// Notifies when a row is due and not leased. Ends with the store.
pub(super) async fn watch(store: Weak<Inner<MySql>>, stop: CancellationToken, wake: Notifier) {
    let mut interval = BUSY_INTERVAL;
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
        let due = is_anything_due(&store).await;
        interval = if due { BUSY_INTERVAL } else { (interval * 2).min(QUIET_INTERVAL) };
        if due {
            wake.notify();
        }
    }
}

async fn is_anything_due(store: &MySqlStore) -> bool {
    let query = async |connection: &mut MySqlConnection| {
        store.sql().query::<MySql>(ANYTHING_DUE).fetch_optional(connection).await
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
