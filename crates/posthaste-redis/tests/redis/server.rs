//! A Redis server of a test's own, to be killed and started again.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::{until, url_of};

pub(crate) struct OwnServer {
    port: u16,
    dir: TempDir,
    settings: Vec<String>,
    process: Option<Child>,
}

impl OwnServer {
    /// A server that answers only when a write is on the disk.
    pub(crate) async fn durable() -> Self {
        Self::start(&["--appendonly", "yes", "--appendfsync", "always"]).await
    }

    /// A server with these settings.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = port.expect("a free port").port();
        let dir = tempfile::tempdir().expect("a folder");
        let settings = settings.iter().map(ToString::to_string).collect();
        let mut server = Self { port, dir, settings, process: None };
        server.run().await;
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        url_of(self.port)
    }

    /// Ends it where it stands.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Ends it where it stands, and starts it again. Returns when it answers.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        self.run().await;
    }

    async fn run(&mut self) {
        self.process = Some(self.spawn());
        until("the server answers", async || self.answers().await).await;
    }

    /// It ends when we do.
    fn spawn(&self) -> Child {
        let bin = std::env::var("POSTHASTE_TEST_REDIS_BIN")
            .expect("POSTHASTE_TEST_REDIS_BIN: run `cargo xtask test`");
        Command::new("setpriv")
            .args(["--pdeathsig=KILL", "--", &bin, "--bind", "127.0.0.1", "--save", "", "--port"])
            .arg(self.port.to_string())
            .arg("--dir")
            .arg(self.dir.path())
            .args(&self.settings)
            .stdout(Stdio::null())
            .spawn()
            .expect("the server runs")
    }

    async fn answers(&self) -> bool {
        let client = redis::Client::open(self.url()).expect("a good URL");
        let Ok(mut connection) = client.get_multiplexed_async_connection().await else { return false };
        let answer = redis::cmd("PING").query_async::<String>(&mut connection).await;
        // A password it asks for is an answer too.
        answer.map_or_else(|error| error.code() == Some("NOAUTH"), |_| true)
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.kill();
    }
}
