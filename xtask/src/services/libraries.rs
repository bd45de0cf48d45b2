//! Libraries of C, which are no servers: diesel links them where its Writers for PostgreSQL and MySQL are built.
//! Without `--all-features` nothing in this workspace needs them.

use std::process::Command;

use super::{Service, process};

const PKG_CONFIG: &str = "pkg-config";

/// Finds the others.
pub(super) const FINDER: Service = Service {
    missing_packages: || if process::find(PKG_CONFIG).is_none() { &[PKG_CONFIG] } else { &[] },
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

fn is_there(library: &str) -> bool {
    Command::new(PKG_CONFIG).args(["--exists", library]).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_library_is_not_there() {
        assert!(!is_there("no-such-library"));
    }
}
