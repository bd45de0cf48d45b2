//! Libraries of C, which are no servers: diesel links them where its Writers for PostgreSQL and MySQL are built,
//! rdkafka where the publisher for Kafka is, which builds a library of its own as well.
//! Without `--all-features` nothing in this workspace needs them.

use std::process::Command;

use super::{Service, process};

const PKG_CONFIG_PROGRAM: &str = "pkg-config";

/// `pkg-config`, which finds the others.
pub(super) const PKG_CONFIG: Service = Service {
    missing_packages: || {
        if process::find(PKG_CONFIG_PROGRAM).is_none() { &[PKG_CONFIG_PROGRAM] } else { &[] }
    },
    start: |_| Ok(()),
};

/// libpq.
pub(super) const POSTGRES: Service =
    Service { missing_packages: || if is_there("libpq") { &[] } else { &["libpq-dev"] }, start: |_| Ok(()) };

/// MySQL's own client library, or that of MariaDB.
pub(super) const MYSQL: Service = Service {
    missing_packages: || {
        if is_there("mysqlclient") || is_there("libmariadb") { &[] } else { &["libmariadb-dev"] }
    },
    start: |_| Ok(()),
};

/// OpenSSL, by which rdkafka encrypts.
pub(super) const OPENSSL: Service = Service {
    missing_packages: || if is_there("openssl") { &[] } else { &["libssl-dev"] },
    start: |_| Ok(()),
};

/// What builds rdkafka's library.
pub(super) const COMPILERS: Service = Service {
    missing_packages: || missing_compilers(|name| process::find(name).is_some()),
    start: |_| Ok(()),
};

/// The package of a compiler does not depend on the headers of C.
fn missing_compilers(is_there: impl Fn(&str) -> bool) -> &'static [&'static str] {
    match (["cc", "c++"].into_iter().all(&is_there), is_there("make")) {
        (true, true) => &[],
        (true, false) => &["make"],
        (false, true) => &["g++", "libc6-dev"],
        (false, false) => &["g++", "libc6-dev", "make"],
    }
}

fn is_there(library: &str) -> bool {
    Command::new(PKG_CONFIG_PROGRAM).args(["--exists", library]).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_library_is_not_there() {
        assert!(!is_there("no-such-library"));
    }
    #[test]
    fn both_compilers_and_make_are_needed() {
        for (there, packages) in [
            (&["cc", "c++", "make"][..], &[][..]),
            (&["cc", "c++"], &["make"]),
            (&["cc", "make"], &["g++", "libc6-dev"]),
            (&[], &["g++", "libc6-dev", "make"]),
        ] {
            assert_eq!(missing_compilers(|name| there.contains(&name)), packages, "{there:?}");
        }
    }
}
