//! Test programs: cargo builds all of them with one command, and the runner starts them.

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
    /// The name of its target: a library, a folder of integration tests, or an example.
    pub(super) target: String,
    executable: PathBuf,
    /// The working folder: that of the package, as under `cargo test`.
    folder: PathBuf,
}

/// The slowest programs, the longest first. They start first, so that none of them runs alone at the end.
const SLOWEST_PROGRAMS: &str = "cli publishers postgres_store postgres_nodes mysql_nodes outbox mysql_store redis \
     simulation sqlite_store posthaste_redis writers";

/// Builds the wanted test programs, and calls `built` with each as soon as it can run. Returns whether the build
/// succeeded, and the warnings and errors of the compiler and of clippy.
///
/// With `clippy`, clippy's driver compiles the crates of the workspace. It generates the same code as rustc, so one
/// build serves both. The build has a lower priority than the programs that run already, some of which depend on time.
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
        let message: Value = serde_json::from_str(&message?).unwrap_or_default();
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

/// Takes the programs out of `held` whose package has all of its binaries. Tests run the binaries of their package, and
/// cargo may link a test program before them.
fn take_ready(held: &mut Vec<Program>, missing: &[Binary]) -> Vec<Program> {
    held.extract_if(.., |program| !missing.iter().any(|(package, _)| *package == program.package)).collect()
}

/// Reads a binary that was built from one of cargo's messages.
fn binary(message: &Value) -> Option<Binary> {
    let is_binary = message["target"]["kind"][0] == "bin" && message["profile"]["test"] == false;
    if is_binary { artifact(message) } else { None }
}

/// The names of the package and of the target, if the message says that a target was built.
fn artifact(message: &Value) -> Option<(String, String)> {
    let message = Some(message).filter(|message| message["reason"] == "compiler-artifact")?;
    let package = package_name(message["package_id"].as_str()?)?;
    Some((package.to_owned(), message["target"]["name"].as_str()?.to_owned()))
}

/// Reads a warning or an error from one of cargo's messages. Cargo repeats the warnings of crates that it does not
/// compile again.
fn diagnostic(message: &Value) -> Option<String> {
    let text = message["message"]["rendered"].as_str().filter(|_| message["reason"] == "compiler-message");
    text.map(str::to_owned)
}

impl Program {
    /// The place in the start order: the lowest runs first.
    pub(super) fn rank(&self) -> usize {
        SLOWEST_PROGRAMS.split(' ').position(|name| name == self.target).unwrap_or(usize::MAX)
    }

    /// Reads a test program from one of cargo's messages.
    fn read(message: &Value) -> Option<Self> {
        let (package, target) = artifact(message).filter(|_| message["profile"]["test"] == true)?;
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        Some(Self { package, target, executable: message["executable"].as_str()?.into(), folder })
    }

    #[cfg(test)]
    pub(super) fn of(executable: PathBuf, folder: PathBuf) -> Self {
        let target = executable.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self { package: "shell".to_owned(), target, executable, folder }
    }

    /// The command that `cargo test` would run, without arguments.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// The name of the file with its output.
    pub(super) fn log_name(&self) -> String {
        format!("{}-{}.log", self.package, self.target)
    }
}

/// Reads the name from `path+file:///x/posthaste#0.1.0`, or from `path+file:///x/examples#posthaste-examples@0.1.0` if
/// the folder has another name than the package.
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

    fn read<T>(read: fn(&Value) -> Option<T>, message: &str) -> Option<T> {
        read(&serde_json::from_str(message).unwrap_or_default())
    }

    #[test]
    fn warning_is_read_from_a_message_of_cargo() {
        let message =
            r#"{"reason":"compiler-message","message":{"level":"warning","rendered":"warning: x\n"}}"#;
        assert_eq!(read(diagnostic, message).as_deref(), Some("warning: x\n"));
        assert_eq!(read(diagnostic, &message.replace("compiler-message", "compiler-artifact")), None);
        assert_eq!(read(diagnostic, "   Compiling something"), None);
    }

    #[test]
    fn test_program_waits_for_the_binaries_of_its_package() {
        let program =
            |package: &str| Program { package: package.to_owned(), ..Program::of("cli".into(), ".".into()) };
        let mut held = vec![program("posthaste-cli"), program("posthaste")];
        let message = r#"{"reason":"compiler-artifact","package_id":"path+file:///x/posthaste-cli#0.1.0",
            "target":{"name":"posthaste","kind":["bin"]},"profile":{"test":false}}"#;
        let posthaste = read(binary, message).unwrap();
        assert_eq!(posthaste, ("posthaste-cli".to_owned(), "posthaste".to_owned()));
        assert_eq!(
            read(binary, &message.replace("\"test\":false", "\"test\":true")),
            None,
            "unit tests of it"
        );
        assert_eq!(take_ready(&mut held, &[posthaste]), [program("posthaste")]);
        assert_eq!(take_ready(&mut held, &[]), [program("posthaste-cli")]);
    }

    #[test]
    fn test_program_is_read_from_a_message_of_cargo() {
        let message = r#"{"reason":"compiler-artifact","manifest_path":"/x/crates/posthaste/Cargo.toml",
            "package_id":"path+file:///x/crates/posthaste#0.1.0","target":{"name":"outbox"},"profile":{"test":true},"executable":"/x/target/debug/deps/outbox-1"}"#;
        let program = read(Program::read, message).unwrap();
        assert_eq!(program.to_string(), "posthaste/outbox");
        assert_eq!(program.folder, Path::new("/x/crates/posthaste"));
        let renamed = message.replace("crates/posthaste#0.1.0", "examples#posthaste-examples@0.1.0");
        assert_eq!(read(Program::read, &renamed).unwrap().to_string(), "posthaste-examples/outbox");
        assert_eq!(read(Program::read, &message.replace("\"test\":true", "\"test\":false")), None);
        assert_eq!(read(Program::read, &message.replace("\"/x/target/debug/deps/outbox-1\"", "null")), None);
        assert_eq!(read(Program::read, "   Compiling something"), None);
    }
}
