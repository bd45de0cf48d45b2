//! C libraries and compilers for a build with `--all-features`.
//!
//! diesel links libpq and libmysqlclient (or libmariadb) for its PostgreSQL and MySQL Writers. rdkafka compiles
//! librdkafka. A build without these features needs none of them.

use std::process::Command;

use super::{Service, process};

pub(super) const SERVICE: Service = Service { missing_packages, start: |_| Ok(()) };

pub(super) fn missing_packages() -> Vec<&'static str> {
    missing(|name| process::find(name).is_some(), is_library)
}

fn missing(is_program: impl Fn(&str) -> bool, is_library: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let compiles = ["cc", "c++"].into_iter().all(&is_program);
    let packages = [
        // It tells the build scripts where the libraries are.
        ("pkg-config", is_program("pkg-config")),
        ("libpq-dev", is_library("libpq")),
        ("libmariadb-dev", is_library("mysqlclient") || is_library("libmariadb")),
        ("libssl-dev", is_library("openssl")),
        ("g++", compiles),
        // The packages of the compilers do not depend on the C headers.
        ("libc6-dev", compiles),
        ("make", is_program("make")),
    ];
    packages.into_iter().filter(|(_, is_there)| !is_there).map(|(package, _)| package).collect()
}

fn is_library(name: &str) -> bool {
    Command::new("pkg-config").args(["--exists", name]).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_library_is_not_found() {
        assert!(!is_library("no-such-library"));
    }

    #[test]
    fn both_compilers_and_make_are_needed() {
        for (there, packages) in [
            (&["pkg-config", "cc", "c++", "make"][..], &[][..]),
            (&["pkg-config", "cc", "c++"], &["make"]),
            (&["pkg-config", "cc", "make"], &["g++", "libc6-dev"]),
            (&[], &["pkg-config", "g++", "libc6-dev", "make"]),
        ] {
            assert_eq!(missing(|name| there.contains(&name), |_| true), packages, "{there:?}");
        }
    }

    #[test]
    fn one_library_of_mysql_is_enough() {
        for (there, packages) in [
            (&["libpq", "openssl", "mysqlclient"][..], &[][..]),
            (&["libpq", "openssl", "libmariadb"], &[]),
            (&["libpq"], &["libmariadb-dev", "libssl-dev"]),
            (&["openssl"], &["libpq-dev", "libmariadb-dev"]),
        ] {
            assert_eq!(missing(|_| true, |name| there.contains(&name)), packages, "{there:?}");
        }
    }
}
