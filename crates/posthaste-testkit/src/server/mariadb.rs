//! A MariaDB of a test's own.

use std::path::{Path, PathBuf};
use std::process::Command;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::{OwnServer, RunningServer};
use crate::environment::variable;
use crate::process::unprivileged;

/// How a MariaDB ends.
#[derive(Clone, Copy, Debug)]
pub enum MariaDbShutdown {
    /// Clients are cut off, everything is written.
    Stopped,
    /// It stops where it is; the next start recovers.
    Killed,
}

impl MariaDbShutdown {
    /// A different one each time.
    pub fn of_round(round: usize) -> Self {
        if round.is_multiple_of(2) { Self::Stopped } else { Self::Killed }
    }
}

/// Its user `root` has no password.
#[derive(Debug)]
pub struct MariaDbServer {
    server: OwnServer,
}

impl MariaDbServer {
    /// Starts one that has an empty database `shop`, and a time zone of neither UTC nor whole hours.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with these settings, such as `--max-allowed-packet=64M`.
    pub async fn start_with(settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let mut server = OwnServer::unprivileged(move |dir, port| {
            let mut command = command(&program(), dir);
            command.args(["--default-time-zone=+05:45", "--skip-log-bin", "--innodb-buffer-pool-size=64M"]);
            command.arg("--performance-schema=OFF");
            command.arg(format!("--init-file={}", init_file(dir).display())).args(addresses(dir, port));
            command.args(&settings);
            command
        });
        let file = init_file(server.dir());
        std::fs::write(file, "CREATE DATABASE IF NOT EXISTS shop;\n").expect("a file");
        install(server.dir());
        server.start(is_ready).await;
        Self { server }
    }

    /// Starts one that says that it is of another version. It has neither users nor databases, so it starts quickly.
    pub async fn of_version(version: &str) -> Self {
        let version = version.to_owned();
        let mut server = OwnServer::unprivileged(move |dir, port| {
            std::fs::create_dir_all(data(dir)).expect("a folder");
            crate::process::give_to_unprivileged(&data(dir));
            let mut command = command(&program(), dir);
            command.arg("--skip-grant-tables").arg(format!("--version={version}")).args(addresses(dir, port));
            command
        });
        server.start(is_ready).await;
        Self { server }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The URL of its database `shop`, as the user with all rights.
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/shop", self.port())
    }

    /// Ends it and starts it again. Returns when it takes connections.
    pub async fn restart(&mut self, end: MariaDbShutdown) {
        let signal = match end {
            MariaDbShutdown::Stopped => "TERM",
            MariaDbShutdown::Killed => "KILL",
        };
        self.server.end(signal).await;
        self.server.start(is_ready).await;
    }
}

fn install(dir: &Path) {
    let base = base();
    let places = ["bin", "scripts"].map(|folder| base.join(folder).join("mariadb-install-db"));
    let installer = places.into_iter().find(|file| file.is_file()).expect("an installer beside the server");
    let mut installer = command(&installer, dir);
    installer.args(["--force", "--skip-test-db", "--auth-root-authentication-method=normal"]);
    let installed = installer.output().expect("the installer runs");
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
}

/// A program of the server's, on its data.
fn command(program: &Path, dir: &Path) -> Command {
    let mut command = unprivileged(program, "KILL");
    command.arg("--no-defaults").arg(format!("--basedir={}", base().display()));
    command.arg(format!("--datadir={}", data(dir).display()));
    // A server that starts removes what it takes for remains of its own, which may be another's.
    command.arg(format!("--tmpdir={}", dir.display()));
    command
}

fn addresses(dir: &Path, port: u16) -> [String; 4] {
    let file = |name: &str| dir.join(name).display().to_string();
    [
        "--bind-address=127.0.0.1".to_owned(),
        format!("--port={port}"),
        format!("--socket={}", file("sock")),
        format!("--pid-file={}", file("pid")),
    ]
}

fn program() -> PathBuf {
    variable("POSTHASTE_TEST_MYSQL_BIN").into()
}

/// The folder of the installation, with `bin`, `sbin` and others.
fn base() -> PathBuf {
    let base = program().parent().and_then(Path::parent).map(Path::to_owned);
    base.expect("a program in a folder of an installation")
}

fn data(dir: &Path) -> PathBuf {
    dir.join("data")
}

fn init_file(dir: &Path) -> PathBuf {
    dir.join("init.sql")
}

/// The server speaks first, once it is ready: a packet of version 10 of the protocol.
async fn is_ready(running: RunningServer) -> bool {
    let mut begin = [0; 5];
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", running.port)).await else { return false };
    stream.read_exact(&mut begin).await.is_ok() && begin[4] == 10
}
