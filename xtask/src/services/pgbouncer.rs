//! PgBouncer in front of PostgreSQL: transaction mode, two connections per pool, otherwise its defaults.

use std::path::{Path, PathBuf};

use super::server_set::{ServerSet, ServerStart, is_listening};
use super::server_url::{self, PostgresUrl};
use super::{Service, env_var, port, postgres, process};

/// The URL of the PostgreSQL database through PgBouncer.
const URL_VAR: &str = "POSTHASTE_TEST_PGBOUNCER_URL";

pub(super) const SERVICE: Service = Service { missing_packages, start };

fn missing_packages() -> Vec<&'static str> {
    if env_var(URL_VAR).is_none() && find().is_none() { vec!["pgbouncer"] } else { Vec::new() }
}

fn find() -> Option<PathBuf> {
    process::find("pgbouncer")
}

fn start(set: &mut ServerSet) -> Result<(), String> {
    if let Some(url) = env_var(URL_VAR) {
        return set.export_from_env(URL_VAR, &url, server_url::postgres_address(&url));
    }
    let program = find().ok_or("pgbouncer is not on the PATH: install it")?;
    let server = set.state().variable(postgres::URL_VAR).unwrap_or_default().to_owned();
    let server = PostgresUrl::parse(&server).ok_or_else(|| {
        format!(
            "PgBouncer cannot connect to the server that {} names: start PgBouncer yourself and set {URL_VAR}.",
            postgres::URL_VAR
        )
    })?;
    serve(set, &program, &server)
}

fn serve(set: &mut ServerSet, program: &Path, server: &PostgresUrl<'_>) -> Result<(), String> {
    let port = port::free()?;
    let file = set.create_file("pgbouncer.ini", &settings(set.directory(), port, server))?;
    set.create_file("pgbouncer.users", &users(server))?;
    let args = [&*file.to_string_lossy()];
    let start = ServerStart::new("PgBouncer", program, &args, port);
    set.serve(&start, || is_listening(("127.0.0.1", port)))?;
    set.export(URL_VAR, format!("postgres://{}@127.0.0.1:{port}/{}", server.user, server.database));
    Ok(())
}

/// Settings that differ from PgBouncer's defaults. `ignore_startup_parameters` stays empty, because Posthaste must
/// connect without it.
fn settings(directory: &Path, port: u16, server: &PostgresUrl<'_>) -> String {
    let directory = directory.display();
    let PostgresUrl { user, address: (host, server_port), .. } = server;
    format!(
        "[databases]
* = host={host} port={server_port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir = {directory}
pidfile = {directory}/pgbouncer.pid
auth_type = trust
auth_file = {directory}/pgbouncer.users
admin_users = {user}
pool_mode = transaction
default_pool_size = 2
max_client_conn = 500
"
    )
}

/// The password is for the connection to PostgreSQL. Clients of PgBouncer need none.
fn users(server: &PostgresUrl<'_>) -> String {
    format!("\"{}\" \"{}\"\n", server.user, server.password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_pooled_per_transaction_with_the_defaults_of_pgbouncer() {
        let server = PostgresUrl::parse("postgres://me:secret@db.local:6000/shop").unwrap();
        let settings = settings(Path::new("/tmp/d"), 20_002, &server);
        for line in [
            "* = host=db.local port=6000",
            "listen_port = 20002",
            "pool_mode = transaction",
            "default_pool_size = 2",
            "auth_file = /tmp/d/pgbouncer.users",
        ] {
            assert!(settings.lines().any(|set| set == line), "{line}");
        }
        assert!(!settings.contains("ignore_startup_parameters"));
        assert!(!settings.contains("secret"));
        assert_eq!(users(&server), "\"me\" \"secret\"\n");
    }
}
