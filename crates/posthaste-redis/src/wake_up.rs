//! Wake-ups between processes: PUBLISH after a commit, SUBSCRIBE before a claim.
//!
//! The channel is the outbox's name and `:wake`, so that a program in any language can publish too. In a
//! cluster a message reaches every node.

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

/// All commits within this time publish once.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(5);

/// How often to ask whether a silent connection is still there, and how long to wait for an answer.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait before connecting again: at first, and at most.
const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(100);
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(2);

/// Wakes other processes whenever `notifier` was notified in this one; ends with the store.
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

/// Wakes other processes, once.
pub(crate) async fn wake_others_once(store: &RedisStore) {
    let mut publish = redis::cmd("PUBLISH");
    publish.arg(store.keys().channel()).arg("");
    if let Err(error) = store.connections().query::<i64>(&publish).await {
        // A hint: the poller alone is enough.
        tracing::debug!(%error, "other processes could not be woken");
    }
}

/// Listens for the wake-ups of other processes.
pub(crate) struct Listener {
    /// Any of these.
    pub(crate) servers: Vec<ConnectionInfo>,
    pub(crate) channel: String,
    /// Knows when connections lead to the wrong server: no process may publish there any more.
    pub(crate) connections: RedisConnections,
    pub(crate) wake: Notifier,
}

impl Listener {
    /// Notifies `wake` whenever another process publishes, and whenever a message may have been missed, until the
    /// store ends.
    pub(crate) async fn listen_until(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.listen_for_ever() => {}
        }
    }

    async fn listen_for_ever(&self) {
        let mut pause = RECONNECT_DELAY_MIN;
        for server in self.servers.iter().cycle() {
            match timeout(PROBE_TIMEOUT, subscribe(server, &self.channel)).await {
                Ok(Ok(mut connection)) => {
                    pause = RECONNECT_DELAY_MIN;
                    // A message may have come before we listened.
                    self.wake.notify();
                    tokio::select! {
                        () = listen(&mut connection, &self.channel, &self.wake) => {}
                        () = self.connections.moved() => {}
                    }
                    tracing::debug!("the connection that listens is lost; polling goes on");
                }
                Ok(Err(error)) => tracing::debug!(%error, "no connection to listen on; polling goes on"),
                Err(_silence) => tracing::debug!("no connection to listen on in time; polling goes on"),
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

/// Listens until the connection is lost.
async fn listen(connection: &mut PubSub, channel: &str, wake: &Notifier) {
    loop {
        let message = timeout(PROBE_INTERVAL, connection.on_message().next()).await;
        match message {
            Ok(Some(_)) => wake.notify(),
            Ok(None) => return,
            // Subscribing again changes nothing, and is answered.
            Err(_silence) => match timeout(PROBE_TIMEOUT, connection.subscribe(channel)).await {
                Ok(Ok(())) => {}
                _ => return,
            },
        }
    }
}
