//! The steps that are one cargo command each, and tidy.

use crate::cargo::{Cargo, has_clippy};
use crate::rustdoc::with_pages;

/// A cargo command that must succeed.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) name: String,
    pub(super) cargo: Cargo,
    /// The component of the toolchain that it needs and that may not be installed.
    pub(super) component: Option<&'static str>,
    /// Whether its output has results of tests.
    pub(super) has_tests: bool,
}

impl Check {
    fn new(name: &str, cargo: Cargo) -> Self {
        Self { name: name.to_owned(), cargo, component: None, has_tests: false }
    }

    /// Asks for the version only: building tells nothing about the component.
    pub(super) fn is_installed(&self) -> bool {
        self.component.is_none() || self.cargo.subcommand().arg("--version").output().is_ok()
    }
}

/// Resolves the workspace against its lock file, in a second; builds nothing.
const PEERS_LOCK_COMMAND: &str = "update --workspace --locked --manifest-path bench/peers/Cargo.toml";

/// What takes seconds and needs no build, before everything else.
pub(super) fn first() -> Vec<Check> {
    let format = Check::new("format", Cargo::new("fmt --all --check"));
    vec![
        Check { component: Some("rustfmt"), ..format },
        // The benchmark beside other crates is a workspace of its own, which nothing here builds. A dependency that is
        // new to one of our crates would leave it with a lock file with which it cannot be built.
        Check::new("lock file of the peers", Cargo::new(PEERS_LOCK_COMMAND)),
    ]
}

/// Steps of the compiler other than the build of the tests, which has clippy in it.
pub(super) fn compiled() -> Vec<Check> {
    let doc_tests = Cargo::new("test --locked --no-fail-fast --workspace --all-features --doc");
    // With the libraries that the build of the tests has made.
    let doc_tests = if has_clippy() { doc_tests.by_clippy() } else { doc_tests };
    let own_pages = Cargo::new("doc --locked --no-deps -p xtask").env("RUSTDOCFLAGS", "-D warnings");
    let mut checks = vec![
        Check { has_tests: true, ..Check::new("documentation and doc tests", with_pages(doc_tests)) },
        Check::new("documentation of xtask", own_pages),
    ];
    checks.extend(FEATURE_SETS.iter().map(|(package, features)| with_features(package, features)));
    checks
}

/// Sets of features that users choose and that our own builds, which have all of them, do not see.
const FEATURE_SETS: &[(&str, &str)] = &[
    ("posthaste", ""),
    ("posthaste", "serde"),
    ("posthaste", "conformance"),
    ("posthaste", "opentelemetry"),
    ("posthaste-sqlx", ""),
    ("posthaste-sqlx", "mysql"),
    ("posthaste-sqlx", "postgres"),
    ("posthaste-sqlx", "sqlite"),
    ("posthaste-publishers", ""),
    ("posthaste-publishers", "http"),
    ("posthaste-publishers", "lines"),
    ("posthaste-admin", ""),
    ("posthaste-admin", "client"),
    ("posthaste-admin", "server"),
    ("posthaste-redis", ""),
    ("posthaste-redis", "tickets"),
    ("posthaste-sea-orm", ""),
    ("posthaste-diesel", ""),
    ("posthaste-diesel", "sqlite"),
    ("posthaste-diesel", "async-postgres"),
    // What `cargo demo` builds.
    ("posthaste-cli", ""),
];

fn with_features(package: &str, features: &str) -> Check {
    let cargo = Cargo::new("check --locked --no-default-features").args(&["-p", package]);
    if features.is_empty() {
        return Check::new(&format!("{package} without features"), cargo);
    }
    Check::new(&format!("{package} with {features} alone"), cargo.args(&["--features", features]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_but_format_keeps_the_lock_file() {
        for check in first().into_iter().chain(compiled()) {
            let command = check.cargo.to_string();
            assert_eq!(command.contains("--locked"), check.name != "format", "{command}");
        }
    }

    #[test]
    fn lock_file_of_a_benchmark_cannot_fall_behind_unseen() {
        assert!(first().iter().any(|check| check.cargo.to_string().ends_with("bench/peers/Cargo.toml")));
    }

    #[test]
    fn doc_tests_run_in_one_step_only() {
        let checks = compiled();
        let doc_tests = checks.iter().filter(|check| check.cargo.to_string().contains("--doc"));
        assert_eq!(doc_tests.map(|check| check.has_tests).collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn check_without_features_has_none() {
        let check = with_features("posthaste", "");
        assert_eq!(check.cargo.to_string(), "cargo check --locked --no-default-features -p posthaste");
    }

    #[test]
    fn unknown_subcommand_is_not_installed() {
        let check = Check::new("no such", Cargo::new("no-such-subcommand --all"));
        assert!(check.is_installed(), "nothing says that it may be missing");
        assert!(!Check { component: Some("no-such"), ..check }.is_installed());
    }
}
