//! A TCP proxy that can turn into a black hole: connections stay open, and nothing passes any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Passes everything on, until it is told to swallow it.
#[derive(Debug)]
pub struct BlackHole {
    port: u16,
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Shared {
    /// How many connections were made so far.
    accepted: AtomicUsize,
    /// Connections before this one are swallowed.
    swallowed: AtomicUsize,
}

impl BlackHole {
    /// A proxy before this port of the local host.
    pub async fn before(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared::default());
        let task = tokio::spawn(serve(listener, target, Arc::clone(&shared))).abort_handle();
        Self { port, shared, task }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections were made so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// From now on nothing passes on the connections that there are, without an error. New ones work.
    pub fn swallow(&self) {
        self.shared.swallowed.store(self.accepted(), Ordering::SeqCst);
    }
}

impl Drop for BlackHole {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, target: u16, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let number = shared.accepted.fetch_add(1, Ordering::SeqCst);
        let server = TcpStream::connect(("127.0.0.1", target)).await.expect("the server is there");
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::spawn(copy(from_client, to_server, number, Arc::clone(&shared)));
        tokio::spawn(copy(from_server, to_client, number, Arc::clone(&shared)));
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, number: usize, shared: Arc<Shared>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if number < shared.swallowed.load(Ordering::SeqCst) {
            // Both ends stay open.
            return std::future::pending().await;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
