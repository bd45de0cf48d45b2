//! Servers for one test, which can be killed, suspended and restarted. Each has a process, a folder and a port.

mod mariadb;
mod pgbouncer;
mod postgres;
mod redis;
mod redis_cluster;

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::time::{interval, timeout};

use crate::process::{free_port, give_to_unprivileged, listens, resume, signal, suspend};

pub use mariadb::{MariaDbServer, MariaDbShutdown};
pub use pgbouncer::PgBouncer;
pub use postgres::{PostgresServer, PostgresShutdown};
pub use redis::RedisServer;
pub use redis_cluster::RedisCluster;

/// Maximum time for anything that a server does. Some servers are large and share few cores with other tests.
pub const SERVER_TIMEOUT: Duration = Duration::from_secs(90);

/// Maximum time for one readiness check. A client that connects while a server is starting may never get a response;
/// then the check is repeated.
const READINESS_CHECK_TIMEOUT: Duration = Duration::from_secs(10);

type NewCommand = Box<dyn Fn(&Path, u16) -> Command + Send + Sync>;

/// Repeats a check until it returns true; returns how long that took. Fails after [`SERVER_TIMEOUT`]. For conditions
/// that depend on a server.
pub async fn wait_for_server<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) -> Duration {
    let started = Instant::now();
    let mut ticks = interval(Duration::from_millis(20));
    loop {
        ticks.tick().await;
        if timeout(READINESS_CHECK_TIMEOUT, is_so()).await.unwrap_or(false) {
            return started.elapsed();
        }
        assert!(started.elapsed() < SERVER_TIMEOUT, "not within {SERVER_TIMEOUT:?}: {what}");
    }
}

/// A server of any kind. It is killed when this is dropped.
pub struct OwnServer {
    port: u16,
    dir: TempDir,
    command: NewCommand,
    process: Option<Child>,
    drop_signal: &'static str,
}

/// A server that was started and may not be ready yet.
#[derive(Clone, Copy, Debug)]
pub struct RunningServer {
    /// The port it listens on.
    pub port: u16,
    /// The process id.
    pub pid: u32,
}

impl OwnServer {
    /// A server that this command starts, given its folder and port. It is not started yet.
    pub fn new(command: impl Fn(&Path, u16) -> Command + Send + Sync + 'static) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        Self { port: free_port(), dir, command: Box::new(command), process: None, drop_signal: "KILL" }
    }

    /// As [`new`](Self::new), for a command of [`unprivileged`](crate::process::unprivileged). Its user owns the
    /// folder.
    pub fn unprivileged(command: impl Fn(&Path, u16) -> Command + Send + Sync + 'static) -> Self {
        let server = Self::new(command);
        give_to_unprivileged(server.dir());
        server
    }

    /// The signal that ends it when it is dropped, for a server of several processes. Default: `KILL`.
    pub fn dropped_by(mut self, signal: &'static str) -> Self {
        self.drop_signal = signal;
        self
    }

    /// The port it listens on when it runs.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's folder. Its standard output and error go to the file `output.log` in it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts the server unless it runs. Returns when it is ready. If it ends immediately, it is started again, because
    /// the remains of a killed server may still block the folder or the port.
    pub async fn start<F: Future<Output = bool>>(&mut self, is_ready: impl Fn(RunningServer) -> F) {
        let started = Instant::now();
        let mut ticks = interval(Duration::from_millis(20));
        loop {
            let running = self.running();
            if timeout(READINESS_CHECK_TIMEOUT, is_ready(running)).await.unwrap_or(false) {
                return;
            }
            assert!(started.elapsed() < SERVER_TIMEOUT, "the server does not start:\n{}", self.log());
            ticks.tick().await;
        }
    }

    /// Starts the server unless it runs. Returns when it listens.
    pub async fn listen(&mut self) {
        self.start(|running| listens(running.port)).await;
    }

    fn running(&mut self) -> RunningServer {
        let ended = self.process.as_mut().is_none_or(|process| !matches!(process.try_wait(), Ok(None)));
        if ended {
            self.process = Some(self.spawn());
        }
        let pid = self.pid();
        RunningServer { port: self.port, pid }
    }

    fn spawn(&self) -> Child {
        let log =
            File::options().create(true).append(true).open(self.dir().join("output.log")).expect("a log");
        let mut command = (self.command)(self.dir(), self.port);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    fn log(&self) -> String {
        std::fs::read(self.dir().join("output.log"))
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Ends it with this signal. Returns when it has ended.
    pub async fn end(&mut self, name: &str) {
        let mut process = self.process.take().expect("the server runs");
        signal(process.id(), name);
        wait_for_server("the server ends", || std::future::ready(matches!(process.try_wait(), Ok(Some(_)))))
            .await;
    }

    /// Suspends it: its connections stay open, but it does not reply.
    pub fn suspend(&self) {
        suspend(self.pid());
    }

    /// Resumes it after [`suspend`](Self::suspend).
    pub fn resume(&self) {
        resume(self.pid());
    }

    fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server runs").id()
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process
            && matches!(process.try_wait(), Ok(None))
        {
            // `kill` fails if the server ends by itself at this moment.
            let _ = Command::new("kill").args(["-s", self.drop_signal, &process.id().to_string()]).status();
            let _ = process.wait();
        }
    }
}

impl std::fmt::Debug for OwnServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnServer").field("port", &self.port).field("dir", &self.dir).finish_non_exhaustive()
    }
}
