//! A proxy in front of PostgreSQL that can lose a COMMIT or its response, and that counts round trips.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What happens to the next COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFault {
    /// The COMMIT arrives, and its response comes back.
    Passes = 0,
    /// The COMMIT never arrives, and the connection is lost.
    Lost = 1,
    /// The COMMIT arrives and is executed. Its response is lost together with the connection.
    ResponseLost = 2,
}

/// Listens on a port of its own until the test ends. It inspects the traffic, so clients must connect without TLS.
#[derive(Debug)]
pub struct BrokenCommit {
    port: u16,
    state: Arc<LinkState>,
}

#[derive(Debug, Default)]
struct LinkState {
    /// The [`CommitFault`] of the next COMMIT.
    fault: AtomicU8,
    round_trips: AtomicUsize,
}

impl BrokenCommit {
    /// A proxy in front of the server at this address.
    pub async fn to(host: &str, port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let own_port = listener.local_addr().expect("a port").port();
        let state = Arc::new(LinkState::default());
        let (host, ours) = (host.to_owned(), Arc::clone(&state));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((host.as_str(), port)).await.expect("the server is there");
                tokio::spawn(forward(client, server, Arc::clone(&ours)));
            }
        });
        Self { port: own_port, state }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the fault of the next COMMIT. Later ones pass.
    pub fn next_commit(&self, fault: CommitFault) {
        self.state.fault.store(fault as u8, Ordering::SeqCst);
    }

    /// Number of round trips: how often a client waited for a response. Requests without a response between them are
    /// one round trip.
    pub fn round_trips(&self) -> usize {
        self.state.round_trips.load(Ordering::SeqCst)
    }
}

/// Forwards both directions. When it returns, both connections are closed.
async fn forward(mut client: TcpStream, mut server: TcpStream, state: Arc<LinkState>) -> std::io::Result<()> {
    let (mut request, mut response) = ([0; 16 * 1024], [0; 16 * 1024]);
    let mut has_response = true;
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let request = &request[..read?];
                let is_commit = contains(request, b"COMMIT\0");
                let fault = if is_commit { state.fault.swap(0, Ordering::SeqCst) } else { 0 };
                if request.is_empty() || fault == CommitFault::Lost as u8 {
                    return Ok(());
                }
                if std::mem::replace(&mut has_response, false) {
                    state.round_trips.fetch_add(1, Ordering::SeqCst);
                }
                server.write_all(request).await?;
                if fault == CommitFault::ResponseLost as u8 {
                    // Reads up to the response to the COMMIT, because earlier requests get their responses first.
                    let mut seen = Vec::new();
                    while !contains(&seen, b"COMMIT\0") && !contains(&seen, b"ROLLBACK\0") {
                        match server.read(&mut response).await? {
                            0 => return Ok(()),
                            read => seen.extend_from_slice(&response[..read]),
                        }
                    }
                    return Ok(());
                }
            }
            read = server.read(&mut response) => {
                let response = &response[..read?];
                if response.is_empty() {
                    return Ok(());
                }
                has_response = true;
                client.write_all(response).await?;
            }
        }
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}
