//! A server of a test's own: a process with a folder and a port, to be killed, held and started again.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, interval, timeout};

/// How long a server may take to do anything. RabbitMQ and Kafka share two cores with everybody else here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// What starts a server in this folder at this port.
type Start = Box<dyn Fn(&Path, u16) -> Command + Send + Sync>;

pub(crate) struct OwnServer {
    port: u16,
    dir: TempDir,
    start: Start,
    process: Option<Child>,
}

impl OwnServer {
    /// A server that this command starts, given its folder and its port. It does not run yet.
    pub(crate) fn new(start: impl Fn(&Path, u16) -> Command + Send + Sync + 'static) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        Self { port: free_port(), dir, start: Box::new(start), process: None }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts it; `answers` says when it is ready.
    pub(crate) async fn start<F: Future<Output = bool>>(&mut self, answers: impl Fn(u16) -> F) {
        if self.process.is_none() {
            let mut command = (self.start)(self.dir.path(), self.port);
            let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            self.process = Some(process.expect("the server runs"));
        }
        until("the server answers", || answers(self.port)).await;
    }

    /// Ends it where it stands: kill -9.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Holds it where it stands: it keeps its connections, and answers nothing.
    pub(crate) fn hold(&self) {
        self.signal("STOP");
        // Each of its threads stops when it gets to it, and may answer until then.
        while !self.is_held() {
            std::thread::yield_now();
        }
    }

    fn is_held(&self) -> bool {
        let tasks = format!("/proc/{}/task", self.pid());
        std::fs::read_dir(tasks).expect("its threads").flatten().all(|task| {
            // A thread that has ended meanwhile has no state.
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
        })
    }

    /// Lets it go on.
    pub(crate) fn let_go(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server runs").id()
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to a process that this test started.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "SIG{name} for {pid}");
}

/// A program with these arguments that ends when we do.
pub(crate) fn program(path: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig=KILL", "--", path]);
    command
}

/// What `cargo xtask test` says in the environment.
pub(crate) fn given(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `cargo xtask test`"))
}

/// Below the ports that the system gives to connections, so that none of those has it before the server does. A node
/// of a cluster of Redis takes the port 10,000 above as well.
pub(crate) fn free_port() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let random = || (RandomState::new().build_hasher().finish() % 12_000) as u16;
    let mut ports = std::iter::repeat_with(|| 10_000 + random()).take(1_000);
    ports.find(|port| is_free(*port) && is_free(*port + 10_000)).expect("a free port")
}

/// Whether somebody listens there.
pub(crate) async fn listens(port: u16) -> bool {
    let connect = tokio::net::TcpStream::connect(("127.0.0.1", port));
    timeout(Duration::from_secs(1), connect).await.is_ok_and(|connected| connected.is_ok())
}

/// The longest that one look may take.
const LOOK: Duration = Duration::from_secs(10);

/// Looks every 20 ms until it is so; fails when it never is. Answers how long it took.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) -> Duration {
    let started = Instant::now();
    let mut ticks = interval(Duration::from_millis(20));
    loop {
        ticks.tick().await;
        // A client that gets no answer from a server which is just starting may wait for ever: it is asked again.
        if timeout(LOOK, is_so()).await.unwrap_or(false) {
            return started.elapsed();
        }
        assert!(started.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
    }
}

/// Looks every 20 ms for this long; fails as soon as it is not so.
pub(crate) async fn throughout(span: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    let mut ticks = interval(Duration::from_millis(20));
    while started.elapsed() < span {
        ticks.tick().await;
        assert!(is_so().await, "not so after {:?}: {what}", started.elapsed());
    }
}
