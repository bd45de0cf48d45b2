//! The targets of the workspace that are built as test programs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::options::Options;
use crate::cargo::{Cargo, packages};

/// A target of a package, from `cargo metadata`.
#[derive(Clone, Debug)]
struct Target {
    package: String,
    name: String,
    /// `lib`, `bin`, `test`, `example` or another.
    kind: String,
    source: PathBuf,
}

/// The command that builds the wanted test programs. `None` if there are none.
///
/// It always selects the whole workspace, and narrows that by target. With `-p`, cargo would resolve the features of
/// dependencies for that package alone, and compile them again.
pub(super) fn build_command(options: &Options) -> Option<Cargo> {
    let targets = all();
    let wanted = targets.iter().filter(|target| target.is_wanted(options));
    let mut filters: Vec<Vec<&str>> = wanted.map(Target::filter).collect();
    filters.sort_unstable();
    filters.dedup();
    let command = Cargo::new("test --locked --no-run --workspace --all-features --message-format json");
    (!filters.is_empty()).then(|| command.args(&filters.concat()))
}

/// The names of a package and of one of its binaries.
pub(super) type Binary = (String, String);

/// The binaries that tests may run.
pub(super) fn binaries() -> Vec<Binary> {
    let binaries = all().into_iter().filter(|target| target.kind == "bin");
    binaries.map(|target| (target.package, target.name)).collect()
}

fn all() -> Vec<Target> {
    let mut targets = Vec::new();
    for package in packages() {
        let found = package["targets"].as_array().into_iter().flatten();
        targets.extend(found.filter_map(|target| Target::read(package["name"].as_str()?, target)));
    }
    targets
}

impl Target {
    fn read(package: &str, target: &Value) -> Option<Self> {
        Some(Self {
            package: package.to_owned(),
            name: target["name"].as_str()?.to_owned(),
            kind: target["kind"][0].as_str()?.to_owned(),
            source: target["src_path"].as_str()?.into(),
        })
    }

    fn is_wanted(&self, options: &Options) -> bool {
        options.want_program(&self.package, &self.name)
            && match self.kind.as_str() {
                "lib" | "proc-macro" | "test" => true,
                // Building the integration tests builds the binary too and shows its warnings.
                "bin" => has_tests(&self.source),
                // No other step compiles them.
                "example" => !options.quick && !options.is_narrow(),
                _ => false,
            }
    }

    fn filter(&self) -> Vec<&str> {
        match self.kind.as_str() {
            "bin" => vec!["--bin", &self.name],
            "test" => vec!["--test", &self.name],
            "example" => vec!["--example", &self.name],
            _ => vec!["--lib"],
        }
    }
}

/// Whether a binary has unit tests: in its file, or in the folder of its `main.rs`.
fn has_tests(source: &Path) -> bool {
    let files = match source.file_name().is_some_and(|name| name == "main.rs") {
        true => source.parent().map(files_below).unwrap_or_default(),
        false => vec![source.to_owned()],
    };
    let is_marked = |text: &str| ["#[test]", "::test]", "::test("].iter().any(|mark| text.contains(mark));
    files.iter().any(|file| fs::read_to_string(file).is_ok_and(|text| is_marked(&text)))
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(args: &[&str]) -> String {
        build_command(&Options::parse(args).unwrap()).map(|cargo| cargo.to_string()).unwrap_or_default()
    }

    #[test]
    fn full_build_has_the_programs_with_tests_and_no_others() {
        let command = command(&[]);
        for filter in
            ["--lib", "--bin posthaste", "--bin service_tests", "--test cli", "--example kafka_mock"]
        {
            assert!(format!("{command} ").contains(&format!(" {filter} ")), "{filter}: {command}");
        }
        assert!(!command.contains("--bin quickstart"), "{command}");
    }

    #[test]
    fn narrow_build_keeps_the_features_of_the_workspace() {
        let package = command(&["--package", "posthaste-rusqlite"]);
        assert!(package.contains("--workspace --all-features"), "{package}");
        assert!(package.ends_with("json --lib --test writers"), "{package}");
        let test = command(&["--package", "posthaste-sqlx", "--test", "sqlite_store"]);
        assert!(test.contains("--workspace") && test.ends_with("json --test sqlite_store"), "{test}");
    }

    #[test]
    fn library_is_selected_by_its_name() {
        assert!(command(&["--test", "posthaste_sqlx"]).ends_with("json --lib"));
        assert_eq!(command(&["--test", "no_such_program"]), "");
    }
}
