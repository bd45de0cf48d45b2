//! A way to the server that counts round trips, and that can break when a COMMIT is on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// What becomes of the next COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Passes = 0,
    /// It never arrives, and the connection is lost.
    Lost = 1,
    /// It arrives, is done and answered, and the answer is lost with the connection.
    AnswerLost = 2,
}

/// Listens on a port of its own until the test ends.
pub struct Proxy {
    pub config: Config,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    fate: AtomicU8,
    round_trips: AtomicUsize,
}

impl Proxy {
    pub async fn to(server: &Config) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("a port").port();
        let Host::Tcp(host) = server.get_hosts()[0].clone() else { panic!("a server on TCP") };
        let real = server.get_ports()[0];
        let shared = Arc::new(Shared::default());
        let ours = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((host.as_str(), real)).await.expect("the server is there");
                tokio::spawn(carry(client, server, Arc::clone(&ours)));
            }
        });
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user(server.get_user().unwrap_or("postgres"));
        config.dbname(server.get_dbname().unwrap_or("postgres"));
        config.options(server.get_options().unwrap_or_default());
        Self { config, shared }
    }

    pub fn next_commit(&self, fate: Fate) {
        self.shared.fate.store(fate as u8, Ordering::SeqCst);
    }

    /// How often somebody had to wait for an answer: requests that follow each other without an answer
    /// between them are one round trip.
    pub fn round_trips(&self) -> usize {
        self.shared.round_trips.load(Ordering::SeqCst)
    }
}

/// Both connections are lost when this returns.
async fn carry(mut client: TcpStream, mut server: TcpStream, shared: Arc<Shared>) -> std::io::Result<()> {
    let (mut question, mut answer) = ([0; 16 * 1024], [0; 16 * 1024]);
    let mut is_answered = true;
    loop {
        tokio::select! {
            read = client.read(&mut question) => {
                let question = &question[..read?];
                let is_commit = question.windows(7).any(|text| text == b"COMMIT\0");
                let fate = if is_commit { shared.fate.swap(0, Ordering::SeqCst) } else { 0 };
                if question.is_empty() || fate == Fate::Lost as u8 {
                    return Ok(());
                }
                if std::mem::replace(&mut is_answered, false) {
                    shared.round_trips.fetch_add(1, Ordering::SeqCst);
                }
                server.write_all(question).await?;
                if fate == Fate::AnswerLost as u8 {
                    // Both answers, that to the proof and that to the COMMIT.
                    let mut seen = Vec::new();
                    while !seen.windows(7).any(|text| text == b"COMMIT\0") {
                        let read = server.read(&mut answer).await?;
                        seen.extend_from_slice(&answer[..read]);
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
