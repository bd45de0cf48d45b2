//! Wake-ups between processes: NOTIFY after a commit, LISTEN in the process that claims.
//!
//! NOTIFY takes one lock for the whole server until its transaction has committed. So by default it is not part of a
//! transaction of the service: a connection of the store sends it instead, once for all commits of a few milliseconds.
//! The channel has the name of the table, so that a program in any language can notify too.

use std::sync::Weak;
use std::time::Duration;

use posthaste::store::Notifier;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{Executor as _, Postgres};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::PgStore;
use crate::store::{Inner, SqlStore};

/// The pause after a NOTIFY: all commits within it cause one NOTIFY together. The first pause is short, so that an
/// event that follows another one closely is not late. While commits do not stop, each pause is twice as long as the
/// one before, because a listener that is busy learns nothing from more notifications.
const MIN_NOTIFY_PAUSE: Duration = Duration::from_millis(1);
const MAX_NOTIFY_PAUSE: Duration = Duration::from_millis(10);

/// Time limit of the last NOTIFY when a store is closed.
pub(super) const LAST_NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// The interval of checks that a silent connection still works, and the time limit of each check.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The delay before the store connects again: the first one, and the longest one.
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(100);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(5);

/// Wakes other processes whenever `notifier` was notified in this one. Ends with the store.
pub(super) async fn wake_others(store: Weak<Inner<Postgres>>, stop: CancellationToken, notifier: Notifier) {
    let mut pause = MIN_NOTIFY_PAUSE;
    loop {
        let waiting = Instant::now();
        tokio::select! {
            () = stop.cancelled() => return,
            () = notifier.notified() => {}
        }
        pause = if waiting.elapsed() < pause { (pause * 2).min(MAX_NOTIFY_PAUSE) } else { MIN_NOTIFY_PAUSE };
        let Some(inner) = store.upgrade() else { return };
        if inner.connections.is_closed() {
            return;
        }
        let store: PgStore = SqlStore(inner);
        let notified = store.connections().engine(async |connection| store.notify(connection).await).await;
        if let Err(error) = notified {
            // Only a hint is lost: the poller is sufficient.
            tracing::debug!(%error, "other processes could not be woken");
        }
        drop(store);
        sleep(pause).await;
    }
}

/// Notifies `wake` whenever another process notifies the channel, and whenever a notification may have been missed,
/// until the store ends.
pub(super) async fn listen_until(store: Weak<Inner<Postgres>>, stop: CancellationToken, wake: Notifier) {
    let Some(store) = store.upgrade() else { return };
    let Some(options) = store.state.listen.clone() else { return };
    let channel = store.sql.table().to_string();
    drop(store);
    tokio::select! {
        () = stop.cancelled() => {}
        () = listen_for_ever(&options, &channel, &wake) => {}
    }
}

async fn listen_for_ever(options: &PgConnectOptions, channel: &str, wake: &Notifier) {
    let mut delay = MIN_RECONNECT_DELAY;
    loop {
        match connect(options, channel).await {
            Ok(mut listener) => {
                delay = MIN_RECONNECT_DELAY;
                // A notification may have come before the session listened.
                wake.notify();
                let error = listen(&mut listener, wake).await;
                tracing::debug!(%error, "the listening connection is lost; polling continues");
            }
            Err(error) => tracing::debug!(%error, "no connection to listen on; polling continues"),
        }
        sleep(delay).await;
        delay = (delay * 2).min(MAX_RECONNECT_DELAY);
    }
}

async fn connect(options: &PgConnectOptions, channel: &str) -> sqlx::Result<PgListener> {
    // A new pool each time: a connection that went silent is not used again.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(PROBE_TIMEOUT)
        .connect_with(options.clone())
        .await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    listener.listen(channel).await?;
    Ok(listener)
}

/// Listens until the connection is lost.
async fn listen(listener: &mut PgListener, wake: &Notifier) -> sqlx::Error {
    loop {
        match timeout(PROBE_INTERVAL, listener.try_recv()).await {
            Ok(Ok(Some(_))) => wake.notify(),
            Ok(Ok(None)) => return sqlx::Error::PoolClosed,
            Ok(Err(error)) => return error,
            Err(_silence) => match timeout(PROBE_TIMEOUT, listener.execute("SELECT 1")).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return error,
                Err(_silence) => return sqlx::Error::PoolTimedOut,
            },
        }
    }
}
