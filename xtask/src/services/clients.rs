//! Clients that are not ours, by which tests read back what was published.

use std::path::PathBuf;

use super::server_set::ServerSet;
use super::{Service, env_var, process};

/// Reads from Kafka.
pub(super) const KCAT: Service = Service {
    missing_packages: || KCAT_PROGRAM.missing_packages(&["kcat"]),
    start: |set| KCAT_PROGRAM.export(set),
};

/// Reads from Redis.
pub(super) const REDIS_CLI: Service = Service {
    missing_packages: || REDIS_CLI_PROGRAM.missing_packages(&["redis-tools"]),
    start: |set| REDIS_CLI_PROGRAM.export(set),
};

const KCAT_PROGRAM: Program = Program { variable: "POSTHASTE_TEST_KCAT_BIN", name: "kcat" };

const REDIS_CLI_PROGRAM: Program = Program { variable: "POSTHASTE_TEST_REDIS_CLI", name: "redis-cli" };

struct Program {
    variable: &'static str,
    name: &'static str,
}

impl Program {
    fn missing_packages(&self, packages: &'static [&'static str]) -> &'static [&'static str] {
        // A program that was given and is not there is a mistake, which no package mends.
        if env_var(self.variable).is_none() && process::find(self.name).is_none() { packages } else { &[] }
    }

    fn export(&self, set: &mut ServerSet) -> Result<(), String> {
        let Self { variable, name } = self;
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
        let program = |name| Program { variable: "POSTHASTE_TEST_NO_SUCH_VARIABLE", name };
        assert_eq!(program("cargo").missing_packages(&["package"]), [""; 0]);
        assert_eq!(program("no-such-program").missing_packages(&["package"]), ["package"]);
    }
}
