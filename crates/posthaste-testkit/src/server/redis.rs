//! A Redis of a test's own.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{OwnServer, RunningServer};
use crate::environment::variable;
use crate::process::program;

/// A Redis that keeps nothing on the disk unless its settings say so.
#[derive(Debug)]
pub struct RedisServer {
    server: OwnServer,
    has_tls: bool,
}

impl RedisServer {
    /// A server with these settings, which does not run yet. Where `PORT` stands among them, it listens with TLS
    /// alone.
    pub fn new(settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let has_tls = settings.iter().any(|setting| setting == "PORT");
        let server = OwnServer::new(move |dir, port| {
            let port = port.to_string();
            let mut command = program(variable("POSTHASTE_TEST_REDIS_BIN"));
            command.args(["--bind", "127.0.0.1", "--save", "", "--port", if has_tls { "0" } else { &port }]);
            command.arg("--dir").arg(dir);
            command.args(settings.iter().map(|setting| if setting == "PORT" { &port } else { setting }));
            command
        });
        Self { server, has_tls }
    }

    /// A server with these settings that answers only when a write is on the disk. It does not run yet.
    pub fn durable(settings: &[&str]) -> Self {
        Self::new(&[&["--appendonly", "yes", "--appendfsync", "always"], settings].concat())
    }

    /// Starts it unless it runs, and returns when it answers.
    pub async fn start(&mut self) {
        match self.has_tls {
            true => self.server.listen().await,
            false => self.server.start(is_ready).await,
        }
    }

    /// The same, for a server that was just made.
    pub async fn started(mut self) -> Self {
        self.start().await;
        self
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Its URL, without a login.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port())
    }

    /// The server itself, whatever it serves.
    pub fn server(&mut self) -> &mut OwnServer {
        &mut self.server
    }

    /// Ends it where it is: SIGKILL.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Ends it where it is, and starts it again. Returns when it answers.
    pub async fn restart(&mut self) {
        self.kill();
        self.start().await;
    }

    /// Suspends it: it keeps its connections, and answers nothing.
    pub fn suspend(&self) {
        self.server.suspend();
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.server.resume();
    }
}

/// Not while it reads its data; a password it asks for is an answer too.
async fn is_ready(running: RunningServer) -> bool {
    query(running.port, "PING").await.is_ok_and(|answer| answer == "PONG" || answer.starts_with("NOAUTH"))
}

/// The answer to a command that has no words with spaces, if it is one text.
pub(super) async fn query(port: u16, command: &str) -> std::io::Result<String> {
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
    stream.write_all(format!("{command}\r\n").as_bytes()).await?;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let answer = line.trim_end();
    // A text after its length, or a line.
    let Some(length) = answer.strip_prefix('$').and_then(|length| length.parse().ok()) else {
        return Ok(answer.get(1..).unwrap_or_default().to_owned());
    };
    let mut text = vec![0; length];
    stream.read_exact(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
