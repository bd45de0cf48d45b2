//! A MariaDB server of a test's own, to be stopped, killed and started again.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sqlx::mysql::MySqlConnectOptions;
use sqlx::{Connection as _, MySqlConnection};
use tempfile::TempDir;

use super::until;

/// How a server ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// Clients are cut off, everything is written.
    Stopped,
    /// It stops where it is; the next start recovers.
    Killed,
}

impl End {
    /// A different one each time.
    pub fn of_round(round: usize) -> Self {
        if round.is_multiple_of(2) { Self::Stopped } else { Self::Killed }
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
        let bin = std::env::var("POSTHASTE_TEST_MYSQL_BIN").expect("run `cargo xtask test`");
        let dir = tempfile::tempdir().expect("a folder");
        if is_root() {
            let owner = Command::new("chown").arg("65534:65534").arg(dir.path()).status();
            assert!(owner.expect("chown").success());
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = port.expect("a free port").port();
        let mut server = Self { bin: bin.into(), dir, port, process: None };
        let mut installer = server.command(&server.installer());
        installer.args(["--force", "--skip-test-db", "--auth-root-authentication-method=normal"]);
        let installed = installer.output();
        let installed = installed.expect("the installer runs");
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        server.run().await;
        let mut connection = server.connect().await.expect("a connection");
        sqlx::raw_sql("CREATE DATABASE shop").execute(&mut connection).await.expect("a database");
        server
    }

    pub fn options(&self) -> MySqlConnectOptions {
        self.address().database("shop")
    }

    /// Ends it and starts it again. Returns when it takes connections.
    pub async fn restart(&mut self, end: End) {
        let signal = match end {
            End::Stopped => "TERM",
            End::Killed => "KILL",
        };
        let process = self.process.as_mut().expect("it runs");
        let script = format!("kill -s {signal} {}", process.id());
        assert!(Command::new("sh").args(["-c", &script]).status().expect("a shell").success(), "{script}");
        until("the server ends", async || matches!(process.try_wait(), Ok(Some(_)))).await;
        self.run().await;
    }

    async fn run(&mut self) {
        self.process = Some(self.spawn());
        until("the server starts", async || self.connect().await.is_ok()).await;
    }

    fn spawn(&self) -> Child {
        let log = File::options().create(true).append(true).open(self.dir.path().join("log"));
        let file = |name: &str| self.dir.path().join(name).display().to_string();
        self.command(&self.bin)
            .args(["--bind-address=127.0.0.1", "--default-time-zone=+05:45", "--skip-log-bin"])
            .args(["--innodb-buffer-pool-size=64M", "--performance-schema=OFF"])
            .arg(format!("--port={}", self.port))
            .arg(format!("--socket={}", file("sock")))
            .arg(format!("--pid-file={}", file("pid")))
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn()
            .expect("the server runs")
    }

    /// A program of the server's, as nobody if we are root, which ends when we do.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        if is_root() {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        command.arg("--pdeathsig=KILL").arg("--").arg(program).arg("--no-defaults");
        command.arg(format!("--basedir={}", self.base().display()));
        command.arg(format!("--datadir={}", self.dir.path().join("data").display()));
        // A server that starts removes what it takes for remains of its own, which may be another's.
        command.arg(format!("--tmpdir={}", self.dir.path().display()));
        command
    }

    /// The folder of the installation, with `bin`, `sbin` and others.
    fn base(&self) -> &Path {
        self.bin.parent().and_then(Path::parent).expect("a program in a folder of an installation")
    }

    fn installer(&self) -> PathBuf {
        let places = ["bin", "scripts"].map(|folder| self.base().join(folder).join("mariadb-install-db"));
        places.into_iter().find(|file| file.is_file()).expect("an installer beside the server")
    }

    fn address(&self) -> MySqlConnectOptions {
        MySqlConnectOptions::new().host("127.0.0.1").port(self.port).username("root")
    }

    async fn connect(&self) -> Result<MySqlConnection, sqlx::Error> {
        MySqlConnection::connect_with(&self.address()).await
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}
