//! A TCP proxy that can drop all responses: requests arrive, responses do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Forwards everything until responses are dropped.
#[derive(Debug)]
pub struct LostResponses {
    port: u16,
    loses: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl LostResponses {
    /// A proxy in front of this port of the local host.
    pub async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let loses = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(accept(listener, server, Arc::clone(&loses)));
        Self { port, loses, task }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets whether responses are dropped from now on.
    pub fn lose_responses(&self, lose: bool) {
        self.loses.store(lose, Ordering::SeqCst);
    }
}

impl Drop for LostResponses {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, server: u16, loses: Arc<AtomicBool>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = upstream.into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
        let loses = Arc::clone(&loses);
        tokio::spawn(async move {
            let mut bytes = vec![0; 65_536];
            while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
                if !loses.load(Ordering::SeqCst) && to_client.write_all(&bytes[..count]).await.is_err() {
                    break;
                }
            }
        });
    }
}
