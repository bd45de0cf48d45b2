//! Test steps that are one cargo command each.

use crate::cargo::{self, Cargo, has_clippy};
use crate::rustdoc::with_pages;

/// A cargo command that must succeed.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) name: String,
    pub(super) cargo: Cargo,
    /// A tool that may be missing. Without it the check is skipped, with a note.
    needs: Option<Need>,
    /// Whether its output contains test results to be counted.
    pub(super) has_tests: bool,
}

#[derive(Clone, Debug)]
struct Need {
    /// Succeeds if the tool is installed. It builds nothing: a failed build would look like a missing tool.
    probe: Cargo,
    /// The note in the report if the tool is missing.
    note: String,
}

impl Check {
    pub(super) fn new(name: &str, cargo: Cargo) -> Self {
        Self { name: name.to_owned(), cargo, needs: None, has_tests: false }
    }

    fn needs(self, probe: Cargo, note: &str) -> Self {
        Self { needs: Some(Need { probe, note: note.to_owned() }), ..self }
    }

    /// The note for the report if the tool of this check is missing.
    pub(super) fn reason_to_skip(&self) -> Option<&str> {
        let missing = self.needs.as_ref().filter(|need| need.probe.output().is_err());
        missing.map(|need| need.note.as_str())
    }
}

/// Resolves the workspace against its lock file. It builds nothing and takes a second.
const PEERS_LOCK_COMMAND: &str = "update --workspace --locked --manifest-path bench/peers/Cargo.toml";

/// Checks that take seconds and need no build. They run before everything else.
pub(super) fn first() -> Vec<Check> {
    vec![
        Check::new("format", Cargo::new("fmt --all --check")).needs(
            Cargo::new("fmt --version"),
            "format: rustfmt is not installed here (rustup component add rustfmt)",
        ),
        // bench/peers is a workspace of its own, which no step builds. A new dependency of one of our crates makes its
        // lock file stale, and then it cannot be built with `--locked`.
        Check::new("lock file of the peers", Cargo::new(PEERS_LOCK_COMMAND)),
        Check::new("deny", Cargo::new("deny --locked --all-features check licenses bans sources")).needs(
            Cargo::new("deny --version"),
            "deny: cargo-deny is not installed here (cargo install --locked cargo-deny)",
        ),
        Check::new("deny: advisories", Cargo::new("deny --locked --all-features check advisories")).needs(
            Cargo::new("deny --locked fetch db"),
            "deny: advisories: cargo-deny is not installed here, or its database cannot be reached",
        ),
    ]
}

/// Checks that compile. Clippy is not one of them: it compiles the tests.
pub(super) fn compiled() -> Vec<Check> {
    let doc_tests = Cargo::new("test --locked --no-fail-fast --workspace --all-features --doc");
    // The same compiler as for the tests, so that cargo uses the libraries that exist already.
    let doc_tests = if has_clippy() { doc_tests.by_clippy() } else { doc_tests };
    let own_pages = Cargo::new("doc --locked --no-deps -p xtask").env("RUSTDOCFLAGS", "-D warnings");
    vec![
        Check { has_tests: true, ..Check::new("documentation and doc tests", with_pages(doc_tests)) },
        Check::new("documentation of xtask", own_pages),
        minimum_rust(env!("CARGO_PKG_RUST_VERSION")),
    ]
}

/// Compiles with the `rust-version` of the manifests, if that toolchain is installed.
fn minimum_rust(version: &str) -> Check {
    let toolchain = cargo::toolchain(version).unwrap_or_else(|| version.to_owned());
    let with = |args| Cargo::new(args).with_toolchain(&toolchain);
    Check::new("minimum Rust", with("check --locked --workspace --all-features")).needs(
        with("--version"),
        &format!("minimum Rust: {version} is not installed here (rustup toolchain install {version})"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Check> {
        first().into_iter().chain(compiled())
    }

    #[test]
    fn every_check_but_format_keeps_the_lock_file() {
        for check in all() {
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
        let doc_tests = all().filter(|check| check.cargo.to_string().contains("--doc"));
        assert_eq!(doc_tests.map(|check| check.has_tests).collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn check_without_its_tool_is_left_out_with_a_note() {
        let check = Check::new("name", Cargo::new("no-such-subcommand --all"));
        assert_eq!(check.reason_to_skip(), None, "it needs no tool");
        let check = check.needs(Cargo::new("no-such-subcommand --version"), "not here");
        assert_eq!(check.reason_to_skip(), Some("not here"));
        let format = first()[0].needs.clone().unwrap();
        assert!(format.note.contains("rustup component add rustfmt"), "{}", format.note);
        let check = minimum_rust("0.1");
        assert_eq!(check.cargo.to_string(), "rustup run 0.1 cargo check --locked --workspace --all-features");
        assert!(check.reason_to_skip().unwrap().starts_with("minimum Rust: 0.1 is not installed here"));
    }
}
