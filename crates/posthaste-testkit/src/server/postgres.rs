//! A PostgreSQL of a test's own.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{OwnServer, RunningServer};
use crate::environment::variable;
use crate::process::unprivileged;

/// How a PostgreSQL ends.
#[derive(Clone, Copy, Debug)]
pub enum PostgresShutdown {
    /// Clients are cut off, everything is written.
    Fast,
    /// Every process stops where it is; the next start recovers.
    Immediate,
    /// The first process alone is killed; the others see it some time later.
    Killed,
}

impl PostgresShutdown {
    /// A different one each time.
    pub fn of_round(round: usize) -> Self {
        match round {
            4 => Self::Killed,
            _ if round.is_multiple_of(2) => Self::Fast,
            _ => Self::Immediate,
        }
    }
}

/// Trusts every login on the local host.
#[derive(Debug)]
pub struct PostgresServer {
    server: OwnServer,
}

impl PostgresServer {
    /// Starts one with PostgreSQL's own settings.
    pub async fn start() -> Self {
        let mut server = Self::new();
        let initdb = command("initdb", server.server.dir())
            .args(["-U", "postgres", "-A", "trust", "--no-sync"])
            .output();
        let initdb = initdb.expect("initdb runs");
        assert!(initdb.status.success(), "{}", String::from_utf8_lossy(&initdb.stderr));
        server.run().await;
        server
    }

    /// A replica of this server, which keeps its place in this slot and says what it still reads.
    pub async fn start_replica(&self, slot: &str) -> Self {
        let mut replica = Self::new();
        let port = self.port().to_string();
        let mut copy = command("pg_basebackup", replica.server.dir());
        copy.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-c", "fast", "-R", "-S", slot]);
        let copied = copy.output().expect("pg_basebackup runs");
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        let file = File::options().append(true).open(data(replica.server.dir()).join("postgresql.auto.conf"));
        file.expect("its settings").write_all(b"hot_standby_feedback = on\n").expect("a setting");
        replica.run().await;
        replica
    }

    fn new() -> Self {
        let server = OwnServer::unprivileged(|dir, port| {
            let mut postgres = command("postgres", dir);
            postgres.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c"]);
            postgres.arg(format!("unix_socket_directories={}", dir.display()));
            postgres
        });
        // Killed, it would leave the processes that it started.
        Self { server: server.dropped_by("QUIT") }
    }

    async fn run(&mut self) {
        let data = data(self.server.dir());
        self.server.start(|running| std::future::ready(is_ready(&data, running))).await;
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The URL of its superuser and its first database.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port())
    }

    /// Ends it and starts it again. Returns when it takes connections.
    pub async fn restart(&mut self, end: PostgresShutdown) {
        let signal = match end {
            PostgresShutdown::Fast => "INT",
            PostgresShutdown::Immediate => "QUIT",
            PostgresShutdown::Killed => "KILL",
        };
        self.server.end(signal).await;
        self.run().await;
    }
}

/// A program of the server's, on its data.
fn command(program: &str, dir: &Path) -> Command {
    let bin = PathBuf::from(variable("POSTHASTE_TEST_POSTGRES_BIN"));
    let mut command = unprivileged(bin.join(program), "QUIT");
    command.arg("-D").arg(data(dir));
    command
}

fn data(dir: &Path) -> PathBuf {
    dir.join("data")
}

/// The first line of the server's own file is its process, the eighth says whether it is ready; a replica says
/// that it is one.
fn is_ready(data: &Path, running: RunningServer) -> bool {
    let file = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let line = |n| file.lines().nth(n).map(str::trim_end);
    line(0).and_then(|first| first.parse().ok()) == Some(running.pid)
        && matches!(line(7), Some("ready" | "standby"))
}
