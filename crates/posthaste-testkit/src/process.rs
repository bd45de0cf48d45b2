//! Processes that a test starts, signals and suspends, and the ports they listen on.

use std::ffi::OsStr;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

/// A user without rights, and its group: `nobody`.
const UNPRIVILEGED_UID: &str = "65534";

/// A program that ends when the test does.
pub fn program(path: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.arg("--pdeathsig=KILL").arg("--").arg(path);
    command
}

/// A program that ends by this signal when the test does. If we are root, it runs as `nobody`: some servers refuse
/// to run as root.
pub fn unprivileged(path: impl AsRef<OsStr>, end_signal: &str) -> Command {
    let mut command = Command::new("setpriv");
    if is_root() {
        command
            .arg(format!("--reuid={UNPRIVILEGED_UID}"))
            .arg(format!("--regid={UNPRIVILEGED_UID}"))
            .arg("--clear-groups");
    }
    command.arg(format!("--pdeathsig={end_signal}")).arg("--").arg(path);
    command
}

/// Gives a folder to whoever runs [`unprivileged`] programs.
pub(crate) fn give_to_unprivileged(folder: &Path) {
    if is_root() {
        let owner =
            Command::new("chown").arg(format!("{UNPRIVILEGED_UID}:{UNPRIVILEGED_UID}")).arg(folder).status();
        assert!(owner.expect("chown").success());
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// Sends a signal, by its name without `SIG`, to a process that this test started.
#[track_caller]
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "SIG{name} for {pid}");
}

/// Suspends a process, and returns when all its threads stand still: on a busy machine that takes a moment,
/// and each of them may answer until then.
pub fn suspend(pid: u32) {
    signal(pid, "STOP");
    while !is_suspended(pid) {
        std::thread::yield_now();
    }
}

/// Resumes a process that was suspended.
pub fn resume(pid: u32) {
    signal(pid, "CONT");
}

/// Says yes where the system does not tell the states of threads.
fn is_suspended(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    // A thread that has ended meanwhile has no state.
    let mut stats = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    // The state is behind the name, which may contain anything. Stopped, or ended.
    stats.all(|stat| stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['T', 'Z', 'X'])))
}

/// A free port of the local host. It is below the ports that the system gives to connections, so that none of those
/// has it before the server does; and the port 10,000 above is free, which a node of a Redis cluster takes as well.
pub fn free_port() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let random = || (RandomState::new().build_hasher().finish() % 12_000) as u16;
    let mut ports = std::iter::repeat_with(|| 10_000 + random()).take(1_000);
    ports.find(|port| is_free(*port) && is_free(*port + 10_000)).expect("a free port")
}

/// Whether a server listens at this port of the local host.
pub async fn listens(port: u16) -> bool {
    let connect = TcpStream::connect(("127.0.0.1", port));
    timeout(Duration::from_secs(1), connect).await.is_ok_and(|connected| connected.is_ok())
}
