//! Drivers for the example producers in other languages, downloaded once with the package tool of each language.
//!
//! The examples pin the versions. A language that is not installed is skipped with a note in the report. A driver that
//! cannot be downloaded is an error.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::server_set::ServerSet;
use super::{Service, cache, env_var, process, python};

pub(super) const SERVICE: Service = Service {
    missing_packages: Vec::new,
    start: |set| LANGUAGES.iter().try_for_each(|language| language.export(set)),
};

const LANGUAGES: &[Language] = &[
    Language {
        name: "Python",
        variable: "POSTHASTE_TEST_PRODUCER_PYTHON",
        programs: &["python3"],
        folder: "python",
        files: &["requirements.txt"],
        install: |files, folder| {
            let file = files.join("requirements.txt");
            python::install(folder, &["-r", &file.to_string_lossy()])
        },
    },
    Language {
        name: "Node",
        variable: "POSTHASTE_TEST_PRODUCER_NODE",
        programs: &["node", "npm"],
        folder: "node",
        files: NODE_FILES,
        install: install_node,
    },
    Language {
        name: "Go",
        variable: "POSTHASTE_TEST_PRODUCER_GO",
        programs: &["go"],
        folder: "go",
        files: &["go.mod", "go.sum"],
        install: install_go,
    },
    Language {
        name: "Java",
        variable: "POSTHASTE_TEST_PRODUCER_JAVA",
        // The compiler too, because the example is a source file.
        programs: &["java", "javac", "mvn"],
        folder: "java",
        files: &["pom.xml"],
        install: |files, folder| {
            let copy = ["--batch-mode", "--quiet", "dependency:copy-dependencies"];
            let target = format!("-DoutputDirectory={}", folder.join("lib").display());
            process::run(Command::new("mvn").args(copy).arg(target).current_dir(files)).map(|_| ())
        },
    },
];

const NODE_FILES: &[&str] = &["package.json", "package-lock.json", ".npmrc"];

struct Language {
    name: &'static str,
    /// The variable with the folder of the drivers. Its value is empty if the language is not installed.
    variable: &'static str,
    /// The programs of the language. All of them are needed.
    programs: &'static [&'static str],
    /// The folder of its example in examples/producers.
    folder: &'static str,
    /// The files of the example that pin the drivers.
    files: &'static [&'static str],
    /// Installs the drivers of the example in the first folder into the second.
    install: fn(&Path, &Path) -> Result<(), String>,
}

impl Language {
    fn export(&self, set: &mut ServerSet) -> Result<(), String> {
        let missing = self.programs.iter().find(|program| process::find(program).is_none());
        let drivers = match (env_var(self.variable), missing) {
            (Some(folder), _) => folder,
            (None, None) => self.obtain()?.display().to_string(),
            (None, Some(program)) => {
                set.note(&self.skip_note(program));
                String::new()
            }
        };
        set.export(self.variable, drivers);
        Ok(())
    }

    fn obtain(&self) -> Result<PathBuf, String> {
        let example = crate::cargo::root().join("examples/producers").join(self.folder);
        let name = self.cache_name(&example)?;
        cache::obtain(&name, |folder| {
            eprintln!("Downloading what the producer in {} needs", self.name);
            (self.install)(&example, folder)
        })
        .map_err(|error| {
            format!("{error}\nThe drivers of the producer in {} cannot be installed: see above.", self.name)
        })
    }

    /// The name of the folder in the cache. It contains a hash of the pinned versions, so that new ones are installed.
    fn cache_name(&self, example: &Path) -> Result<String, String> {
        let mut hasher = DefaultHasher::new();
        for file in self.files {
            let path = example.join(file);
            let text = fs::read_to_string(&path);
            text.map_err(|error| format!("{} cannot be read: {error}", path.display()))?.hash(&mut hasher);
        }
        Ok(format!("producer-{}-{:016x}", self.folder, hasher.finish()))
    }

    fn skip_note(&self, program: &str) -> String {
        format!("LEFT OUT: the producer in {} did not run: {program} is not installed here", self.name)
    }
}

fn install_node(files: &Path, folder: &Path) -> Result<(), String> {
    for file in NODE_FILES {
        let copied = fs::copy(files.join(file), folder.join(file));
        copied.map_err(|error| format!("{file} cannot be copied: {error}"))?;
    }
    let ci = ["ci", "--no-audit", "--no-fund"];
    process::run(Command::new("npm").args(ci).current_dir(folder)).map(|_| ())
}

/// Downloads the modules and compiles them, which takes longer than the download.
fn install_go(files: &Path, folder: &Path) -> Result<(), String> {
    // `-trimpath` keeps the compiled modules valid after the folder is renamed.
    let build = ["build", "-trimpath", "-modcacherw", "-buildvcs=false", "-o", "/dev/null", "."];
    let mut go = Command::new("go");
    go.args(build).current_dir(files);
    process::run(go.env("GOMODCACHE", folder.join("modules")).env("GOCACHE", folder.join("compiled")))
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_versions_get_another_folder() {
        let example = tempfile::tempdir().unwrap();
        let language = &LANGUAGES[0];
        let names = ["psycopg==1\n", "psycopg==2\n", "psycopg==1\n"].map(|text| {
            fs::write(example.path().join("requirements.txt"), text).unwrap();
            language.cache_name(example.path()).unwrap()
        });
        assert_eq!(names[0], names[2]);
        assert_ne!(names[0], names[1]);
        assert!(names[0].starts_with("producer-python-"), "{}", names[0]);
    }

    #[test]
    fn every_example_has_the_files_that_pin_its_drivers() {
        for language in LANGUAGES {
            let example = crate::cargo::root().join("examples/producers").join(language.folder);
            assert!(language.cache_name(&example).is_ok(), "{}", language.name);
        }
    }

    #[test]
    fn missing_language_is_noted_in_the_report() {
        let note = LANGUAGES[2].skip_note("go");
        assert_eq!(note, "LEFT OUT: the producer in Go did not run: go is not installed here");
    }
}
