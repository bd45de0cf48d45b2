//! Programs that are no servers: clients that share no code with ours, by which tests read back what was published, and
//! `faketime`, under which they run nodes whose clocks are wrong.

use std::path::PathBuf;

use super::server_set::ServerSet;
use super::{Service, env_var, process};

/// Reads from Kafka.
pub(super) const KCAT: Service =
    Service { missing_packages: || KCAT_PROGRAM.missing_packages(), start: |set| KCAT_PROGRAM.export(set) };

/// Reads from Redis.
pub(super) const REDIS_CLI: Service = Service {
    missing_packages: || REDIS_CLI_PROGRAM.missing_packages(),
    start: |set| REDIS_CLI_PROGRAM.export(set),
};

/// Tests look for it themselves.
pub(super) const FAKETIME: Service =
    Service { missing_packages: || FAKETIME_PROGRAM.missing_packages(), start: |_| Ok(()) };

const KCAT_PROGRAM: Program = Program { variable: "POSTHASTE_TEST_KCAT_BIN", name: "kcat", package: "kcat" };

const REDIS_CLI_PROGRAM: Program =
    Program { variable: "POSTHASTE_TEST_REDIS_CLI", name: "redis-cli", package: "redis-tools" };

const FAKETIME_PROGRAM: Program = Program { variable: "", name: "faketime", package: "faketime" };

struct Program {
    variable: &'static str,
    name: &'static str,
    package: &'static str,
}

impl Program {
    fn missing_packages(&self) -> Vec<&'static str> {
        // A program that was given and is not there is a mistake, which no package mends.
        let is_missing = env_var(self.variable).is_none() && process::find(self.name).is_none();
        is_missing.then_some(self.package).into_iter().collect()
    }

    fn export(&self, set: &mut ServerSet) -> Result<(), String> {
        let Self { variable, name, .. } = self;
        let program = env_var(variable).map(PathBuf::from).or_else(|| process::find(name));
        let program = program.filter(|program| program.is_file());
        let program = program.ok_or_else(|| format!("{variable} is no {name}: set it to one."))?;
        set.export(variable, program.display().to_string());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_is_asked_for_where_its_program_is_missing() {
        let program =
            |name| Program { variable: "POSTHASTE_TEST_NO_SUCH_VARIABLE", name, package: "package" };
        assert_eq!(program("cargo").missing_packages(), [""; 0]);
        assert_eq!(program("no-such-program").missing_packages(), ["package"]);
    }
}
