//! A MariaDB of a test's own, which says that it is of another version.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Command, Stdio};

use tempfile::TempDir;

pub(crate) struct OwnServer {
    process: Child,
    port: u16,
    /// A server whose log cannot be written any more would end.
    _log: BufReader<ChildStderr>,
    _folder: TempDir,
}

impl OwnServer {
    /// Without users: it needs none, and starts at once in an empty folder. It ends with the test.
    pub(crate) fn of_version(version: &str) -> Self {
        let program = std::env::var("POSTHASTE_TEST_MYSQL_BIN").expect("run `cargo xtask services up`");
        let folder = tempfile::tempdir().expect("a folder");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = port.expect("a free port").port();
        let mut command = Command::new("setpriv");
        if is_root() {
            let owner = Command::new("chown").arg("65534:65534").arg(folder.path()).status();
            assert!(owner.expect("chown").success());
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        command.args(["--pdeathsig=KILL", "--", &program, "--no-defaults", "--skip-grant-tables"]);
        let place = folder.path().display();
        command.arg(format!("--datadir={place}")).arg(format!("--socket={place}/socket"));
        // A server that starts removes what it takes for remains of its own, which may be another's.
        command.arg(format!("--tmpdir={place}"));
        command.arg(format!("--pid-file={place}/pid")).arg(format!("--port={port}"));
        command.arg("--bind-address=127.0.0.1").arg(format!("--version={version}"));
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut log = BufReader::new(process.stderr.take().expect("a log"));
        let mut line = String::new();
        while !line.contains("ready for connections") {
            line.clear();
            assert!(log.read_line(&mut line).expect("text") > 0, "the server ended");
        }
        Self { process, port, _log: log, _folder: folder }
    }

    /// `host:port`.
    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}
