//! A virtual environment of Python with clients of RabbitMQ and NATS that share no code with Posthaste, and with
//! schemathesis, which tests an HTTP API against its schema.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::server_set::ServerSet;
use super::{Service, cache, env_var, process};

/// The path of a Python that can import `nats`, `pika` and `schemathesis`.
const PYTHON_VAR: &str = "POSTHASTE_TEST_PYTHON";

/// The packages, as arguments of pip.
const PACKAGES: &[&str] = &["pika==1.3.2", "nats-py==2.11.0", "schemathesis==4.32.5"];

pub(super) const SERVICE: Service = Service { missing_packages, start };

fn missing_packages() -> Vec<&'static str> {
    if env_var(PYTHON_VAR).is_none() && !has_venv() { vec!["python3-venv"] } else { Vec::new() }
}

/// Whether Python can create a virtual environment. Debian has the modules in a package of their own.
fn has_venv() -> bool {
    let imports = Command::new("python3").args(["-c", "import ensurepip, venv"]).output();
    imports.is_ok_and(|output| output.status.success())
}

fn start(set: &mut ServerSet) -> Result<(), String> {
    let python = match env_var(PYTHON_VAR) {
        Some(python) => PathBuf::from(python),
        None => {
            let folder = cache::obtain(&folder_name(), |folder| {
                eprintln!("Downloading {} for Python", PACKAGES.join(" and "));
                install(folder, PACKAGES)
            })?;
            folder.join("bin/python")
        }
    };
    // The variable may be wrong, or the environment may link to a Python that was removed.
    let imports = process::run(Command::new(&python).args(["-c", "import nats, pika, schemathesis"]));
    imports.map_err(|error| {
        format!(
            "{error}\n{} does not work: remove its folder, or set {PYTHON_VAR} to another Python.",
            python.display()
        )
    })?;
    set.export(PYTHON_VAR, python.display().to_string());
    Ok(())
}

/// The name of the folder in the cache. It contains the versions, so that new ones are installed.
fn folder_name() -> String {
    format!("python-{}", PACKAGES.join("-").replace("==", "-"))
}

/// Creates a virtual environment in `folder` and installs `packages`, which are arguments of pip.
pub(super) fn install(folder: &Path, packages: &[&str]) -> Result<(), String> {
    process::run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    process::run(Command::new(folder.join("bin/python")).args(pip).args(packages)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_versions_get_another_folder() {
        assert_eq!(folder_name(), "python-pika-1.3.2-nats-py-2.11.0-schemathesis-4.32.5");
    }
}
