//! A PostgreSQL server of a test's own, to be stopped, killed and started again.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;

use super::until;

/// How a server ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// Clients are cut off, everything is written.
    Fast,
    /// Everybody stops where they are; the next start recovers.
    Immediate,
    /// The first process alone is killed; the others see it some time later.
    Killed,
}

impl End {
    /// A different one each time.
    pub fn of_round(round: usize) -> Self {
        match round {
            4 => Self::Killed,
            _ if round.is_multiple_of(2) => Self::Fast,
            _ => Self::Immediate,
        }
    }
}

pub struct OwnServer {
    bin: PathBuf,
    dir: TempDir,
    port: u16,
    process: Option<Child>,
}

impl OwnServer {
    pub async fn start() -> Self {
        let bin = std::env::var("POSTHASTE_TEST_POSTGRES_BIN").expect("run `cargo xtask test`");
        let mut server = Self { bin: bin.into(), dir: new_folder(), port: free_port(), process: None };
        let initdb = server.command("initdb").args(["-U", "postgres", "-A", "trust", "--no-sync"]).output();
        let initdb = initdb.expect("initdb runs");
        assert!(initdb.status.success(), "{}", String::from_utf8_lossy(&initdb.stderr));
        server.run().await;
        server
    }

    /// A replica of this server, which keeps its place in this slot and says what it still reads.
    pub async fn start_replica(&self, slot: &str) -> Self {
        let mut replica = Self { bin: self.bin.clone(), dir: new_folder(), port: free_port(), process: None };
        let port = self.port.to_string();
        let mut copy = replica.command("pg_basebackup");
        copy.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-c", "fast", "-R", "-S", slot]);
        let copied = copy.output().expect("pg_basebackup runs");
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        let file = File::options().append(true).open(replica.data().join("postgresql.auto.conf"));
        file.expect("its settings").write_all(b"hot_standby_feedback = on\n").expect("a setting");
        replica.run().await;
        replica
    }

    pub fn options(&self) -> PgConnectOptions {
        PgConnectOptions::new().host("127.0.0.1").port(self.port).username("postgres").database("postgres")
    }

    /// Ends it and starts it again. Returns when it takes connections.
    pub async fn restart(&mut self, end: End) {
        let signal = match end {
            End::Fast => "INT",
            End::Immediate => "QUIT",
            End::Killed => "KILL",
        };
        let process = self.process.as_mut().expect("it runs");
        let script = format!("kill -s {signal} {}", process.id());
        assert!(Command::new("sh").args(["-c", &script]).status().expect("a shell").success(), "{script}");
        until("the server ends", async || matches!(process.try_wait(), Ok(Some(_)))).await;
        self.run().await;
    }

    /// Starts it, more than once if others of the last run are still about to end.
    async fn run(&mut self) {
        let (data, sockets) = (self.data(), format!("unix_socket_directories={}", self.dir.path().display()));
        until("the server starts", async || {
            let ended = self.process.as_mut().is_none_or(|process| matches!(process.try_wait(), Ok(Some(_))));
            if ended {
                self.process = Some(self.spawn(&sockets));
            }
            is_ready(&data, self.process.as_ref().map(Child::id))
        })
        .await;
    }

    fn spawn(&self, sockets: &str) -> Child {
        let log = File::options().create(true).append(true).open(self.dir.path().join("log"));
        let port = self.port.to_string();
        self.command("postgres")
            .args(["-p", &port, "-c", "listen_addresses=127.0.0.1", "-c", sockets])
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn()
            .expect("the server runs")
    }

    /// A program of the server's, as nobody if we are root, which ends when we do.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        if is_root() {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        command.arg("--pdeathsig=QUIT").arg("--").arg(self.bin.join(program)).arg("-D").arg(self.data());
        command
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = Command::new("sh").args(["-c", &format!("kill -s QUIT {}", process.id())]).status();
            let _ = process.wait();
        }
    }
}

/// The first line of the server's own file is its process, the eighth says whether it is ready; a replica says
/// that it is one.
fn is_ready(data: &Path, pid: Option<u32>) -> bool {
    let file = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let line = |n| file.lines().nth(n).map(str::trim_end);
    line(0).and_then(|first| first.parse().ok()) == pid && matches!(line(7), Some("ready" | "standby"))
}

/// A folder that the server may use.
fn new_folder() -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    if is_root() {
        let owner = Command::new("chown").arg("65534:65534").arg(dir.path()).status();
        assert!(owner.expect("chown").success());
    }
    dir
}

fn free_port() -> u16 {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    port.expect("a free port").port()
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}
