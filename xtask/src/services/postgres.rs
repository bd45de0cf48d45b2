//! PostgreSQL: durable commits, logical replication, and no passwords but one.

use std::fs;
use std::path::{Path, PathBuf};

use super::requirement::Requirement;
use super::server_set::{ServerSet, ServerStart};
use super::{Service, port, server_url};

/// The URL of a superuser without a password.
pub(super) const URL_VAR: &str = "POSTHASTE_TEST_POSTGRES_URL";

/// Root must start a server of its own with `setpriv`, as `process::unprivileged` does.
const POSTGRES: Requirement = Requirement {
    url_var: URL_VAR,
    bin_var: "POSTHASTE_TEST_POSTGRES_BIN",
    program: "folder with initdb and postgres",
    packages: &["postgresql"],
    find: find_bin,
    addresses: |url| server_url::postgres_address(url).into_iter().collect(),
};

/// A superuser with a password, for tests of a refused login.
const ROLE_SQL: &str = "\
SET password_encryption = 'scram-sha-256';
CREATE ROLE with_password SUPERUSER LOGIN PASSWORD 'the-right-one';
";

/// The first matching line decides, so these come before the lines of `initdb`, which trust every login.
const ROLE_ACCESS: &str = "\
local all with_password scram-sha-256
host all with_password all scram-sha-256
";

pub(super) const SERVICE: Service = Service { missing_packages: || POSTGRES.missing_packages(), start };

fn start(set: &mut ServerSet) -> Result<(), String> {
    let Some(bin) = POSTGRES.obtain(set)? else { return Ok(()) };
    let data = set.directory().join("postgres");
    initialise(set, &bin, &data)?;
    serve(set, &bin.join("postgres"), &data)
}

fn initialise(set: &ServerSet, bin: &Path, data: &Path) -> Result<(), String> {
    let data_text = &*data.to_string_lossy();
    let args = ["-D", data_text, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--no-locale"];
    set.run(&bin.join("initdb"), &args, "")?;

    let access = data.join("pg_hba.conf");
    fs::read_to_string(&access)
        .and_then(|lines| fs::write(&access, format!("{ROLE_ACCESS}{lines}")))
        .map_err(|error| format!("{} cannot be changed: {error}", access.display()))?;

    // In single-user mode, so that no client can connect before the role exists.
    let args = ["--single", "-D", data_text, "-c", "exit_on_error=on", "postgres"];
    set.run(&bin.join("postgres"), &args, ROLE_SQL)
}

fn serve(set: &mut ServerSet, program: &Path, data: &Path) -> Result<(), String> {
    let port = port::free()?;
    let sockets = format!("unix_socket_directories={}", set.directory().display());
    let (data_text, port_text) = (data.to_string_lossy(), port.to_string());
    let mut args = vec!["-D", &data_text, "-p", &port_text];
    // With durable commits, so that benchmarks measure them.
    for setting in
        ["listen_addresses=127.0.0.1", &sockets, "wal_level=logical", "max_connections=200", "fsync=on"]
    {
        args.extend(["-c", setting]);
    }
    // INT is the fast shutdown: it closes connections and ends cleanly.
    let start = ServerStart { stop_signal: "INT", ..ServerStart::new("PostgreSQL", program, &args, port) };
    set.serve(&start, || is_ready(data))?;
    set.export(URL_VAR, format!("postgres://postgres@127.0.0.1:{port}/postgres"));
    Ok(())
}

/// Whether the eighth line of `postmaster.pid` is `ready`, which `pg_ctl` checks too.
fn is_ready(data: &Path) -> bool {
    let status = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    status.lines().nth(7).is_some_and(|line| line.trim_end() == "ready")
}

fn find_bin(given: Option<PathBuf>) -> Option<PathBuf> {
    if given.is_some() {
        return given.filter(|bin| has_programs(bin));
    }
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&on_path).collect();
    newest_bin(Path::new("/usr/lib/postgresql")).or_else(|| on_path.into_iter().find(|bin| has_programs(bin)))
}

/// The newest version in Debian's folders, which are not on the PATH.
fn newest_bin(versions: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(versions).ok()?.flatten();
    let version =
        |folder: &fs::DirEntry| folder.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
    let bins = folders.filter_map(|folder| Some((version(&folder)?, folder.path().join("bin"))));
    bins.filter(|(_, bin)| has_programs(bin)).max().map(|(_, bin)| bin)
}

fn has_programs(bin: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| bin.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_version_with_a_server_is_used() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest_bin(&folder.path().join("none")), None);
        assert_eq!(newest_bin(folder.path()), None);
        for (version, programs) in
            [("9", &["initdb", "postgres"][..]), ("15", &["initdb", "postgres"]), ("17", &["psql"])]
        {
            let bin = folder.path().join(version).join("bin");
            fs::create_dir_all(&bin).unwrap();
            programs.iter().for_each(|program| fs::write(bin.join(program), "").unwrap());
        }
        assert_eq!(newest_bin(folder.path()), Some(folder.path().join("15/bin")));
    }

    #[test]
    fn server_is_ready_when_its_pid_file_says_so() {
        let data = tempfile::tempdir().unwrap();
        assert!(!is_ready(data.path()));
        for (status, expected) in [("starting", false), ("ready   ", true)] {
            let lines = format!("17\n/data\n1700000000\n20001\n/tmp\n127.0.0.1\n  1 2\n{status}\n");
            fs::write(data.path().join("postmaster.pid"), lines).unwrap();
            assert_eq!(is_ready(data.path()), expected);
        }
    }
}
