//! A PostgreSQL server for one test.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{OwnServer, RunningServer};
use crate::environment::variable;
use crate::process::unprivileged;

/// How PostgreSQL is ended.
#[derive(Clone, Copy, Debug)]
pub enum PostgresShutdown {
    /// SIGINT: clients are disconnected, and all data is written.
    Fast,
    /// SIGQUIT: all processes end immediately, and the next start recovers.
    Immediate,
    /// SIGKILL of the first process only. The other processes notice it later.
    Killed,
}

impl PostgresShutdown {
    /// Alternates between `Fast` and `Immediate`; round 4 is `Killed`.
    pub fn of_round(round: usize) -> Self {
        match round {
            4 => Self::Killed,
            _ if round.is_multiple_of(2) => Self::Fast,
            _ => Self::Immediate,
        }
    }
}

/// A PostgreSQL server that trusts every login from the local host.
#[derive(Debug)]
pub struct PostgresServer {
    server: OwnServer,
}

impl PostgresServer {
    /// Starts a server with PostgreSQL's default settings.
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

    /// Starts a replica of this server that uses this replication slot and has `hot_standby_feedback` on.
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
        // SIGKILL would leave the processes that it has started.
        Self { server: server.dropped_by("QUIT") }
    }

    async fn run(&mut self) {
        let data = data(self.server.dir());
        self.server.start(|running| std::future::ready(is_ready(&data, running))).await;
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// URL of the superuser and the default database.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port())
    }

    /// Ends the server and starts it again. Returns when it accepts connections.
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

/// Command for a program of PostgreSQL, on the data of this server.
fn command(program: &str, dir: &Path) -> Command {
    let bin = PathBuf::from(variable("POSTHASTE_TEST_POSTGRES_BIN"));
    let mut command = unprivileged(bin.join(program), "QUIT");
    command.arg("-D").arg(data(dir));
    command
}

fn data(dir: &Path) -> PathBuf {
    dir.join("data")
}

/// Reads the server's `postmaster.pid`: the first line is the process id, the eighth line is the state, `ready` or, for
/// a replica, `standby`.
fn is_ready(data: &Path, running: RunningServer) -> bool {
    let file = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let line = |n| file.lines().nth(n).map(str::trim_end);
    line(0).and_then(|first| first.parse().ok()) == Some(running.pid)
        && matches!(line(7), Some("ready" | "standby"))
}
