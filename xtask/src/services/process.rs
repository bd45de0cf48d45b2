//! Starts processes without privileges, finds them again and ends them, by their own ids only.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use super::saved_state::Server;

/// `nobody`. Servers refuse to run as root, and are right.
const UNPRIVILEGED_UID: &str = "65534";

/// How long a server may take to start, or to stop before it is told again, less kindly.
/// Longer than any needs: on a machine that is busy, those that run on a virtual machine take their time.
pub(super) const SERVER_TIMEOUT: Duration = Duration::from_secs(60);

const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Whether we may do everything, and therefore must not.
pub(super) fn is_root() -> bool {
    let uid = Command::new("id").arg("-u").output();
    uid.is_ok_and(|output| output.stdout == b"0\n")
}

/// The program of this name, on the PATH or where Debian puts what only root is supposed to start.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A new directory, named with `prefix`, that belongs to whom the servers run as.
pub(super) fn create_directory(prefix: &str) -> Result<PathBuf, String> {
    let template = std::env::temp_dir().join(format!("{prefix}XXXXXX"));
    let directory = run(Command::new("mktemp").arg("-d").arg(template))?;
    let directory = PathBuf::from(directory.trim_end());
    if is_root() {
        run(Command::new("chown").arg(format!("{UNPRIVILEGED_UID}:{UNPRIVILEGED_UID}")).arg(&directory))?;
    }
    Ok(directory)
}

/// A command that runs `program` as the caller, or as nobody if the caller is root.
///
/// With `signal_at_our_death` it gets that signal when this process ends, however it ends; only
/// Linux can do that.
pub(super) fn unprivileged(program: &Path, signal_at_our_death: Option<&str>) -> Command {
    let mut options = Vec::new();
    if is_root() {
        let ids = [format!("--reuid={UNPRIVILEGED_UID}"), format!("--regid={UNPRIVILEGED_UID}")];
        options.extend(ids);
        options.push("--clear-groups".to_owned());
    }
    if let Some(signal) = signal_at_our_death
        && cfg!(target_os = "linux")
    {
        options.push(format!("--pdeathsig={signal}"));
    }
    if options.is_empty() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(options).arg("--").arg(program);
    command
}

/// Runs to the end; standard output if it succeeded.
pub(super) fn run(command: &mut Command) -> Result<String, String> {
    run_with_input(command, "")
}

/// The same with a few lines to read.
pub(super) fn run_with_input(command: &mut Command, input: &str) -> Result<String, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| cannot_start(command, &error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read to the end says itself why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| format!("{command:?} is lost: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    let program = command.get_program().display();
    Err(format!("{}\n{program} failed: {}", String::from_utf8_lossy(&said).trim_end(), output.status))
}

/// Starts and does not wait. What it says goes into the file `log`.
///
/// It gets a process group of its own: Ctrl-C on a terminal is not meant for it.
pub(super) fn start(command: &mut Command, log: &Path) -> Result<Child, String> {
    let writing = |error: io::Error| format!("{} cannot be written: {error}", log.display());
    let output = File::create(log).map_err(writing)?;
    let errors = output.try_clone().map_err(writing)?;
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
    child.map_err(|error| cannot_start(command, &error))
}

fn cannot_start(command: &Command, error: &io::Error) -> String {
    format!("{command:?} cannot be started: {error}")
}

/// Whether the process still runs and is the one that was started: its command line names the
/// directory, which no other process's does. Ids are given out again, after a restart at the latest.
pub(super) fn is_alive(server: &Server, directory: &Path) -> bool {
    command_line(server.pid).contains(&*directory.to_string_lossy())
}

/// Empty if there is no such process, or if it ended and nobody asked how.
pub(super) fn command_line(pid: u32) -> String {
    let line = if Path::new("/proc/self/cmdline").exists() {
        fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
    } else {
        let ps = Command::new("ps").args(["-ww", "-o", "args=", "-p", &pid.to_string()]).output();
        ps.map(|output| output.stdout).unwrap_or_default()
    };
    String::from_utf8_lossy(&line).into_owned()
}

/// Asks for an end in good order first, and takes it in the end.
pub(super) fn stop(server: &Server, directory: &Path) -> Result<(), String> {
    for signal in [&server.stop_signal, "QUIT", "KILL"] {
        if !is_alive(server, directory) {
            return Ok(());
        }
        // The shell's own `kill`: not every machine has it as a program. That it fails because the
        // process has just ended is what we want.
        let pid = server.pid.to_string();
        let _ = run(Command::new("sh").args(["-c", r#"kill -s "$1" "$2""#, "kill", signal, &pid]));
        if wait_until(|| !is_alive(server, directory)) {
            return Ok(());
        }
    }
    Err(format!("{} (process {}) does not end: end it yourself, then try again", server.name, server.pid))
}

/// False if it has not come true in the time that a server may take.
pub(super) fn wait_until(mut is_true: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + SERVER_TIMEOUT;
    while !is_true() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(CHECK_INTERVAL);
    }
    true
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    fn server(pid: u32) -> Server {
        Server { name: "Test".to_owned(), pid, port: 1, stop_signal: "TERM".to_owned() }
    }

    #[test]
    fn process_is_known_by_its_command_line() {
        let me = server(std::process::id());
        let program = std::env::current_exe().unwrap();
        assert!(is_alive(&me, program.file_name().unwrap().as_ref()));
        assert!(!is_alive(&me, Path::new("/tmp/posthaste-services-none")));
    }

    #[test]
    fn process_of_somebody_else_is_not_stopped() {
        let mut child = Command::new("sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
        assert_eq!(stop(&server(child.id()), Path::new("/tmp/posthaste-services-none")), Ok(()));
        drop(child.stdin.take());
        // The end of its input ends it: a signal would leave no code.
        assert_eq!(child.wait().unwrap().code(), Some(1));
    }

    #[test]
    fn process_of_ours_is_stopped() {
        let directory = "/tmp/posthaste-services-test-of-stop";
        let script = ["-c", "read line", directory];
        let mut child = Command::new("sh").args(script).stdin(Stdio::piped()).spawn().unwrap();
        assert!(wait_until(|| is_alive(&server(child.id()), Path::new(directory))));
        assert_eq!(stop(&server(child.id()), Path::new(directory)), Ok(()));
        assert_eq!(child.wait().unwrap().code(), None);
    }

    #[test]
    fn programs_are_found_by_name() {
        assert!(find("cargo").is_some());
        assert_eq!(find("no-such-program"), None);
    }

    #[test]
    fn failed_command_says_what_it_said() {
        let error = run(Command::new("cargo").arg("no-such-subcommand")).unwrap_err();
        assert!(error.contains("no such command"), "{error}");
        assert!(error.contains("failed"), "{error}");
    }
}
