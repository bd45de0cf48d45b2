//! Wake-ups between processes: NOTIFY after a commit, LISTEN before a claim.
//!
//! NOTIFY takes one lock for the whole server until its transaction has committed, so it never stands in
//! a transaction of the service unless somebody asks for it. A connection of the store's own notifies
//! instead, once for all commits of a few milliseconds. The channel has the name of the table, so that a
//! program in any language can notify too.

use std::sync::Weak;
use std::time::Duration;

use posthaste::store::Notifier;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{Executor as _, Postgres};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::PgStore;
use crate::store::{Inner, SqlStore};

/// All commits within this time notify once.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(10);

/// How long the last NOTIFY of a store that is being closed may take.
pub(super) const LAST_NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// How often to ask whether a silent connection is still there, and how long to wait for the answer.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait before connecting again: at first, and at most.
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(100);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(5);

/// Wakes other processes whenever `notifier` was notified in this one; ends with the store.
pub(super) async fn wake_others(store: Weak<Inner<Postgres>>, stop: CancellationToken, notifier: Notifier) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = notifier.notified() => {}
        }
        let Some(inner) = store.upgrade() else { return };
        if inner.connections.is_closed() {
            return;
        }
        let store: PgStore = SqlStore(inner);
        let notified = store.connections().engine(async |connection| store.notify(connection).await).await;
        if let Err(error) = notified {
            // A hint: the poller alone is enough.
            tracing::debug!(%error, "other processes could not be woken");
        }
        drop(store);
        sleep(NOTIFY_INTERVAL).await;
    }
}

/// Notifies `wake` whenever another process notifies the channel, and whenever a notification may have been
/// missed, until the store ends.
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
                // A notification may have come before we listened.
                wake.notify();
                let error = listen(&mut listener, wake).await;
                tracing::debug!(%error, "the connection that listens is lost; polling goes on");
            }
            Err(error) => tracing::debug!(%error, "no connection to listen on; polling goes on"),
        }
        sleep(delay).await;
        delay = (delay * 2).min(MAX_RECONNECT_DELAY);
    }
}

async fn connect(options: &PgConnectOptions, channel: &str) -> sqlx::Result<PgListener> {
    // Fresh every time: a connection that went silent is not worth keeping.
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
