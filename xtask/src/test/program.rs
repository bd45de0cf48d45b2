//! Test programs: built by cargo all together, then run by us.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::options::Options;
use crate::cargo::Cargo;

/// A test program that has been built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) package: String,
    /// Of its target: the name of the library, of the folder of integration tests, of the example.
    pub(super) target: String,
    executable: PathBuf,
    /// Where cargo would run it.
    folder: PathBuf,
}

/// The longest first, so that none of them is left for the end.
const SLOWEST_PROGRAMS: &[&str] =
    &["cli", "publishers", "mysql_store", "postgres_store", "simulation", "writers", "redis"];

/// What a build made.
#[derive(Debug)]
pub(super) struct Build {
    /// `None` if it failed.
    pub(super) programs: Option<Vec<Program>>,
    /// What clippy and the compiler say about our own code, as they print it.
    pub(super) diagnostics: Vec<String>,
}

impl Build {
    /// Builds the test programs that are asked for. With `clippy` every crate of ours is compiled by clippy's driver:
    /// it makes the same programs as the compiler, so that one build serves both.
    pub(super) fn run(options: &Options, clippy: bool) -> Self {
        let cargo = build_command(options);
        let (succeeded, messages) = if clippy { cargo.by_clippy() } else { cargo }.run_and_read();
        let diagnostics = messages.lines().filter_map(diagnostic).collect();
        Self { programs: succeeded.then(|| Program::all(&messages, options)), diagnostics }
    }
}

/// Reads a warning or an error from one of cargo's messages. Cargo repeats those of crates that were built before.
fn diagnostic(message: &str) -> Option<String> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-message" {
        return None;
    }
    message["message"]["rendered"].as_str().map(str::to_owned)
}

impl Program {
    fn all(messages: &str, options: &Options) -> Vec<Self> {
        let mut programs: Vec<Self> = messages.lines().filter_map(Self::read).collect();
        if let Some(test) = &options.test {
            programs.retain(|program| program.target == *test);
        }
        if let Some(package) = &options.package {
            programs.retain(|program| program.package == *package);
        }
        let rank = |program: &Self| SLOWEST_PROGRAMS.iter().position(|name| *name == program.target);
        programs
            .sort_by_key(|program| (rank(program).unwrap_or(SLOWEST_PROGRAMS.len()), program.to_string()));
        programs
    }

    /// Reads one of cargo's messages.
    fn read(message: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        Some(Self {
            package: folder.file_name()?.to_str()?.to_owned(),
            target: message["target"]["name"].as_str()?.to_owned(),
            executable: message["executable"].as_str()?.into(),
            folder,
        })
    }

    #[cfg(test)]
    pub(super) fn of(executable: PathBuf, folder: PathBuf) -> Self {
        let target = executable.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self { package: "shell".to_owned(), target, executable, folder }
    }

    /// As cargo would run it, but for its arguments.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// A name for the file of its output.
    pub(super) fn log_name(&self) -> String {
        format!("{}-{}.log", self.package, self.target)
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.package, self.target)
    }
}

/// Always of the whole workspace, and narrowed by target: with `-p`, cargo would choose the features of dependencies for
/// that package alone, and build them again.
fn build_command(options: &Options) -> Cargo {
    let cargo = Cargo::new("test --locked --no-run --workspace --all-features --message-format json");
    let tests = match (&options.test, &options.package) {
        (Some(test), _) => vec![test.clone()],
        (None, Some(package)) => integration_tests(package),
        (None, None) => {
            let targets: &[&str] = if options.quick { &[] } else { &["--bins", "--examples"] };
            return cargo.args(&["--lib", "--tests"]).args(targets);
        }
    };
    let cargo = if options.test.is_none() { cargo.args(&["--lib", "--bins"]) } else { cargo };
    tests.iter().fold(cargo, |cargo, test| cargo.args(&["--test", test]))
}

/// The names of a package's integration tests.
fn integration_tests(package: &str) -> Vec<String> {
    let metadata = Cargo::new("metadata --locked --no-deps --format-version 1").output().unwrap_or_default();
    let metadata: Value = serde_json::from_str(&metadata).unwrap_or_default();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets =
        packages.filter(|found| found["name"] == package).flat_map(|found| found["targets"].as_array());
    let tests = targets.flatten().filter(|target| target["kind"][0] == "test");
    tests.filter_map(|target| target["name"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_is_read_from_a_message_of_cargo() {
        let message =
            r#"{"reason":"compiler-message","message":{"level":"warning","rendered":"warning: x\n"}}"#;
        assert_eq!(diagnostic(message).as_deref(), Some("warning: x\n"));
        assert_eq!(diagnostic(&message.replace("compiler-message", "compiler-artifact")), None);
        assert_eq!(diagnostic("   Compiling something"), None);
    }

    #[test]
    fn narrow_build_keeps_the_features_of_the_workspace() {
        let options = |args: &[&str]| build_command(&Options::parse(args).unwrap()).to_string();
        let package = options(&["--package", "posthaste-rusqlite"]);
        assert!(
            package.contains("--workspace --all-features") && package.ends_with("--test writers"),
            "{package}"
        );
        let test = options(&["--package", "posthaste-sqlx", "--test", "sqlite_store"]);
        assert!(test.contains("--workspace") && test.ends_with("json --test sqlite_store"), "{test}");
    }

    #[test]
    fn test_program_is_read_from_a_message_of_cargo() {
        let message = r#"{"reason":"compiler-artifact","manifest_path":"/x/crates/posthaste/Cargo.toml",
            "target":{"name":"outbox"},"profile":{"test":true},"executable":"/x/target/debug/deps/outbox-1"}"#;
        let program = Program::read(message).unwrap();
        assert_eq!(program.to_string(), "posthaste/outbox");
        assert_eq!(program.folder, Path::new("/x/crates/posthaste"));
        assert_eq!(Program::read(&message.replace("\"test\":true", "\"test\":false")), None);
        assert_eq!(Program::read(&message.replace("\"/x/target/debug/deps/outbox-1\"", "null")), None);
        assert_eq!(Program::read("   Compiling something"), None);
    }
}
