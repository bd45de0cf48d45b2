//! A Redis server for one test.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{OwnServer, RunningServer};
use crate::environment::variable;
use crate::process::program;

/// A Redis server. It writes nothing to disk unless its settings say so.
#[derive(Debug)]
pub struct RedisServer {
    server: OwnServer,
    has_tls: bool,
}

impl RedisServer {
    /// A server with these settings. It is not started yet. If one of them is `PORT`, that is replaced by the port, and
    /// the server listens only with TLS.
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

    /// A server with these settings that replies only after a write is on disk. It is not started yet.
    pub fn durable(settings: &[&str]) -> Self {
        Self::new(&[&["--appendonly", "yes", "--appendfsync", "always"], settings].concat())
    }

    /// Starts the server unless it runs. Returns when it replies.
    pub async fn start(&mut self) {
        match self.has_tls {
            true => self.server.listen().await,
            false => self.server.start(is_ready).await,
        }
    }

    /// As [`start`](Self::start), for a server that was just made.
    pub async fn started(mut self) -> Self {
        self.start().await;
        self
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Its URL, without user and password.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port())
    }

    /// The underlying server process.
    pub fn server(&mut self) -> &mut OwnServer {
        &mut self.server
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Kills it and starts it again. Returns when it replies.
    pub async fn restart(&mut self) {
        self.kill();
        self.start().await;
    }

    /// Suspends it: its connections stay open, but it does not reply.
    pub fn suspend(&self) {
        self.server.suspend();
    }

    /// Resumes it after [`suspend`](Self::suspend).
    pub fn resume(&self) {
        self.server.resume();
    }
}

/// Whether the server replies to PING, or asks for a login (NOAUTH). While loading data it returns a different error.
async fn is_ready(running: RunningServer) -> bool {
    query(running.port, "PING").await.is_ok_and(|reply| reply == "PONG" || reply.starts_with("NOAUTH"))
}

/// Sends a command whose words contain no spaces; returns its reply, which must be a single text.
pub(super) async fn query(port: u16, command: &str) -> std::io::Result<String> {
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
    stream.write_all(format!("{command}\r\n").as_bytes()).await?;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let reply = line.trim_end();
    // A bulk string behind its length, or a simple string.
    let Some(length) = reply.strip_prefix('$').and_then(|length| length.parse().ok()) else {
        return Ok(reply.get(1..).unwrap_or_default().to_owned());
    };
    let mut text = vec![0; length];
    stream.read_exact(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
