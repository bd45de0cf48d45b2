//! Output and exit code of the binary.

use std::fmt;
use std::process::Output;

pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("no signal ended it"),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// Asserts that the command failed with this error and these causes, and printed nothing else.
    #[track_caller]
    pub(crate) fn assert_error(&self, error: &str, causes: &[&str]) {
        let causes: String = causes.iter().map(|cause| format!("\n  because: {cause}")).collect();
        assert_eq!(self.to_string(), format!("--- stderr\nerror: {error}{causes}\n--- exit code 1"));
    }
}

impl fmt::Display for CommandOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stdout)?;
        if !self.stderr.is_empty() {
            write!(f, "--- stderr\n{}", self.stderr)?;
        }
        write!(f, "--- exit code {}", self.code)
    }
}
