//! A relay as a child process: its log, its listener, its signals and its exit.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::binary::{posthaste, signal};

/// The longest time that a test waits for something that should happen immediately.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between two checks of something that cannot notify.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A running relay. Dropping it kills it.
pub(crate) struct Relay {
    child: Child,
    lines: Receiver<String>,
    /// The log lines received so far.
    log: Vec<String>,
    /// `host:port` of the admin listener.
    address: String,
}

impl Relay {
    /// Starts `posthaste relay` with these options and waits until it listens.
    pub(crate) fn start(options: &[String]) -> Self {
        Self::start_with(options, &[])
    }

    /// The same with these environment variables.
    pub(crate) fn start_with(options: &[String], variables: &[(&str, &str)]) -> Self {
        Self::spawn_with(options, variables, Stdio::null()).listening()
    }

    /// The same with a standard output that is never read.
    pub(crate) fn start_silent(options: &[String]) -> Self {
        Self::spawn_with(options, &[], Stdio::piped()).listening()
    }

    fn listening(mut self) -> Self {
        let line = self.wait_for("listening");
        let (_, address) = line.split_once("address=").expect("the address");
        self.address = address.split_whitespace().next().expect("an address").to_owned();
        self
    }

    /// Starts the relay without waiting for anything.
    pub(crate) fn spawn(options: &[String]) -> Self {
        Self::spawn_with(options, &[], Stdio::null())
    }

    fn spawn_with(options: &[String], variables: &[(&str, &str)], stdout: Stdio) -> Self {
        let mut command = posthaste(&["relay"]);
        command.args(options).env_remove("RUST_LOG").env_remove("POSTHASTE_STORE");
        command.envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let log = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                // The test may have seen enough; the relay must not block on its log.
                let _ = sender.send(line);
            }
        });
        Self { child, lines, log: Vec::new(), address: String::new() }
    }

    /// The next line of the log that contains this text.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let end = Instant::now() + WAIT_TIMEOUT;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.log.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("no line with {text:?} in:\n{}", self.log.join("\n"))
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("it ended without a line with {text:?}:\n{}", self.log.join("\n"))
                }
            }
        }
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits for the exit. Returns the exit code and the whole log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = self.wait();
        self.log.extend(self.lines.iter());
        (status.code(), self.log.join("\n"))
    }

    /// Sends SIGTERM and expects a graceful exit. Returns the log.
    pub(crate) fn stop(self) -> String {
        self.signal("TERM");
        let (code, log) = self.end();
        assert_eq!(code, Some(0), "{log}");
        log
    }

    fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + WAIT_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is a child of this process") {
                return status;
            }
            assert!(Instant::now() < end, "it does not end:\n{}", self.log.join("\n"));
            std::thread::park_timeout(CHECK_INTERVAL);
        }
    }

    /// Peak resident memory.
    #[cfg(target_os = "linux")]
    pub(crate) fn peak_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        let kib = peak.trim().trim_end_matches(" kB").parse::<usize>().expect("a number");
        kib * 1024
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a GET request.
    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path, "", "")
    }

    /// Sends a request; each header ends with a line break.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Response {
        request(&self.address, method, path, headers, body)
    }

    /// Sends GET requests until the response satisfies `good`.
    pub(crate) fn wait_until(&self, path: &str, good: impl Fn(&Response) -> bool) -> Response {
        retry_until_ok(path, || {
            let response = self.get(path);
            if good(&response) { Ok(response) } else { Err(format!("{} {}", response.status, response.body)) }
        })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request to the relay at this address; each header ends with a line break.
pub(crate) fn request(address: &str, method: &str, path: &str, headers: &str, body: &str) -> Response {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(WAIT_TIMEOUT)).expect("a timeout");
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\
         Content-Type: application/json\r\n{headers}\r\n{body}"
    )
    .expect("a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a response");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    Response { status, body: body.to_owned() }
}

/// A response of the listener.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }
}

/// Calls `attempt` until it succeeds. After the timeout the test fails with the last error.
pub(crate) fn retry_until_ok<T>(what: &str, attempt: impl FnMut() -> Result<T, String>) -> T {
    retry_until_ok_within(WAIT_TIMEOUT, what, attempt)
}

/// The same with another timeout.
pub(crate) fn retry_until_ok_within<T>(
    timeout: Duration,
    what: &str,
    mut attempt: impl FnMut() -> Result<T, String>,
) -> T {
    let end = Instant::now() + timeout;
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(why) => assert!(Instant::now() < end, "{what}: {why}"),
        }
        std::thread::park_timeout(CHECK_INTERVAL);
    }
}
