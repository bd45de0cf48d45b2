//! The wake-up: SQLite counts the commits of other connections, in this process and in others.

use std::sync::Weak;
use std::time::Duration;

use posthaste::store::Notifier;
use sqlx::Sqlite;
use tokio_util::sync::CancellationToken;

use crate::store::Inner;

/// How often to look while something changes, and how often when nothing does.
const BUSY_INTERVAL: Duration = Duration::from_millis(10);
const QUIET_INTERVAL: Duration = Duration::from_millis(50);

/// Notifies when another connection than the store's writing one has committed; ends with the store.
///
/// It asks on the writing connection because that one does not count its own commits: claims and
/// settlements wake nobody.
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
        // Somebody is writing: look again later rather than wait in line.
        let Some(mut connection) = store.connections.write.try_acquire() else { continue };
        let version = sqlx::query_scalar::<_, i64>("PRAGMA data_version").fetch_one(&mut *connection).await;
        let Ok(version) = version else { continue };
        // The first look counts as news: somebody may have committed since the poller's own first look.
        let changed = last.replace(version) != Some(version);
        interval = if changed { BUSY_INTERVAL } else { (interval * 2).min(QUIET_INTERVAL) };
        if changed {
            wake.notify();
        }
    }
}
