//! Processes: started without privileges, found again and ended by their process ids.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use super::saved_state::Server;

/// The user `nobody`, as whom the servers of root run. Most servers refuse to run as root.
const UNPRIVILEGED_UID: &str = "65534";

/// The time for a server to start, or to stop before the next signal. It is longer than any server needs; on a busy
/// machine the Java and Erlang servers are slow.
pub(super) const SERVER_TIMEOUT: Duration = Duration::from_secs(60);

const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Whether this process runs as root, so that servers must run as another user.
pub(super) fn is_root() -> bool {
    let uid = Command::new("id").arg("-u").output();
    uid.is_ok_and(|output| output.stdout == b"0\n")
}

/// The program of this name on the PATH, or in the folders of system programs.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Creates a temporary directory that belongs to the user of the servers. Its name starts with `prefix`.
pub(super) fn create_directory(prefix: &str) -> Result<PathBuf, String> {
    let template = std::env::temp_dir().join(format!("{prefix}XXXXXX"));
    let directory = run(Command::new("mktemp").arg("-d").arg(template))?;
    let directory = PathBuf::from(directory.trim_end());
    if is_root() {
        run(Command::new("chown").arg(format!("{UNPRIVILEGED_UID}:{UNPRIVILEGED_UID}")).arg(&directory))?;
    }
    Ok(directory)
}

/// A command that runs `program` as the current user, or as the user `nobody` if that is root.
///
/// On Linux the program gets the signal `signal_at_our_death` when this process ends for any reason.
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

/// Runs a command to its end. Returns standard output; the error contains all output.
pub(super) fn run(command: &mut Command) -> Result<String, String> {
    run_with_input(command, "")
}

/// Runs a command to its end, with `input` as standard input.
pub(super) fn run_with_input(command: &mut Command, input: &str) -> Result<String, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| cannot_start(command, &error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the program ends before it has read all of it, its own error says more.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| format!("{command:?} is lost: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let printed = [output.stdout, output.stderr].concat();
    let program = command.get_program().display();
    Err(format!("{}\n{program} failed: {}", String::from_utf8_lossy(&printed).trim_end(), output.status))
}

/// Starts a process without waiting. Its output goes to the file `log`.
///
/// It gets a process group of its own, so that Ctrl-C on a terminal does not end it.
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

/// Whether the process still runs. Its id may have been reused, so its command line must contain the directory; that of
/// no other process does.
pub(super) fn is_alive(server: &Server, directory: &Path) -> bool {
    command_line(server.pid).contains(&*directory.to_string_lossy())
}

/// The command line of a process. Empty if there is no such process, or if it has ended and is not reaped yet.
pub(super) fn command_line(pid: u32) -> String {
    let line = if Path::new("/proc/self/cmdline").exists() {
        fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
    } else {
        let ps = Command::new("ps").args(["-ww", "-o", "args=", "-p", &pid.to_string()]).output();
        ps.map(|output| output.stdout).unwrap_or_default()
    };
    String::from_utf8_lossy(&line).into_owned()
}

/// Ends a server with its stop signal. If that does not help, with QUIT, then with KILL.
pub(super) fn stop(server: &Server, directory: &Path) -> Result<(), String> {
    for signal in [&server.stop_signal, "QUIT", "KILL"] {
        if !is_alive(server, directory) {
            return Ok(());
        }
        // The shell's `kill`, because not every machine has the program. An error means that the process has ended.
        let pid = server.pid.to_string();
        let _ = run(Command::new("sh").args(["-c", r#"kill -s "$1" "$2""#, "kill", signal, &pid]));
        if wait_until(|| !is_alive(server, directory)) {
            return Ok(());
        }
    }
    Err(format!("{} (process {}) does not end: kill it yourself, then try again", server.name, server.pid))
}

/// Waits until `is_true`. Returns `false` after [`SERVER_TIMEOUT`].
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
    fn process_of_another_owner_is_not_stopped() {
        let mut child = Command::new("sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
        assert_eq!(stop(&server(child.id()), Path::new("/tmp/posthaste-services-none")), Ok(()));
        drop(child.stdin.take());
        // It ended because its input did: after a signal it would have no exit code.
        assert_eq!(child.wait().unwrap().code(), Some(1));
    }

    #[test]
    fn process_with_the_directory_is_stopped() {
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
    fn error_of_a_failed_command_contains_its_output() {
        let error = run(Command::new("cargo").arg("no-such-subcommand")).unwrap_err();
        assert!(error.contains("no such command"), "{error}");
        assert!(error.contains("failed"), "{error}");
    }
}
