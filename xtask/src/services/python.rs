//! A Python with what is not ours: clients of RabbitMQ and NATS, and a program that attacks an HTTP API. In an
//! environment of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::server_set::ServerSet;
use super::{Service, cache, env_var, process};

/// The program `python`, with `nats`, `pika` and `schemathesis` to import.
const PYTHON_VAR: &str = "POSTHASTE_TEST_PYTHON";

/// As pip takes them.
const PACKAGES: &[&str] = &["pika==1.3.2", "nats-py==2.11.0", "schemathesis==4.32.5"];

pub(super) const SERVICE: Service = Service { missing_packages, start };

fn missing_packages() -> Vec<&'static str> {
    if env_var(PYTHON_VAR).is_none() && !has_venv() { vec!["python3-venv"] } else { Vec::new() }
}

/// Debian has what makes such an environment in a package of its own.
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
    // It may have been given wrongly, or be a link to one that was removed since.
    let imports = process::run(Command::new(&python).args(["-c", "import nats, pika, schemathesis"]));
    imports.map_err(|error| format!("{error}\n{} does not work: remove it.", python.display()))?;
    set.export(PYTHON_VAR, python.display().to_string());
    Ok(())
}

/// It changes with the versions, so that others are installed when these change.
fn folder_name() -> String {
    format!("python-{}", PACKAGES.join("-").replace("==", "-"))
}

/// Makes an environment in `folder` with what pip is told to install.
pub(super) fn install(folder: &Path, packages: &[&str]) -> Result<(), String> {
    process::run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    process::run(Command::new(folder.join("bin/python")).args(pip).args(packages)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_have_another_folder() {
        assert_eq!(folder_name(), "python-pika-1.3.2-nats-py-2.11.0-schemathesis-4.32.5");
    }
}
