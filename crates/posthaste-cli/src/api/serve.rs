//! Listens: connections are bounded, and a stop lets requests end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{Api, router};

/// Connections at the same time; others wait to be accepted.
const CONNECTIONS: usize = 256;

/// A connection that says nothing is closed after this.
const IDLE: Duration = Duration::from_secs(30);

/// Requests that are being answered when the relay stops have this long.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// After an accept that failed: usually there are no more file descriptors, and some will be closed.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown`; then requests that were begun are answered, and those who follow are sent away.
pub(crate) async fn serve(listener: TcpListener, api: Arc<Api>, shutdown: impl Future<Output = ()>) {
    let stop = CancellationToken::new();
    let router = router(api, stop.clone());
    let connections = GracefulShutdown::new();
    tokio::select! {
        () = shutdown => {}
        () = accept(&listener, &router, &connections) => {}
    }
    drop(listener);
    stop.cancel();
    // Whoever is slower than this has had their time.
    let _ = tokio::time::timeout(LAST_ANSWERS, connections.shutdown()).await;
}

async fn accept(listener: &TcpListener, router: &Router, connections: &GracefulShutdown) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // It is never closed.
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, router.clone(), connections.watcher(), place));
            }
            Err(error) => {
                tracing::warn!(%error, "the admin listener cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, router: Router, watcher: Watcher, _place: OwnedSemaphorePermit) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // An error means that the other side broke the protocol or the connection.
    let _ = watcher.watch(connection).await;
}
