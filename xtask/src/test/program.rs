//! Test programs: built by cargo all together, and run by us.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::options::Options;
use super::targets::{self, Binary};

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
const SLOWEST_PROGRAMS: &[&str] = &[
    "cli",
    "publishers",
    "postgres_store",
    "postgres_nodes",
    "mysql_nodes",
    "outbox",
    "mysql_store",
    "redis",
    "simulation",
    "sqlite_store",
    "posthaste_redis",
    "writers",
];

/// Builds the test programs that are asked for, and hands each of them to `built` as soon as it is there. Returns
/// whether all could be built, and what clippy and the compiler say about our own code, as they print it.
///
/// With `clippy` every crate of ours is compiled by clippy's driver: it makes the same programs as the compiler, so that
/// one build serves both. The build yields to the programs that run already, some of which have to be in time.
pub(super) fn build(
    options: &Options,
    clippy: bool,
    built: impl Fn(Program),
) -> io::Result<(bool, Vec<String>)> {
    let Some(cargo) = targets::build_command(options) else {
        return Err(io::Error::other("there is no test program of this name"));
    };
    let mut command = if clippy { cargo.by_clippy() } else { cargo }.nice();
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut diagnostics = Vec::new();
    let (mut held, mut missing) = (Vec::new(), targets::binaries());
    for message in BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).lines() {
        let message = message?;
        let program = Program::read(&message);
        held.extend(program.filter(|program| options.want_program(&program.package, &program.target)));
        let binary = binary(&message);
        missing.retain(|other| Some(other) != binary.as_ref());
        take_ready(&mut held, &missing).into_iter().for_each(&built);
        diagnostics.extend(diagnostic(&message));
    }
    held.into_iter().for_each(&built);
    Ok((child.wait()?.success(), diagnostics))
}

/// Takes the programs whose package has all of its binaries. Tests run the binaries of their package, and cargo links
/// both at the same time.
fn take_ready(held: &mut Vec<Program>, missing: &[Binary]) -> Vec<Program> {
    held.extract_if(.., |program| !missing.iter().any(|(package, _)| *package == program.package)).collect()
}

/// The package and the name of a binary, from one of cargo's messages.
fn binary(message: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_binary = message["reason"] == "compiler-artifact"
        && message["target"]["kind"][0] == "bin"
        && message["profile"]["test"] == false;
    let package = is_binary.then(|| package_name(message["package_id"].as_str()?)).flatten()?;
    Some((package.to_owned(), message["target"]["name"].as_str()?.to_owned()))
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
    /// The program that runs first has the lowest one.
    pub(super) fn rank(&self) -> usize {
        SLOWEST_PROGRAMS.iter().position(|name| *name == self.target).unwrap_or(SLOWEST_PROGRAMS.len())
    }

    /// Reads one of cargo's messages.
    fn read(message: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        Some(Self {
            package: package_name(message["package_id"].as_str()?)?.to_owned(),
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

/// `path+file:///x/posthaste#0.1.0`, or `path+file:///x/examples#posthaste-examples@0.1.0` if the folder is called otherwise.
fn package_name(id: &str) -> Option<&str> {
    let (folder, version) = id.rsplit_once('#')?;
    version.split_once('@').map(|(name, _)| name).or_else(|| folder.rsplit('/').next())
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.package, self.target)
    }
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
    fn test_program_waits_for_the_binaries_of_its_package() {
        let program =
            |package: &str| Program { package: package.to_owned(), ..Program::of("cli".into(), ".".into()) };
        let mut held = vec![program("posthaste-cli"), program("posthaste")];
        let message = r#"{"reason":"compiler-artifact","package_id":"path+file:///x/posthaste-cli#0.1.0",
            "target":{"name":"posthaste","kind":["bin"]},"profile":{"test":false}}"#;
        let posthaste = binary(message).unwrap();
        assert_eq!(posthaste, ("posthaste-cli".to_owned(), "posthaste".to_owned()));
        assert_eq!(binary(&message.replace("\"test\":false", "\"test\":true")), None, "unit tests of it");
        assert_eq!(take_ready(&mut held, &[posthaste]), [program("posthaste")]);
        assert_eq!(take_ready(&mut held, &[]), [program("posthaste-cli")]);
    }

    #[test]
    fn test_program_is_read_from_a_message_of_cargo() {
        let message = r#"{"reason":"compiler-artifact","manifest_path":"/x/crates/posthaste/Cargo.toml",
            "package_id":"path+file:///x/crates/posthaste#0.1.0","target":{"name":"outbox"},"profile":{"test":true},"executable":"/x/target/debug/deps/outbox-1"}"#;
        let program = Program::read(message).unwrap();
        assert_eq!(program.to_string(), "posthaste/outbox");
        assert_eq!(program.folder, Path::new("/x/crates/posthaste"));
        let renamed = message.replace("crates/posthaste#0.1.0", "examples#posthaste-examples@0.1.0");
        assert_eq!(Program::read(&renamed).unwrap().to_string(), "posthaste-examples/outbox");
        assert_eq!(Program::read(&message.replace("\"test\":true", "\"test\":false")), None);
        assert_eq!(Program::read(&message.replace("\"/x/target/debug/deps/outbox-1\"", "null")), None);
        assert_eq!(Program::read("   Compiling something"), None);
    }
}
