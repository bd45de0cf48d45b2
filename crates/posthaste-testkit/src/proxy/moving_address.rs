//! An address that moves: existing connections stay, and new ones lead to another server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Forwards each connection to the port that was the target when the connection was made.
#[derive(Debug)]
pub struct MovingAddress {
    port: u16,
    target: Arc<AtomicU16>,
    accepted: Arc<AtomicUsize>,
    task: AbortHandle,
}

impl MovingAddress {
    /// An address that leads to this port of the local host.
    pub async fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (target, accepted) = (Arc::new(AtomicU16::new(target)), Arc::new(AtomicUsize::new(0)));
        let task = tokio::spawn(serve(listener, Arc::clone(&target), Arc::clone(&accepted))).abort_handle();
        Self { port, target, accepted, task }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// New connections lead to this port from now on. Existing ones stay.
    pub fn redirect_to(&self, target: u16) {
        self.target.store(target, Ordering::SeqCst);
    }
}

impl Drop for MovingAddress {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, target: Arc<AtomicU16>, accepted: Arc<AtomicUsize>) {
    while let Ok((mut client, _)) = listener.accept().await {
        accepted.fetch_add(1, Ordering::SeqCst);
        let target = target.load(Ordering::SeqCst);
        let mut server = TcpStream::connect(("127.0.0.1", target)).await.expect("the server is there");
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
    }
}
