//! Listens: connections are bounded, probes have places of their own, and a stop lets requests end.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use super::{Api, Shared, routes};

/// Connections at the same time.
const CONNECTIONS: usize = 256;

/// Of them from one address.
const PER_PEER: usize = 64;

/// Connections beyond those, which get `/health/…` alone, so that clients that hold every other place do not make
/// a supervisor restart the relay. When these are taken as well, others wait to be accepted.
const PROBES: usize = 32;

/// Of them from one address.
const PROBES_PER_PEER: usize = 2;

/// A probe is one short request. A connection in a probe's place that sends none for so long is closed.
const PROBE_IDLE: Duration = Duration::from_secs(2);

/// A connection is closed after this if it says nothing, or takes nothing of what it is told.
const IDLE: Duration = Duration::from_secs(30);

/// Requests that are being answered when the relay stops have this long.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// After an accept that failed: usually there are no more file descriptors, and some will be closed.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown`; then requests that were begun are answered, and those who follow are sent away.
pub(crate) async fn serve(listener: TcpListener, api: Arc<Api>, shutdown: impl Future<Output = ()>) {
    serve_patiently(listener, api, shutdown, IDLE).await;
}

/// The same with another patience.
pub(super) async fn serve_patiently(
    listener: TcpListener,
    api: Arc<Api>,
    shutdown: impl Future<Output = ()>,
    idle: Duration,
) {
    let stop = CancellationToken::new();
    let doors = Doors::new(Arc::new(Shared::new(api, stop.clone())), idle);
    let connections = GracefulShutdown::new();
    tokio::select! {
        () = shutdown => {}
        () = accept(&listener, &doors, &connections) => {}
    }
    drop(listener);
    stop.cancel();
    // Whoever is slower than this has had their time.
    let _ = tokio::time::timeout(LAST_ANSWERS, connections.shutdown()).await;
}

async fn accept(listener: &TcpListener, doors: &Doors, connections: &GracefulShutdown) {
    loop {
        doors.probes.places.wait_for_one().await;
        match listener.accept().await {
            Ok((stream, peer)) => {
                // An address that has every place that it can get is closed immediately.
                if let Some((door, place)) = doors.admit(peer.ip()) {
                    tokio::spawn(connection(stream, door.clone(), connections.watcher(), place));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the admin listener cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// What it has taken is free again when it has ended.
async fn connection(stream: TcpStream, door: Door, watcher: Watcher, _place: Place) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(door.idle).keep_alive(door.keep_alive);
    let mut stream = TimeoutStream::new(stream);
    // Not for reading: those who follow only listen.
    stream.set_write_timeout(Some(door.idle));
    let service = TowerToHyperService::new(door.router);
    let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), service);
    // An error means that the other side broke the protocol or the connection.
    let _ = watcher.watch(connection).await;
}

/// What a connection gets: everything while there is a place, and then the answers for probes.
struct Doors {
    all: Door,
    probes: Door,
}

/// One of the two.
#[derive(Clone)]
struct Door {
    router: Router,
    places: Places,
    idle: Duration,
    keep_alive: bool,
}

impl Doors {
    fn new(shared: Arc<Shared>, idle: Duration) -> Self {
        let all = Door {
            router: routes::router(Arc::clone(&shared)),
            places: Places::new(CONNECTIONS, PER_PEER),
            idle,
            keep_alive: true,
        };
        let probes = Door {
            router: routes::probes(shared),
            places: Places::new(PROBES, PROBES_PER_PEER),
            idle: PROBE_IDLE.min(idle),
            keep_alive: false,
        };
        Self { all, probes }
    }

    fn admit(&self, address: IpAddr) -> Option<(&Door, Place)> {
        let admitted = |door: &Door| door.places.take(address);
        let all = admitted(&self.all).map(|place| (&self.all, place));
        all.or_else(|| admitted(&self.probes).map(|place| (&self.probes, place)))
    }
}

/// So many places for connections, some of them for each address.
#[derive(Clone, Debug)]
struct Places {
    free: Arc<Semaphore>,
    /// How many connections each address has.
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
    per_peer: usize,
}

impl Places {
    fn new(most: usize, per_peer: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), peers: Arc::default(), per_peer }
    }

    /// Returns when there is a place. One task alone takes places, so it is still there then.
    async fn wait_for_one(&self) {
        // It is never closed.
        let _ = self.free.acquire().await;
    }

    /// A place for one more connection; none if all are taken, or all that this address can get.
    fn take(&self, address: IpAddr) -> Option<Place> {
        let permit = self.free.clone().try_acquire_owned().ok()?;
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = peers.entry(address).or_default();
        if *taken >= self.per_peer {
            return None;
        }
        *taken += 1;
        Some(Place { _permit: permit, peers: Arc::clone(&self.peers), address })
    }
}

/// A place that is given back when it is dropped.
#[derive(Debug)]
struct Place {
    _permit: OwnedSemaphorePermit,
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Drop for Place {
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
