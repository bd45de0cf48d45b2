//! A PgBouncer for one test, in front of a PostgreSQL server or of a proxy to one.

use super::OwnServer;
use crate::process::unprivileged;

/// A PgBouncer in transaction mode, without passwords.
#[derive(Debug)]
pub struct PgBouncer {
    server: OwnServer,
}

impl PgBouncer {
    /// Starts a PgBouncer in front of the PostgreSQL server at this address, for this user.
    pub async fn before(host: &str, port: u16, user: &str) -> Self {
        let upstream = format!("host={host} port={port}");
        let mut server = OwnServer::unprivileged(move |dir, port| {
            let settings = format!(
                "[databases]\n* = {upstream}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
                 unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n\
                 server_tls_sslmode = disable\n",
                dir.join("users").display()
            );
            let file = dir.join("pgbouncer.ini");
            std::fs::write(&file, settings).expect("a file");
            let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
            let mut command = unprivileged("pgbouncer", "KILL");
            command.arg("-q").arg(file).env("PATH", path);
            command
        });
        std::fs::write(server.dir().join("users"), format!("\"{user}\" \"\"\n")).expect("a file");
        server.listen().await;
        Self { server }
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.server.port()
    }
}
