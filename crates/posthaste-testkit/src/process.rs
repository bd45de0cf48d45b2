//! Processes that a test starts, signals and suspends, and free ports.

use std::ffi::OsStr;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

/// User and group `nobody`, which have no rights.
const UNPRIVILEGED_UID: &str = "65534";

/// A program that is killed when the test ends.
pub fn program(path: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.arg("--pdeathsig=KILL").arg("--").arg(path);
    command
}

/// A program that gets this signal when the test ends. If the tests run as root, it runs as `nobody`, because some
/// servers refuse to run as root.
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

/// Makes the user of [`unprivileged`] programs the owner of a folder.
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

/// Sends a signal, named without `SIG`, to a process that this test started.
#[track_caller]
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "SIG{name} for {pid}");
}

/// Suspends a process. Returns when all its threads are stopped: on a busy machine that takes a moment, and until then
/// a thread may still reply to a client.
pub fn suspend(pid: u32) {
    signal(pid, "STOP");
    while !is_suspended(pid) {
        std::thread::yield_now();
    }
}

/// Resumes a suspended process.
pub fn resume(pid: u32) {
    signal(pid, "CONT");
}

/// Whether all threads are stopped. Returns `true` if the system does not report the states of threads.
fn is_suspended(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    // A thread that has ended in the meantime has no state.
    let mut stats = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    // The state is the field behind the name, which may contain any character. T: stopped; Z, X: ended.
    stats.all(|stat| stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['T', 'Z', 'X'])))
}

/// A free port of the local host. It is below the range from which the system assigns ports to connections, so no
/// connection takes it before the server starts. The port 10,000 above is free too: a node of a Redis cluster needs
/// both.
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
