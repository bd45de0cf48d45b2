//! A MariaDB server for one test.

use std::path::{Path, PathBuf};
use std::process::Command;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::{OwnServer, RunningServer};
use crate::environment::variable;
use crate::process::unprivileged;

/// How MariaDB is ended.
#[derive(Clone, Copy, Debug)]
pub enum MariaDbShutdown {
    /// SIGTERM: clients are disconnected, and all data is written.
    Stopped,
    /// SIGKILL: it ends immediately, and the next start recovers.
    Killed,
}

impl MariaDbShutdown {
    /// Alternates between both.
    pub fn of_round(round: usize) -> Self {
        if round.is_multiple_of(2) { Self::Stopped } else { Self::Killed }
    }
}

/// A MariaDB server whose user `root` has no password.
#[derive(Debug)]
pub struct MariaDbServer {
    server: OwnServer,
}

impl MariaDbServer {
    /// Starts a server with an empty database `shop`, and a time zone that differs from UTC by a fraction of an hour.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// As [`start`](Self::start), with further settings such as `--max-allowed-packet=64M`.
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

    /// Starts a server that reports another version. It has neither users nor databases, so it starts quickly.
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

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// URL of the database `shop`, for the user with all rights.
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/shop", self.port())
    }

    /// Ends the server and starts it again. Returns when it accepts connections.
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

/// Command for a program of MariaDB, on the data of this server.
fn command(program: &Path, dir: &Path) -> Command {
    let mut command = unprivileged(program, "KILL");
    command.arg("--no-defaults").arg(format!("--basedir={}", base().display()));
    command.arg(format!("--datadir={}", data(dir).display()));
    // At start a server deletes temporary files that it takes for its own. They may belong to the server of another
    // test.
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

/// A server that is ready sends the first packet, of version 10 of the protocol.
async fn is_ready(running: RunningServer) -> bool {
    let mut begin = [0; 5];
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", running.port)).await else { return false };
    stream.read_exact(&mut begin).await.is_ok() && begin[4] == 10
}
