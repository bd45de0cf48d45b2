//! Serves the router: connections are bounded, probes have slots of their own, and a stop lets requests end.

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

/// Connections at the same time.
const MAX_CONNECTIONS: usize = 256;

/// Of them from one address.
const MAX_CONNECTIONS_PER_PEER: usize = 64;

/// Connections beyond those, which get `/health/…` alone, so that clients that hold every other slot do not make
/// a supervisor restart the relay. When these are taken as well, others wait to be accepted.
const MAX_PROBES: usize = 32;

/// Of them from one address.
const MAX_PROBES_PER_PEER: usize = 2;

/// A probe is one short request. A connection in a probe's slot that sends none for so long is closed.
const PROBE_IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection is closed after this if it sends nothing, or reads nothing of the response.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Requests that are being handled when the listener stops have this long.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// After an accept that failed: usually there are no more file descriptors, and some will be closed.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves the router until `shutdown`; then requests that were begun are finished, and followers are disconnected.
///
/// Connections are bounded, in all and per address, and `/health/…` has slots of its own: clients that hold every
/// other connection do not make a supervisor restart the process.
pub async fn serve(listener: TcpListener, api: AdminApi, shutdown: impl Future<Output = ()>) {
    serve_with_idle_timeout(listener, api, shutdown, IDLE_TIMEOUT).await;
}

/// The same with another idle timeout.
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
    // A connection that is slower than this is cut.
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, connections.shutdown()).await;
}

async fn accept(listener: &TcpListener, classes: &ConnectionClasses, connections: &GracefulShutdown) {
    loop {
        classes.probes.slots.wait_for_one().await;
        match listener.accept().await {
            Ok((stream, peer)) => {
                // A connection from an address that has all its slots is closed immediately.
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

/// Its slot is free again when it has ended.
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
    // Not for reading: a follower sends nothing.
    stream.set_write_timeout(Some(class.idle));
    let service = TowerToHyperService::new(class.router.layer(Extension(ConnectInfo(peer))));
    let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), service);
    // An error means that the other side broke the protocol or the connection.
    let _ = watcher.watch(connection).await;
}

/// What a connection gets: everything while there is a slot, and then the routes for probes.
struct ConnectionClasses {
    all: ConnectionClass,
    probes: ConnectionClass,
}

/// One of the two.
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

/// Slots for connections, bounded in all and per address.
#[derive(Clone, Debug)]
struct Slots {
    free: Arc<Semaphore>,
    /// How many connections each address has.
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
    per_peer: usize,
}

impl Slots {
    fn new(count: usize, per_peer: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), peers: Arc::default(), per_peer }
    }

    /// Returns when there is a free slot. One task alone takes slots, so it is still free then.
    async fn wait_for_one(&self) {
        // The semaphore is never closed.
        let _ = self.free.acquire().await;
    }

    /// A slot for one more connection; `None` if all are taken, or all that this address can get.
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

/// A slot, which is free again when this is dropped.
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
