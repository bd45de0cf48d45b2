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
        let mut server = Self::prepare(settings);
        server.run().await;
        server
    }

    fn prepare(settings: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = port.expect("a free port").port();
        let dir = tempfile::tempdir().expect("a folder");
        let settings = settings.iter().map(ToString::to_string).collect();
        Self { port, dir, settings, process: None }
    }

    /// A server that speaks TLS alone, with a certificate for `localhost`; and the authority that signed it.
    pub(crate) async fn with_tls() -> (Self, String) {
        let authority_key = rcgen::KeyPair::generate().expect("a key");
        let mut authority = rcgen::CertificateParams::default();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let root = authority.self_signed(&authority_key).expect("an authority").pem();
        let issuer = rcgen::Issuer::new(authority, authority_key);
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        let certificate = certificate.signed_by(&key, &issuer).expect("a certificate").pem();
        let mut server = Self::prepare(&[]);
        let file = |name: &str, text: &str| {
            let path = server.dir.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path.display().to_string()
        };
        let files = [file("cert", &certificate), file("key", &key.serialize_pem()), file("root", &root)];
        let port = server.port.to_string();
        let settings =
            ["--port", "0", "--tls-port", &port, "--tls-auth-clients", "no", "--tls-cert-file", &files[0]];
        let rest = ["--tls-key-file", &files[1], "--tls-ca-cert-file", &files[2]];
        server.settings = settings.iter().chain(&rest).map(ToString::to_string).collect();
        server.process = Some(server.spawn());
        until("the server listens", async || server.listens().await).await;
        (server, root)
    }

    async fn listens(&self) -> bool {
        tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_ok()
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
