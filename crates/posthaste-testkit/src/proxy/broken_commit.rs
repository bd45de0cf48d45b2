//! A way to PostgreSQL that can break when a COMMIT is on it, and that counts round trips.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The fault of the next COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFault {
    /// It arrives, and so does its answer.
    Passes = 0,
    /// It never arrives, and the connection is lost.
    Lost = 1,
    /// It arrives, is done and answered, and the answer is lost with the connection.
    ResponseLost = 2,
}

/// Listens on a port of its own until the test ends. It reads what is said, so clients must come without TLS.
#[derive(Debug)]
pub struct BrokenCommit {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    fault: AtomicU8,
    round_trips: AtomicUsize,
}

impl BrokenCommit {
    /// A way to the server at this address.
    pub async fn to(host: &str, port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let own_port = listener.local_addr().expect("a port").port();
        let shared = Arc::new(Shared::default());
        let (host, ours) = (host.to_owned(), Arc::clone(&shared));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((host.as_str(), port)).await.expect("the server is there");
                tokio::spawn(forward(client, server, Arc::clone(&ours)));
            }
        });
        Self { port: own_port, shared }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Decides what becomes of the next COMMIT; those after it pass.
    pub fn next_commit(&self, fault: CommitFault) {
        self.shared.fault.store(fault as u8, Ordering::SeqCst);
    }

    /// How often a client had to wait for an answer: requests that follow each other without an answer
    /// between them are one round trip.
    pub fn round_trips(&self) -> usize {
        self.shared.round_trips.load(Ordering::SeqCst)
    }
}

/// Both connections are lost when this returns.
async fn forward(mut client: TcpStream, mut server: TcpStream, shared: Arc<Shared>) -> std::io::Result<()> {
    let (mut question, mut answer) = ([0; 16 * 1024], [0; 16 * 1024]);
    let mut is_answered = true;
    loop {
        tokio::select! {
            read = client.read(&mut question) => {
                let question = &question[..read?];
                let is_commit = contains(question, b"COMMIT\0");
                let fault = if is_commit { shared.fault.swap(0, Ordering::SeqCst) } else { 0 };
                if question.is_empty() || fault == CommitFault::Lost as u8 {
                    return Ok(());
                }
                if std::mem::replace(&mut is_answered, false) {
                    shared.round_trips.fetch_add(1, Ordering::SeqCst);
                }
                server.write_all(question).await?;
                if fault == CommitFault::ResponseLost as u8 {
                    // All of it: what was sent together with the COMMIT is answered before it.
                    let mut seen = Vec::new();
                    while !contains(&seen, b"COMMIT\0") && !contains(&seen, b"ROLLBACK\0") {
                        match server.read(&mut answer).await? {
                            0 => return Ok(()),
                            read => seen.extend_from_slice(&answer[..read]),
                        }
                    }
                    return Ok(());
                }
            }
            read = server.read(&mut answer) => {
                let answer = &answer[..read?];
                if answer.is_empty() {
                    return Ok(());
                }
                is_answered = true;
                client.write_all(answer).await?;
            }
        }
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}
