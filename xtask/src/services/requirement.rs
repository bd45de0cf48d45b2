//! A server that tests need: one that the environment names, or one that is started from a program of this machine.

use std::path::PathBuf;

use super::env_var;
use super::server_set::ServerSet;

/// How a kind of server is found.
pub(super) struct Requirement {
    /// The variable that names a server; one that the environment names is taken, and none is started.
    pub(super) url_var: &'static str,
    /// The variable that names its program, for tests that kill and restart a server of their own. Who sets it chooses
    /// the version that is started here, too.
    pub(super) bin_var: &'static str,
    /// What the second variable has to name.
    pub(super) program: &'static str,
    /// What Debian has it in.
    pub(super) packages: &'static [&'static str],
    /// Finds the program, which the environment may name.
    pub(super) find: fn(Option<PathBuf>) -> Option<PathBuf>,
    /// Where the server of a URL listens, as far as that can be read.
    pub(super) addresses: fn(&str) -> Vec<(&str, u16)>,
}

impl Requirement {
    pub(super) fn missing_packages(&self) -> Vec<&'static str> {
        // A program that was given and is not there is a mistake, which no package mends.
        let is_needed = env_var(self.url_var).is_none() && env_var(self.bin_var).is_none();
        if is_needed && self.find().is_none() { self.packages.to_vec() } else { Vec::new() }
    }

    /// Exports what there is. Returns the program if a server has to be started.
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
        found.ok_or_else(|| format!("{} is no {}: set it to one.", self.bin_var, self.program))
    }
}
