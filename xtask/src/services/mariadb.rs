//! MariaDB: durable as in production, in a time zone of its own, with every login trusted but one.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;

use super::server_set::{ServerSet, ServerStart};
use super::server_url::DatabaseUrl;
use super::{Service, env_var, port, process};

/// The URL of a user with all rights who needs no password. A server that is given may be MySQL.
const URL_VAR: &str = "POSTHASTE_TEST_MYSQL_URL";

/// The program `mariadbd`, for tests that kill and restart a server of their own.
///
/// Who sets it chooses the version that is started here, too. As root, such tests must start their
/// server with `setpriv` as we do.
const BIN_VAR: &str = "POSTHASTE_TEST_MYSQL_BIN";

/// The database that is there for tests, and a user whose password the server asks for, so that tests
/// can see one refused. A client on this machine may be known by its address or by its name.
const INIT_SQL: &str = "\
CREATE DATABASE posthaste;
CREATE USER with_password@127.0.0.1 IDENTIFIED BY 'the-right-one';
CREATE USER with_password@localhost IDENTIFIED BY 'the-right-one';
GRANT ALL ON *.* TO with_password@127.0.0.1, with_password@localhost WITH GRANT OPTION;
";

/// What is not here stays as MariaDB has it, a commit that is on the disk and the character set latin1
/// included: Posthaste has to cope with the second, and to be measured with the first.
const SERVER_ARGS: &[&str] = &[
    "--bind-address=127.0.0.1",
    // Neither UTC nor whole hours: a time that the server's zone has touched is seen in every test.
    "--default-time-zone=+05:45",
    "--innodb-buffer-pool-size=256M",
    // Events that other programs write may be larger than the 16 MiB that MariaDB takes unless it is told otherwise.
    "--max-allowed-packet=64M",
    "--max-connections=500",
    "--performance-schema=OFF",
    "--skip-log-bin",
];

pub(super) const SERVICE: Service = Service { missing_packages, start };

/// Only the programs: Debian's `mariadb-server` would create a database and start it at every boot.
fn missing_packages() -> &'static [&'static str] {
    // A program that was given and is not there is a mistake, which no package mends.
    let is_needed = env_var(URL_VAR).is_none() && env_var(BIN_VAR).is_none();
    if is_needed && Programs::find().is_none() {
        &["mariadb-server-core", "mariadb-client-core"]
    } else {
        &[]
    }
}

fn start(set: &mut ServerSet) -> Result<(), String> {
    let programs = Programs::find();
    if let Some(programs) = &programs {
        set.export(BIN_VAR, programs.server.display().to_string());
    }
    if let Some(url) = env_var(URL_VAR) {
        let address = DatabaseUrl::mysql(&url).map(|url| url.address());
        return set.export_from_env(URL_VAR, url.clone(), address);
    }
    let programs = programs.ok_or_else(|| {
        format!(
            "{BIN_VAR} is no mariadbd with mariadb-install-db and my_print_defaults near it: set it to one."
        )
    })?;
    let data = set.directory().join("mariadb").display().to_string();
    programs.initialise(set, &data)?;
    programs.serve(set, &data)
}

/// The programs of one installation, which may be anywhere: a folder with `bin`, `sbin` and others.
#[derive(Debug, PartialEq, Eq)]
struct Programs {
    base: PathBuf,
    server: PathBuf,
    installer: PathBuf,
}

impl Programs {
    fn find() -> Option<Self> {
        env_var(BIN_VAR).map(PathBuf::from).or_else(|| process::find("mariadbd")).and_then(Self::around)
    }

    fn around(server: PathBuf) -> Option<Self> {
        let base = server.parent()?.parent()?.to_owned();
        let installer = ["bin", "scripts"].map(|folder| base.join(folder).join("mariadb-install-db"));
        let installer = installer.into_iter().find(|file| file.is_file())?;
        // Debian has this one, which the installer runs, in another package.
        let is_whole = server.is_file() && base.join("bin/my_print_defaults").is_file();
        is_whole.then_some(Self { base, server, installer })
    }

    fn initialise(&self, set: &ServerSet, data: &str) -> Result<(), String> {
        let args = [
            "--no-defaults",
            // A machine need not know its own name.
            "--force",
            &format!("--basedir={}", self.base.display()),
            &format!("--datadir={data}"),
            &format!("--tmpdir={}", set.directory().display()),
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ];
        set.run(&self.installer, &args, "")
    }

    fn serve(&self, set: &mut ServerSet, data: &str) -> Result<(), String> {
        let port = port::free()?;
        let init_file = set.create_file("mariadb.sql", INIT_SQL)?;
        let directory = set.directory().display();
        let places = [
            format!("--basedir={}", self.base.display()),
            format!("--datadir={data}"),
            format!("--port={port}"),
            format!("--socket={directory}/mariadb.sock"),
            format!("--pid-file={directory}/mariadb.pid"),
            format!("--init-file={}", init_file.display()),
            // A server that starts removes what it takes for remains of its own, which may be another's.
            format!("--tmpdir={directory}"),
        ];
        let places = places.iter().map(String::as_str);
        let args: Vec<&str> =
            ["--no-defaults"].into_iter().chain(places).chain(SERVER_ARGS.to_vec()).collect();
        let start = ServerStart {
            name: "MariaDB",
            program: &self.server,
            args: &args,
            env: &[],
            port,
            stop_signal: "TERM",
        };
        set.serve(&start, || is_ready(port))?;
        set.export(URL_VAR, format!("mysql://root@127.0.0.1:{port}/posthaste"));
        Ok(())
    }
}

/// The server speaks first, once it has prepared everything: a packet of version 10 of the protocol.
fn is_ready(port: u16) -> bool {
    const VERSION_OFFSET: usize = 4;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut begin = [0; VERSION_OFFSET + 1];
    let greeting = TcpStream::connect_timeout(&address, process::SERVER_TIMEOUT).and_then(|mut stream| {
        stream.set_read_timeout(Some(process::SERVER_TIMEOUT))?;
        stream.read_exact(&mut begin)
    });
    greeting.is_ok() && begin[VERSION_OFFSET] == 10
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn installation_is_found_around_its_server_wherever_it_keeps_its_programs() {
        for (server, installer) in [("sbin", "bin"), ("bin", "bin"), ("bin", "scripts")] {
            let folder = tempfile::tempdir().unwrap();
            let base = folder.path().to_owned();
            let server = base.join(server).join("mariadbd");
            let installer = base.join(installer).join("mariadb-install-db");
            let files = [server.clone(), installer.clone(), base.join("bin/my_print_defaults")];
            for file in &files {
                assert_eq!(Programs::around(server.clone()), None, "without {}", file.display());
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, "").unwrap();
            }
            assert_eq!(Programs::around(server.clone()), Some(Programs { base, server, installer }));
        }
    }

    #[test]
    fn server_is_ready_when_it_greets() {
        for (greeting, expected) in
            [(&b"\x4a\0\0\0\x0a10.11"[..], true), (b"\x10\0\0\0\xff", false), (b"", false)]
        {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let server = thread::spawn(move || listener.accept().unwrap().0.write_all(greeting).unwrap());
            assert_eq!(is_ready(port), expected, "{greeting:?}");
            server.join().unwrap();
        }
    }

    #[test]
    fn nobody_greets_where_nobody_listens() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        assert!(!is_ready(port));
    }
}
