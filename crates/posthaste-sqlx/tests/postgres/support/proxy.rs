//! A way to the server that breaks when a COMMIT is on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

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
    pub options: PgConnectOptions,
    fate: Arc<AtomicU8>,
}

impl Proxy {
    pub async fn to(server: &PgConnectOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("a port").port();
        let fate = Arc::new(AtomicU8::new(Fate::Passes as u8));
        let (next, host, real) = (Arc::clone(&fate), server.get_host().to_owned(), server.get_port());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((host.as_str(), real)).await.expect("the server is there");
                tokio::spawn(carry(client, server, Arc::clone(&next)));
            }
        });
        let options = server.clone().host("127.0.0.1").port(port).ssl_mode(PgSslMode::Disable);
        Self { options, fate }
    }

    pub fn next_commit(&self, fate: Fate) {
        self.fate.store(fate as u8, Ordering::SeqCst);
    }
}

/// Both connections are lost when this returns.
async fn carry(mut client: TcpStream, mut server: TcpStream, fate: Arc<AtomicU8>) -> std::io::Result<()> {
    let (mut question, mut answer) = ([0; 16 * 1024], [0; 16 * 1024]);
    loop {
        tokio::select! {
            read = client.read(&mut question) => {
                let question = &question[..read?];
                let is_commit = question.windows(7).any(|text| text == b"COMMIT\0");
                let fate = if is_commit { fate.swap(Fate::Passes as u8, Ordering::SeqCst) } else { 0 };
                if question.is_empty() || fate == Fate::Lost as u8 {
                    return Ok(());
                }
                server.write_all(question).await?;
                if fate == Fate::AnswerLost as u8 {
                    let _ = server.read(&mut answer).await?;
                    return Ok(());
                }
            }
            read = server.read(&mut answer) => {
                let answer = &answer[..read?];
                if answer.is_empty() {
                    return Ok(());
                }
                client.write_all(answer).await?;
            }
        }
    }
}
