//! A PgBouncer of a test's own, before a server or a way to it that the test can break.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// In transaction mode, without passwords.
pub struct OwnPooler {
    pub port: u16,
    folder: PathBuf,
    process: Child,
}

impl OwnPooler {
    pub async fn before(host: &str, port: u16, user: &str) -> Self {
        let own = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let folder = std::env::temp_dir().join(format!("pooler-{}-{own}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let users = folder.join("users");
        std::fs::write(&users, format!("\"{user}\" \"\"\n")).expect("a file");
        let settings = format!(
            "[databases]\n* = host={host} port={port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n\
             server_tls_sslmode = disable\n",
            users.display()
        );
        let file = folder.join("pgbouncer.ini");
        std::fs::write(&file, settings).expect("a file");
        let mut command = Command::new("setpriv");
        if Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n") {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        command.args(["--pdeathsig=KILL", "--", "pgbouncer", "-q"]).arg(&file).env("PATH", path);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("PgBouncer runs");
        let mut pooler = Self { port: own, folder, process };
        let mut look = tokio::time::interval(Duration::from_millis(20));
        while TcpStream::connect(("127.0.0.1", own)).is_err() {
            assert!(matches!(pooler.process.try_wait(), Ok(None)), "PgBouncer ended");
            look.tick().await;
        }
        pooler
    }
}

impl Drop for OwnPooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
