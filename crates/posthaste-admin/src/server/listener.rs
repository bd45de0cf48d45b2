//! Listener: serves the router with bounded connections, reserved slots for probes, and a graceful stop.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use super::{AdminApi, ApiState, endpoints};

/// The maximum number of connections at the same time.
const MAX_CONNECTIONS: usize = 256;

/// The maximum number of connections from one address, not counting slots for probes.
const MAX_CONNECTIONS_PER_PEER: usize = 64;

/// The maximum number of further connections, which get `/health/…` only. They keep probes working while clients hold
/// all other slots, so that no supervisor restarts a healthy relay. While all slots for probes are taken no connection
/// is accepted, even if another slot is free: the listener waits for a slot for probes first.
const MAX_PROBES: usize = 32;

/// The maximum number of slots for probes that one address can take.
const MAX_PROBES_PER_PEER: usize = 2;

/// A connection in a slot for probes is closed if it sends no request for this long. A probe is one short request.
const PROBE_IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection is closed if it sends no request, or reads nothing of the response, for this long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest that a stop waits for requests under way.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay after an `accept` that failed. It usually fails because the process has no free file descriptors, and the
/// delay gives other connections time to close.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves the router until `shutdown` completes. Then it accepts no connection, disconnects followers of `tail`, and
/// waits at most 10 seconds for requests under way. Connections that are still open after that are not closed here:
/// their tasks run until the request is done, an idle timeout ends them, or the process ends.
///
/// Connections are bounded, in total and per address. `/health/…` has reserved slots, so that probes work while clients
/// hold all other connections.
pub async fn serve(listener: TcpListener, api: AdminApi, shutdown: impl Future<Output = ()>) {
    serve_with_idle_timeout(listener, api, shutdown, IDLE_TIMEOUT).await;
}

/// As [`serve`], with another idle timeout.
pub(super) async fn serve_with_idle_timeout(
    listener: TcpListener,
    api: AdminApi,
    shutdown: impl Future<Output = ()>,
    idle: Duration,
) {
    let stop = CancellationToken::new();
    let classes = ConnectionClasses::new(Arc::new(ApiState::new(api, stop.clone())), idle);
    let connections = GracefulShutdown::new();
    tokio::select! {
        () = shutdown => {}
        () = accept(&listener, &classes, &connections) => {}
    }
    drop(listener);
    stop.cancel();
    // Connections that are still open after that stay open in their own tasks.
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, connections.shutdown()).await;
}

async fn accept(listener: &TcpListener, classes: &ConnectionClasses, connections: &GracefulShutdown) {
    loop {
        classes.probes.slots.wait_for_one().await;
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Without a slot for its address, the connection is dropped and thereby closed.
                if let Some((class, slot)) = classes.admit(peer.ip()) {
                    tokio::spawn(connection(stream, peer, class.clone(), connections.watcher(), slot));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the admin listener cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Serves one connection. Its slot is freed when it ends.
async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    class: ConnectionClass,
    watcher: Watcher,
    _slot: Slot,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(class.idle).keep_alive(class.keep_alive);
    let mut stream = TimeoutStream::new(stream);
    // No timeout for reading, because a follower of `tail` sends nothing.
    stream.set_write_timeout(Some(class.idle));
    let service = TowerToHyperService::new(class.router.layer(Extension(ConnectInfo(peer))));
    let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), service);
    // An error means that the client broke the protocol or the connection, and concerns this connection only.
    let _ = watcher.watch(connection).await;
}

/// The two classes of connections. A connection is in `all` if that class has a free slot for its address, and
/// otherwise in `probes`, which serves `/health/…` only.
struct ConnectionClasses {
    all: ConnectionClass,
    probes: ConnectionClass,
}

/// The endpoints and the limits of a class.
#[derive(Clone)]
struct ConnectionClass {
    router: Router,
    slots: Slots,
    idle: Duration,
    keep_alive: bool,
}

impl ConnectionClasses {
    fn new(state: Arc<ApiState>, idle: Duration) -> Self {
        let all = ConnectionClass {
            router: endpoints::router(Arc::clone(&state)),
            slots: Slots::new(MAX_CONNECTIONS, MAX_CONNECTIONS_PER_PEER),
            idle,
            keep_alive: true,
        };
        let probes = ConnectionClass {
            router: endpoints::probes(state),
            slots: Slots::new(MAX_PROBES, MAX_PROBES_PER_PEER),
            idle: PROBE_IDLE_TIMEOUT.min(idle),
            keep_alive: false,
        };
        Self { all, probes }
    }

    fn admit(&self, address: IpAddr) -> Option<(&ConnectionClass, Slot)> {
        let admitted = |class: &ConnectionClass| class.slots.take(address);
        let all = admitted(&self.all).map(|slot| (&self.all, slot));
        all.or_else(|| admitted(&self.probes).map(|slot| (&self.probes, slot)))
    }
}

/// Slots for connections, bounded in total and per address.
#[derive(Clone, Debug)]
struct Slots {
    /// One permit per free slot.
    free: Arc<Semaphore>,
    /// The number of connections of each address that has any. A `Slot` decrements it when it is dropped.
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
    /// The maximum number of slots of one address.
    per_peer: usize,
}

impl Slots {
    fn new(count: usize, per_peer: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), peers: Arc::default(), per_peer }
    }

    /// Waits for a free slot. Only the accepting task takes slots, so it is still free when this returns.
    async fn wait_for_one(&self) {
        // The semaphore is never closed.
        let _ = self.free.acquire().await;
    }

    /// Takes a slot; `None` if all are taken, or if this address has its maximum.
    fn take(&self, address: IpAddr) -> Option<Slot> {
        let permit = self.free.clone().try_acquire_owned().ok()?;
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = peers.entry(address).or_default();
        if *taken >= self.per_peer {
            return None;
        }
        *taken += 1;
        Some(Slot { _permit: permit, peers: Arc::clone(&self.peers), address })
    }
}

/// A taken slot. Dropping it frees the slot.
#[derive(Debug)]
struct Slot {
    _permit: OwnedSemaphorePermit,
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = peers.get_mut(&self.address) {
            *taken -= 1;
            if *taken == 0 {
                peers.remove(&self.address);
            }
        }
    }
}
