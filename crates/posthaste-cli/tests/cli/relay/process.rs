//! A relay as a process: its log, its listener, its signals, its end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The longest that a test waits for something which should happen immediately.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause between two checks of something that gives no signal when it changes.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A running relay. Dropped, it is killed.
pub(crate) struct Relay {
    child: Child,
    lines: Receiver<String>,
    /// What was read of the log so far.
    log: Vec<String>,
    /// `host:port` of the admin listener.
    address: String,
}

impl Relay {
    /// Starts `posthaste relay` with these options and waits until it listens.
    pub(crate) fn start(options: &[String]) -> Self {
        Self::start_with(options, &[])
    }

    /// The same with these variables.
    pub(crate) fn start_with(options: &[String], variables: &[(&str, &str)]) -> Self {
        Self::spawn_with(options, variables, Stdio::null()).listening()
    }

    /// The same with a standard output that nobody reads.
    pub(crate) fn start_silent(options: &[String]) -> Self {
        Self::spawn_with(options, &[], Stdio::piped()).listening()
    }

    fn listening(mut self) -> Self {
        let line = self.wait_for("listening");
        let (_, address) = line.split_once("address=").expect("the address");
        self.address = address.split_whitespace().next().expect("an address").to_owned();
        self
    }

    /// Starts it and waits for nothing.
    pub(crate) fn spawn(options: &[String]) -> Self {
        Self::spawn_with(options, &[], Stdio::null())
    }

    fn spawn_with(options: &[String], variables: &[(&str, &str)], stdout: Stdio) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command.arg("relay").args(options).env_remove("RUST_LOG").env_remove("POSTHASTE_STORE");
        command.envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let log = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                // The test may have seen enough; the relay must not wait for it.
                let _ = sender.send(line);
            }
        });
        Self { child, lines, log: Vec::new(), address: String::new() }
    }

    /// The first line of the log from here on that has this text in it.
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
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Waits for its end; answers its exit code and its whole log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = self.wait();
        self.log.extend(self.lines.iter());
        (status.code(), self.log.join("\n"))
    }

    /// SIGTERM, and the end in good order.
    pub(crate) fn stop(self) -> String {
        self.signal("TERM");
        let (code, log) = self.end();
        assert_eq!(code, Some(0), "{log}");
        log
    }

    fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + WAIT_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status;
            }
            assert!(Instant::now() < end, "it does not end:\n{}", self.log.join("\n"));
            std::thread::park_timeout(CHECK_INTERVAL);
        }
    }

    /// The most memory that it has had so far, as the system counts it.
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

    /// The answer to a GET.
    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path, "", "")
    }

    /// The answer to a request; headers end with a line break each.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Response {
        request(&self.address, method, path, headers, body)
    }

    /// Asks until the answer is as it should be.
    pub(crate) fn wait_until(&self, path: &str, good: impl Fn(&Response) -> bool) -> Response {
        retry_until_ok(path, || {
            let answer = self.get(path);
            if good(&answer) { Ok(answer) } else { Err(format!("{} {}", answer.status, answer.body)) }
        })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer of the relay at this address to a request; headers end with a line break each.
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
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    Response { status, body: body.to_owned() }
}

/// What the listener answered.
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

/// Tries until it works; the last error is shown when the timeout ends.
pub(crate) fn retry_until_ok<T>(what: &str, attempt: impl FnMut() -> Result<T, String>) -> T {
    retry_until_ok_within(WAIT_TIMEOUT, what, attempt)
}

/// The same with another timeout.
pub(crate) fn retry_until_ok_within<T>(
    patience: Duration,
    what: &str,
    mut attempt: impl FnMut() -> Result<T, String>,
) -> T {
    let end = Instant::now() + patience;
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(why) => assert!(Instant::now() < end, "{what}: {why}"),
        }
        std::thread::park_timeout(CHECK_INTERVAL);
    }
}
