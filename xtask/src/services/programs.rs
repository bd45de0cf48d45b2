//! Programs that tests call: clients that share no code with Posthaste, to read back published events, and `faketime`,
//! to run nodes with a wrong clock.

use std::path::PathBuf;

use super::server_set::ServerSet;
use super::{Service, env_var, process};

pub(super) const SERVICE: Service = Service {
    missing_packages: || {
        PROGRAMS.iter().filter(|program| program.is_missing()).map(|program| program.package).collect()
    },
    start: |set| PROGRAMS.iter().try_for_each(|program| program.export(set)),
};

const PROGRAMS: &[Program] = &[
    Program { variable: Some("POSTHASTE_TEST_KCAT_BIN"), name: "kcat", package: "kcat" },
    Program { variable: Some("POSTHASTE_TEST_REDIS_CLI"), name: "redis-cli", package: "redis-tools" },
    Program { variable: None, name: "faketime", package: "faketime" },
];

struct Program {
    /// The variable with its path. `None`: tests find it on the PATH.
    variable: Option<&'static str>,
    name: &'static str,
    package: &'static str,
}

impl Program {
    fn is_missing(&self) -> bool {
        // If the variable names a program that does not exist, a package does not help.
        self.variable.and_then(env_var).is_none() && process::find(self.name).is_none()
    }

    fn export(&self, set: &mut ServerSet) -> Result<(), String> {
        let Some(variable) = self.variable else { return Ok(()) };
        let program = env_var(variable).map(PathBuf::from).or_else(|| process::find(self.name));
        let program = program.filter(|program| program.is_file());
        let program = program.ok_or_else(|| {
            format!("{variable} does not name {}: set it to the path of one, or unset it.", self.name)
        })?;
        set.export(variable, program.display().to_string());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_is_needed_where_its_program_is_missing() {
        let program =
            |name| Program { variable: Some("POSTHASTE_TEST_NO_SUCH_VARIABLE"), name, package: "p" };
        assert!(!program("cargo").is_missing() && program("no-such-program").is_missing());
    }
}
