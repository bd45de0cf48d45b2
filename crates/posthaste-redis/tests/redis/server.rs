//! Redis servers of a test's own, to be stopped, killed and started again.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::{connect, until, url_of};

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
        let port = free_port();
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

    /// It stands still, and its connections stay.
    pub(crate) fn stand_still(&self) {
        self.signal("-STOP");
    }

    /// It goes on where it stood still.
    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let process = self.process.as_ref().expect("it runs").id().to_string();
        let status = Command::new("kill").args([signal, &process]).status().expect("kill runs");
        assert!(status.success(), "{signal}");
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

/// Below the ports that the system gives to connections, so that none of those has it before the server does. A node
/// of a cluster of Redis takes the port 10,000 above as well.
fn free_port() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let random = || (RandomState::new().build_hasher().finish() % 12_000) as u16;
    let mut ports = std::iter::repeat_with(|| 10_000 + random()).take(1_000);
    ports.find(|port| is_free(*port) && is_free(*port + 10_000)).expect("a free port")
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A cluster of three servers, of which two go on without the third.
pub(crate) struct OwnCluster {
    pub(crate) nodes: Vec<OwnServer>,
}

impl OwnCluster {
    const SLOTS: u16 = 16_384;
    const NODES: u16 = 3;

    pub(crate) async fn start() -> Self {
        let mut nodes: Vec<OwnServer> = Vec::new();
        let mut bus_ports: Vec<u16> = Vec::new();
        for index in 0..Self::NODES {
            let bus_port = free_port();
            let node = OwnServer::start(&[
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &bus_port.to_string(),
                "--cluster-announce-ip",
                "127.0.0.1",
                "--cluster-require-full-coverage",
                "no",
                // Longer than any test: no node is declared dead.
                "--cluster-node-timeout",
                "600000",
            ])
            .await;
            let mut connection = connect(&node.url()).await;
            let mut tell = async |args: &[&str]| {
                let answer = redis::cmd("CLUSTER").arg(args).query_async::<()>(&mut connection).await;
                answer.unwrap_or_else(|error| panic!("{args:?}: {error}"));
            };
            tell(&["SET-CONFIG-EPOCH", &(index + 1).to_string()]).await;
            let (first, end) = (Self::first_slot(index), Self::first_slot(index + 1));
            tell(&["ADDSLOTSRANGE", &first.to_string(), &(end - 1).to_string()]).await;
            for (other, bus_port) in nodes.iter().zip(&bus_ports) {
                tell(&["MEET", "127.0.0.1", &other.port().to_string(), &bus_port.to_string()]).await;
            }
            nodes.push(node);
            bus_ports.push(bus_port);
        }
        let cluster = Self { nodes };
        until("the nodes are one cluster", async || cluster.is_whole().await).await;
        cluster
    }

    async fn is_whole(&self) -> bool {
        for node in &self.nodes {
            let mut info = redis::cmd("CLUSTER");
            let info = info.arg("INFO").query_async::<String>(&mut connect(&node.url()).await).await;
            let info = info.expect("CLUSTER INFO");
            if !["cluster_state:ok", "cluster_size:3"].iter().all(|line| info.lines().any(|it| it == *line)) {
                return false;
            }
        }
        true
    }

    fn first_slot(index: u16) -> u16 {
        (u32::from(Self::SLOTS) * u32::from(index) / u32::from(Self::NODES)) as u16
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(OwnServer::url).collect()
    }

    /// The node that has this key.
    pub(crate) async fn node_of(&self, key: &str) -> usize {
        let mut ask = redis::cmd("CLUSTER");
        ask.arg("KEYSLOT").arg(key);
        let slot: u16 = ask.query_async(&mut connect(&self.nodes[0].url()).await).await.expect("KEYSLOT");
        (1..Self::NODES).filter(|&index| slot >= Self::first_slot(index)).count()
    }
}
