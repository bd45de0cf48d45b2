//! Wake-ups between processes: PUBLISH after a commit, SUBSCRIBE while an engine waits.
//!
//! The channel is `NAME:wake` with the outbox's name, so programs in any language can publish on it. In a cluster a
//! message reaches every node. A wake-up is a hint: if it is lost, the poller finds the event.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use posthaste::store::Notifier;
use redis::aio::PubSub;
use redis::{Client, ConnectionInfo, RedisResult};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::connection::RedisConnections;
use crate::{Inner, RedisStore};

/// Minimum interval between two messages: all commits within it share one.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(5);

/// Interval of the liveness check on a silent connection, and the maximum wait for its reply.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Delay before a reconnect: the first one, and the maximum. It doubles in between.
const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(100);
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(2);

/// Background task: publishes a wake-up whenever `notifier` is notified. Ends with the store.
pub(crate) async fn wake_others(store: Weak<Inner>, notifier: Notifier) {
    loop {
        notifier.notified().await;
        let Some(inner) = store.upgrade() else { return };
        if inner.is_closed.load(Ordering::Relaxed) {
            return;
        }
        wake_others_once(&RedisStore(inner)).await;
        sleep(PUBLISH_INTERVAL).await;
    }
}

/// Publishes one wake-up.
pub(crate) async fn wake_others_once(store: &RedisStore) {
    let mut publish = redis::cmd("PUBLISH");
    publish.arg(store.keys().channel()).arg("");
    if let Err(error) = store.connections().query::<i64>(&publish).await {
        // Not a warning, because the poller finds the event.
        tracing::debug!(%error, "other processes could not be woken");
    }
}

/// Subscriber for the wake-ups of other processes.
pub(crate) struct Listener {
    /// The servers to connect to, one after another; any of them will do.
    pub(crate) servers: Vec<ConnectionInfo>,
    pub(crate) channel: String,
    /// Reports when a connection led to the wrong server. Other processes then no longer publish there.
    pub(crate) connections: RedisConnections,
    /// The engine's wake-up.
    pub(crate) wake: Notifier,
}

impl Listener {
    /// Notifies `wake` when another process publishes, and when a message may have been missed, until `stop` is
    /// cancelled.
    pub(crate) async fn listen_until(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.listen_forever() => {}
        }
    }

    async fn listen_forever(&self) {
        let mut pause = RECONNECT_DELAY_MIN;
        for server in self.servers.iter().cycle() {
            match timeout(PROBE_TIMEOUT, subscribe(server, &self.channel)).await {
                Ok(Ok(mut connection)) => {
                    pause = RECONNECT_DELAY_MIN;
                    // A message may have been sent before the subscription.
                    self.wake.notify();
                    tokio::select! {
                        () = listen(&mut connection, &self.channel, &self.wake) => {}
                        () = self.connections.moved() => {}
                    }
                    tracing::debug!("the connection for wake-ups was lost; polling continues");
                }
                Ok(Err(error)) => tracing::debug!(%error, "no connection for wake-ups; polling continues"),
                Err(_silence) => tracing::debug!("no connection for wake-ups in time; polling continues"),
            }
            sleep(pause).await;
            pause = (pause * 2).min(RECONNECT_DELAY_MAX);
        }
    }
}

async fn subscribe(server: &ConnectionInfo, channel: &str) -> RedisResult<PubSub> {
    let mut connection = Client::open(server.clone())?.get_async_pubsub().await?;
    connection.subscribe(channel).await?;
    Ok(connection)
}

/// Forwards messages until the connection is lost.
async fn listen(connection: &mut PubSub, channel: &str, wake: &Notifier) {
    loop {
        let message = timeout(PROBE_INTERVAL, connection.on_message().next()).await;
        match message {
            Ok(Some(_)) => wake.notify(),
            Ok(None) => return,
            // Subscribing again has no effect, but the server must reply to it.
            Err(_silence) => match timeout(PROBE_TIMEOUT, connection.subscribe(channel)).await {
                Ok(Ok(())) => {}
                _ => return,
            },
        }
    }
}
