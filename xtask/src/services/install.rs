//! Installs the Debian packages that this machine lacks, if the user is root.

use std::process::Command;

use super::process;

const SCRIPT: &str = include_str!("install.sh");

/// Installs the packages. The error tells the user what to install.
pub(super) fn install(packages: &[&str]) -> Result<(), String> {
    if packages.is_empty() {
        return Ok(());
    }
    let permission = Permission { is_root: process::is_root(), has_apt: process::find("apt-get").is_some() };
    permission.check(packages)?;
    eprintln!("Installing {}", packages.join(" "));
    run_script(Command::new("sh").env("ROOT", ""), packages)
}

/// The conditions for installing packages.
#[derive(Clone, Copy, Debug)]
struct Permission {
    is_root: bool,
    has_apt: bool,
}

impl Permission {
    fn check(self, packages: &[&str]) -> Result<(), String> {
        let packages = packages.join(" ");
        match self {
            Self { is_root: true, has_apt: true } => Ok(()),
            Self { has_apt: true, .. } => Err(format!(
                "Not installed here: {packages}. Only their programs are used, so you can stop the services that \
                 the installation starts. Install them:\n    sudo apt-get install --no-install-recommends {packages}"
            )),
            Self { has_apt: false, .. } => Err(format!(
                "Not installed here: {packages} (Debian's names). Install them so that their programs are on the \
                 PATH, or use servers of your own: see docs/testing-posthaste.md."
            )),
        }
    }
}

/// Runs the script in `shell`, a command `sh` with its environment. The output of apt-get is shown only if it fails.
fn run_script(shell: &mut Command, packages: &[&str]) -> Result<(), String> {
    shell.args(["-c", SCRIPT, "install.sh"]).args(packages);
    process::run(shell).map(|_| ()).map_err(|error| {
        let packages = packages.join(" ");
        format!("{error}\nInstall these packages by hand, then try again: {packages}")
    })
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;

    #[test]
    fn only_root_with_apt_installs() {
        let check = |is_root, has_apt| Permission { is_root, has_apt }.check(&["postgresql", "pgbouncer"]);
        assert_eq!(check(true, true), Ok(()));
        assert!(check(false, true).unwrap_err().ends_with("--no-install-recommends postgresql pgbouncer"));
        for is_root in [true, false] {
            let advice = check(is_root, false).unwrap_err();
            assert!(advice.contains("postgresql pgbouncer"), "{advice}");
            assert!(!advice.contains("apt-get"), "{advice}");
        }
    }

    #[test]
    fn nothing_is_installed_if_nothing_is_missing() {
        assert_eq!(install(&[]), Ok(()));
    }

    /// An `apt-get` that records its arguments and the files that exist when it runs.
    const RECORDING_APT_GET: &str = r#"#!/bin/sh
cd "$ROOT"
echo "$DEBIAN_FRONTEND: $*" >> calls
find usr etc -type f | sort >> calls
[ "$1" != "${FAILING-}" ]
"#;

    fn run_with_recording_apt_get(root: &Path, failing: &str) -> (Result<(), String>, String) {
        let apt_get = root.join("apt-get");
        fs::write(&apt_get, RECORDING_APT_GET).unwrap();
        fs::set_permissions(&apt_get, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", root.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.env("ROOT", root).env("PATH", path).env("FAILING", failing);
        let result = run_script(&mut shell, &["postgresql", "pgbouncer"]);
        (result, fs::read_to_string(root.join("calls")).unwrap())
    }

    fn assert_no_trace(root: &Path) {
        assert!(!root.join("usr/sbin/policy-rc.d").exists());
        assert!(!root.join("etc/postgresql-common/createcluster.d").exists());
    }

    #[test]
    fn installation_starts_and_creates_nothing_and_leaves_no_trace() {
        let root = tempfile::tempdir().unwrap();
        let (result, calls) = run_with_recording_apt_get(root.path(), "");
        assert_eq!(result, Ok(()));
        let guards = "etc/postgresql-common/createcluster.d/zz-posthaste.conf\nusr/sbin/policy-rc.d\n";
        let install = "install -y --no-install-recommends --no-upgrade postgresql pgbouncer";
        let expected = format!("noninteractive: update\n{guards}noninteractive: {install}\n{guards}");
        assert_eq!(calls, expected);
        assert_no_trace(root.path());
    }

    #[test]
    fn files_of_the_administrator_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let files = ["usr/sbin/policy-rc.d", "etc/postgresql-common/createcluster.d/site.conf"];
        let files = files.map(|file| root.path().join(file));
        for file in &files {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "theirs").unwrap();
        }
        assert_eq!(run_with_recording_apt_get(root.path(), "").0, Ok(()));
        for file in &files {
            assert_eq!(fs::read_to_string(file).unwrap(), "theirs");
        }
    }

    #[test]
    fn failed_installation_is_an_error_and_leaves_no_trace() {
        let root = tempfile::tempdir().unwrap();
        let (result, _) = run_with_recording_apt_get(root.path(), "install");
        assert!(result.unwrap_err().ends_with("by hand, then try again: postgresql pgbouncer"));
        assert_no_trace(root.path());
    }

    #[test]
    fn failed_update_does_not_prevent_the_installation() {
        let root = tempfile::tempdir().unwrap();
        let (result, calls) = run_with_recording_apt_get(root.path(), "update");
        assert_eq!(result, Ok(()));
        assert!(calls.contains("noninteractive: install "));
    }
}
