//! MariaDB: durable commits, an unusual time zone, and no passwords but one.

use std::io::{Read, Write};
use std::path::PathBuf;

use super::requirement::Requirement;
use super::server_set::{ServerSet, ServerStart};
use super::{Service, port, probe, process, server_url};

/// The URL of a user with all rights and no password. A user may set it to a MySQL server.
const URL_VAR: &str = "POSTHASTE_TEST_MYSQL_URL";

/// Root must start a server of its own with `setpriv`, as [`process::unprivileged`] does. The packages contain only the
/// programs: Debian's `mariadb-server` would create a database and start it at every boot.
const MARIADB: Requirement = Requirement {
    url_var: URL_VAR,
    bin_var: "POSTHASTE_TEST_MYSQL_BIN",
    program: "mariadbd with mariadb-install-db and my_print_defaults near it",
    packages: &["mariadb-server-core", "mariadb-client-core"],
    find: |given| {
        given.or_else(|| process::find("mariadbd")).and_then(Programs::around).map(|programs| programs.server)
    },
    addresses: |url| server_url::mysql_address(url).into_iter().collect(),
};

/// The database of the tests, and a user with a password, for tests of a refused login. MariaDB may know a local client
/// by its address or by its name.
const INIT_SQL: &str = "\
CREATE DATABASE posthaste;
CREATE USER with_password@127.0.0.1 IDENTIFIED BY 'the-right-one';
CREATE USER with_password@localhost IDENTIFIED BY 'the-right-one';
GRANT ALL ON *.* TO with_password@127.0.0.1, with_password@localhost WITH GRANT OPTION;
";

/// Settings that differ from MariaDB's defaults. Two defaults matter: commits are durable, so that benchmarks measure
/// that, and the character set is latin1, which Posthaste has to cope with.
const SERVER_ARGS: &[&str] = &[
    "--bind-address=127.0.0.1",
    // Neither UTC nor whole hours, so that a test notices a time that was converted to the zone of the server.
    "--default-time-zone=+05:45",
    "--innodb-buffer-pool-size=256M",
    // Events of other programs may be larger than the default of 16 MiB.
    "--max-allowed-packet=64M",
    "--max-connections=500",
    "--performance-schema=OFF",
    "--skip-log-bin",
];

pub(super) const SERVICE: Service = Service { missing_packages: || MARIADB.missing_packages(), start };

fn start(set: &mut ServerSet) -> Result<(), String> {
    let Some(programs) = MARIADB.obtain(set)?.and_then(Programs::around) else { return Ok(()) };
    let data = set.directory().join("mariadb").display().to_string();
    programs.initialise(set, &data)?;
    programs.serve(set, &data)
}

/// The programs of one installation: a folder with `bin`, `sbin` or `scripts`.
#[derive(Debug, PartialEq, Eq)]
struct Programs {
    base: PathBuf,
    server: PathBuf,
    installer: PathBuf,
}

impl Programs {
    fn around(server: PathBuf) -> Option<Self> {
        let base = server.parent()?.parent()?.to_owned();
        let installer = ["bin", "scripts"].map(|folder| base.join(folder).join("mariadb-install-db"));
        let installer = installer.into_iter().find(|file| file.is_file())?;
        // The installer runs it. Debian has it in another package.
        let is_whole = server.is_file() && base.join("bin/my_print_defaults").is_file();
        is_whole.then_some(Self { base, server, installer })
    }

    fn initialise(&self, set: &ServerSet, data: &str) -> Result<(), String> {
        let args = [
            "--no-defaults",
            // The machine may be unable to resolve its own name.
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
            // At start the server deletes old temporary files, which in a shared folder may belong to another server.
            format!("--tmpdir={directory}"),
        ];
        let places = places.iter().map(String::as_str);
        let args: Vec<&str> =
            ["--no-defaults"].into_iter().chain(places).chain(SERVER_ARGS.to_vec()).collect();
        let start = ServerStart::new("MariaDB", &self.server, &args, port);
        set.serve(&start, || probe::connect(port).is_ok_and(is_ready))?;
        set.export(URL_VAR, format!("mysql://root@127.0.0.1:{port}/posthaste"));
        Ok(())
    }
}

/// Whether the server sends the greeting of version 10 of its protocol. It does so once it is ready.
fn is_ready(server: impl Read + Write) -> bool {
    const VERSION_OFFSET: usize = 4;
    probe::ask::<{ VERSION_OFFSET + 1 }>(server, b"").is_ok_and(|begin| begin[VERSION_OFFSET] == 10)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::services::probe::tests::served;

    #[test]
    fn installation_is_found_from_the_path_of_its_server() {
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
    fn server_is_ready_when_it_sends_a_greeting() {
        for (greeting, expected) in
            [(&b"\x4a\0\0\0\x0a10.11"[..], true), (b"\x10\0\0\0\xff", false), (b"", false)]
        {
            assert_eq!(served(greeting, is_ready).0, expected, "{greeting:?}");
        }
    }
}
