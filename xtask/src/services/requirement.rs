//! A server that tests need: one that an environment variable names, or a new one from a program of this machine.

use std::path::PathBuf;

use super::env_var;
use super::server_set::ServerSet;

/// The variables, the program and the packages of one kind of server.
pub(super) struct Requirement {
    /// The variable with the URL of a server. If it is set, no server is started.
    pub(super) url_var: &'static str,
    /// The variable with the path of the program, for tests that kill and restart a server of their own. A user who
    /// sets it also chooses the version that is started here.
    pub(super) bin_var: &'static str,
    /// What `bin_var` must name, for the error.
    pub(super) program: &'static str,
    /// The Debian packages of the program.
    pub(super) packages: &'static [&'static str],
    /// Finds the program. The argument is the value of `bin_var`.
    pub(super) find: fn(Option<PathBuf>) -> Option<PathBuf>,
    /// The addresses in a URL. Empty if they cannot be read.
    pub(super) addresses: fn(&str) -> Vec<(&str, u16)>,
}

impl Requirement {
    pub(super) fn missing_packages(&self) -> Vec<&'static str> {
        // If the variable names a program that does not exist, a package does not help.
        let is_needed = env_var(self.url_var).is_none() && env_var(self.bin_var).is_none();
        if is_needed && self.find().is_none() { self.packages.to_vec() } else { Vec::new() }
    }

    /// Exports the variables that are known already. Returns the program if a server must be started.
    pub(super) fn obtain(&self, set: &mut ServerSet) -> Result<Option<PathBuf>, String> {
        let program = self.find();
        if let Some(program) = &program {
            set.export(self.bin_var, program.display().to_string());
        }
        if let Some(url) = env_var(self.url_var) {
            set.export_from_env(self.url_var, &url, (self.addresses)(&url))?;
            return Ok(None);
        }
        self.program(program).map(Some)
    }

    pub(super) fn find(&self) -> Option<PathBuf> {
        (self.find)(env_var(self.bin_var).map(PathBuf::from))
    }

    pub(super) fn program(&self, found: Option<PathBuf>) -> Result<PathBuf, String> {
        found.ok_or_else(|| {
            format!(
                "{} does not name {}: set it to the path of one, or unset it.",
                self.bin_var, self.program
            )
        })
    }
}
