//! Wake-ups on SQLite, which counts the commits of other connections, in this process and in others.

use std::sync::Weak;
use std::time::Duration;

use posthaste::store::Notifier;
use sqlx::Sqlite;
use tokio_util::sync::CancellationToken;

use crate::store::Inner;

/// The polling interval while the database changes, and while it does not.
const BUSY_INTERVAL: Duration = Duration::from_millis(10);
const QUIET_INTERVAL: Duration = Duration::from_millis(50);

/// Notifies after a commit of any connection but the one with which the store writes. Ends with the store.
///
/// It polls on the connection that writes, because that one does not count its own commits: claims and settlements
/// cause no wake-up.
pub(super) async fn watch(store: Weak<Inner<Sqlite>>, stop: CancellationToken, wake: Notifier) {
    let mut last = None;
    let mut interval = BUSY_INTERVAL;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        let Some(store) = store.upgrade() else { return };
        if store.connections.write.is_closed() {
            return;
        }
        // Another task is writing: poll later instead of waiting in the queue.
        let Some(mut connection) = store.connections.write.try_acquire() else { continue };
        let version = sqlx::query_scalar::<_, i64>("PRAGMA data_version").fetch_one(&mut *connection).await;
        let Ok(version) = version else { continue };
        // The first poll always notifies: there may have been a commit since the poller's own first claim.
        let changed = last.replace(version) != Some(version);
        interval = if changed { BUSY_INTERVAL } else { (interval * 2).min(QUIET_INTERVAL) };
        if changed {
            wake.notify();
        }
    }
}
