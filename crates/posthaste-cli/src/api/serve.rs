//! Listens: connections are bounded, and a stop lets requests end.

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

use super::{Api, router};

/// Connections at the same time; others wait to be accepted.
const CONNECTIONS: usize = 256;

/// Of them from one address: whoever takes all that they can get leaves places for the probes of others.
const PER_PEER: usize = 64;

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
    let router = router(api, stop.clone());
    let connections = GracefulShutdown::new();
    tokio::select! {
        () = shutdown => {}
        () = accept(&listener, &router, &connections, idle) => {}
    }
    drop(listener);
    stop.cancel();
    // Whoever is slower than this has had their time.
    let _ = tokio::time::timeout(LAST_ANSWERS, connections.shutdown()).await;
}

async fn accept(listener: &TcpListener, router: &Router, connections: &GracefulShutdown, idle: Duration) {
    let (places, peers) = (Arc::new(Semaphore::new(CONNECTIONS)), Peers::default());
    // It is never closed.
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Otherwise it is closed at once.
                if let Some(seat) = peers.seat(peer.ip()) {
                    let taken = (place, seat);
                    tokio::spawn(connection(stream, router.clone(), connections.watcher(), idle, taken));
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
async fn connection(
    stream: TcpStream,
    router: Router,
    watcher: Watcher,
    idle: Duration,
    _taken: (OwnedSemaphorePermit, Seat),
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(idle);
    let mut stream = TimeoutStream::new(stream);
    // Not for reading: those who follow only listen.
    stream.set_write_timeout(Some(idle));
    let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router));
    // An error means that the other side broke the protocol or the connection.
    let _ = watcher.watch(connection).await;
}

/// How many connections each address has.
#[derive(Clone, Debug, Default)]
struct Peers(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl Peers {
    /// A place for one more connection; none if this address has as many as it can get.
    fn seat(&self, address: IpAddr) -> Option<Seat> {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = peers.entry(address).or_default();
        if *taken >= PER_PEER {
            return None;
        }
        *taken += 1;
        Some(Seat { peers: self.clone(), address })
    }
}

/// A place that is given back when it is dropped.
#[derive(Debug)]
struct Seat {
    peers: Peers,
    address: IpAddr,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut peers = self.peers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = peers.get_mut(&self.address) {
            *taken -= 1;
            if *taken == 0 {
                peers.remove(&self.address);
            }
        }
    }
}
