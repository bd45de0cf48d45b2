//! The bell between processes: NOTIFY after a commit, LISTEN before a claim.
//!
//! NOTIFY takes one lock for the whole server until its transaction has committed, so it never stands in
//! a transaction of the service unless somebody asks for it. A connection of the store's own rings
//! instead, once for all commits of a few milliseconds. The channel has the name of the table, so that a
//! program in any language can ring too.

use std::sync::Weak;
use std::time::Duration;

use posthaste::store::Wake;
use sqlx::Executor as _;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::time::{sleep, timeout};

use super::{Inner, PgStore};

/// All commits within this time ring once.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(10);

/// How long the last ring of a store that is being closed may take.
pub(super) const LAST_NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// How often to ask whether a silent connection is still there, and how long to wait for the answer.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait before connecting again: at first, and at most.
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(100);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(5);

/// Rings the server's bell for every ring of the process's own; ends with the store.
pub(super) async fn ring_for(store: Weak<Inner>, bell: Wake) {
    loop {
        bell.rung().await;
        let Some(inner) = store.upgrade() else { return };
        if inner.connections.is_closed() {
            return;
        }
        let store = PgStore(inner);
        let rung = store.connections().engine(async |connection| store.notify(connection).await).await;
        if let Err(error) = rung {
            // A hint: the poller alone is enough.
            tracing::debug!(%error, "other processes could not be woken");
        }
        drop(store);
        sleep(NOTIFY_INTERVAL).await;
    }
}

/// Rings `wake` whenever somebody rings the server's bell, and whenever nobody could know, until the store
/// is `gone`.
pub(super) async fn listen_until(gone: Wake, options: PgConnectOptions, channel: String, wake: Wake) {
    tokio::select! {
        () = gone.rung() => {}
        () = listen_for_ever(&options, &channel, &wake) => {}
    }
}

async fn listen_for_ever(options: &PgConnectOptions, channel: &str, wake: &Wake) {
    let mut delay = MIN_RECONNECT_DELAY;
    loop {
        match connect(options, channel).await {
            Ok(mut listener) => {
                delay = MIN_RECONNECT_DELAY;
                // Somebody may have rung before we listened.
                wake.ring();
                let error = listen(&mut listener, wake).await;
                tracing::debug!(%error, "the connection that listens is lost; polling goes on");
            }
            Err(error) => tracing::debug!(%error, "no connection to listen on; polling goes on"),
        }
        sleep(delay).await;
        delay = (delay * 2).min(MAX_RECONNECT_DELAY);
    }
}

async fn connect(options: &PgConnectOptions, channel: &str) -> Result<PgListener, sqlx::Error> {
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
async fn listen(listener: &mut PgListener, wake: &Wake) -> sqlx::Error {
    loop {
        match timeout(PROBE_INTERVAL, listener.try_recv()).await {
            Ok(Ok(Some(_))) => wake.ring(),
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
