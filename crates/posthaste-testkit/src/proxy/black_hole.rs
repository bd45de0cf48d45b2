//! A TCP proxy that can become a black hole: connections stay open, but no data passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Forwards everything until [`swallow`](Self::swallow) is called.
#[derive(Debug)]
pub struct BlackHole {
    port: u16,
    counts: Arc<ConnectionCounts>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct ConnectionCounts {
    /// Connections accepted so far.
    accepted: AtomicUsize,
    /// Connections whose number is lower than this are swallowed.
    swallowed: AtomicUsize,
}

impl BlackHole {
    /// A proxy in front of this port of the local host.
    pub async fn before(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let counts = Arc::new(ConnectionCounts::default());
        let task = tokio::spawn(serve(listener, target, Arc::clone(&counts))).abort_handle();
        Self { port, counts, task }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.counts.accepted.load(Ordering::SeqCst)
    }

    /// Stops all data on the connections made so far, without an error. New connections work.
    pub fn swallow(&self) {
        self.counts.swallowed.store(self.accepted(), Ordering::SeqCst);
    }
}

impl Drop for BlackHole {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, target: u16, counts: Arc<ConnectionCounts>) {
    while let Ok((client, _)) = listener.accept().await {
        let number = counts.accepted.fetch_add(1, Ordering::SeqCst);
        let server = TcpStream::connect(("127.0.0.1", target)).await.expect("the server is there");
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::spawn(copy(from_client, to_server, number, Arc::clone(&counts)));
        tokio::spawn(copy(from_server, to_client, number, Arc::clone(&counts)));
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, number: usize, counts: Arc<ConnectionCounts>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if number < counts.swallowed.load(Ordering::SeqCst) {
            // Both halves are kept, so the connections stay open.
            return std::future::pending().await;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
