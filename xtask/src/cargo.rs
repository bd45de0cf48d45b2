//! Cargo commands, run at the root of the repository, and what cargo knows about the workspace.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The compiler with clippy's lints. It generates code as rustc does, so its programs can be run.
const CLIPPY_DRIVER: &str = "clippy-driver";

/// Whether the toolchain has clippy.
pub(crate) fn has_clippy() -> bool {
    let mut version = Command::new(CLIPPY_DRIVER);
    let version = version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// The root of the repository: the folder above this crate.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folder of cargo's build output.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The packages of the workspace, as `cargo metadata` describes them.
pub(crate) fn packages() -> Vec<Value> {
    let metadata = Cargo::new("metadata --locked --no-deps --format-version 1").output().unwrap_or_default();
    let mut metadata: Value = serde_json::from_str(&metadata).unwrap_or_default();
    metadata["packages"].as_array_mut().map(std::mem::take).unwrap_or_default()
}

/// The name of an installed toolchain of this version, such as `1.94` or `1.94.1`.
pub(crate) fn toolchain(version: &str) -> Option<String> {
    let list = Command::new("rustup").args(["toolchain", "list"]).output().ok()?.stdout;
    let list = String::from_utf8_lossy(&list).into_owned();
    let mut names = list.lines().filter_map(|line| line.split_whitespace().next());
    names
        .find(|name| name.strip_prefix(version).is_some_and(|rest| rest.starts_with(['.', '-'])))
        .map(str::to_owned)
}

/// One cargo command. `Display` writes it as a user would type it in a shell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cargo {
    args: Vec<String>,
    env: Vec<(String, String)>,
    /// A toolchain of rustup. `None`: the one that started this program.
    toolchain: Option<String>,
}

impl Cargo {
    /// Splits `args` at spaces. Use [`Cargo::arg`] for an argument that contains a space.
    pub(crate) fn new(args: &str) -> Self {
        Self { args: args.split_whitespace().map(str::to_owned).collect(), ..Self::default() }
    }

    pub(crate) fn with_toolchain(self, toolchain: &str) -> Self {
        Self { toolchain: Some(toolchain.to_owned()), ..self }
    }

    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    pub(crate) fn args(self, args: &[&str]) -> Self {
        args.iter().fold(self, |cargo, arg| cargo.arg(arg))
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs with the input and output of the terminal. Returns whether it succeeded.
    pub(crate) fn run(&self) -> bool {
        let status = self.command().status();
        status
            .map_err(|error| eprintln!("`{self}` cannot be started: {error}"))
            .is_ok_and(|status| status.success())
    }

    /// Compiles every crate of the workspace with clippy's driver.
    pub(crate) fn by_clippy(self) -> Self {
        self.env("RUSTC_WORKSPACE_WRAPPER", CLIPPY_DRIVER)
    }

    /// The command with a lower processor priority.
    pub(crate) fn nice(&self) -> Command {
        let command = self.command();
        let mut nice = Command::new("nice");
        nice.arg("-n10").arg(command.get_program()).args(command.get_args()).current_dir(root());
        nice.envs(self.env.iter().cloned());
        nice
    }

    /// Runs without printing. Returns standard output, or standard error if it failed.
    pub(crate) fn output(&self) -> Result<String, String> {
        let output = self.command().output().map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    fn command(&self) -> Command {
        let mut command = match &self.toolchain {
            Some(toolchain) => {
                let mut rustup = Command::new("rustup");
                rustup.args(["run", toolchain, "cargo"]);
                rustup
            }
            // The cargo that started this program, so that `cargo +toolchain xtask` keeps its toolchain.
            None => Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())),
        };
        command.args(&self.args).current_dir(root());
        command.envs(self.env.iter().cloned());
        command
    }
}

impl fmt::Display for Cargo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={} ", quoted(value))?;
        }
        if let Some(toolchain) = &self.toolchain {
            write!(f, "rustup run {toolchain} ")?;
        }
        f.write_str("cargo")?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))
    }
}

fn quoted(word: &str) -> String {
    if word.contains(' ') { format!("\"{word}\"") } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_shown_as_a_user_would_type_it() {
        let cargo = Cargo::new("doc --locked").env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(cargo.to_string(), r#"RUSTDOCFLAGS="-D warnings" cargo doc --locked"#);
    }
}
