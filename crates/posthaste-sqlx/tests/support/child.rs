//! Child process: this program again. It reports line by line what it does, and executes the commands that it reads
//! from its standard input, until the input ends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child as Process, ChildStdin, Command, Stdio};

use posthaste_testkit::process::{resume, suspend};
use posthaste_testkit::within_timeout;
use tokio::sync::mpsc;

/// The prefix of every report. The test harness prints lines of its own in between.
const LINE_PREFIX: &str = "@@ ";

/// A child process, killed when dropped.
pub struct Child {
    process: Process,
    stdin: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<String>,
    output: ChildOutput,
}

/// Everything that a child process has reported so far, by the first word of each line.
#[derive(Clone, Debug, Default)]
pub struct ChildOutput(BTreeMap<String, Vec<String>>);

impl ChildOutput {
    pub fn all(&self, word: &str) -> &[String] {
        self.0.get(word).map_or(&[], Vec::as_slice)
    }

    /// The ids of the child's deliveries, in order, with repeats.
    pub fn delivered(&self) -> &[String] {
        self.all("DELIVERED")
    }

    /// A counter that the child reported at its end.
    pub fn counter(&self, name: &str) -> u64 {
        let line = self.all("COUNTER").iter().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no counter {name}")).trim().parse().expect("a number")
    }
}

impl Child {
    /// Starts the child with this command. Returns when the child has reported that it is ready.
    pub async fn spawn(mut command: Command) -> Self {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.unwrap_or_else(|error| {
            panic!("{command:?}: {error}; `cargo xtask test` installs what is missing")
        });
        let stdout = BufReader::new(process.stdout.take().expect("a pipe"));
        let said = lines_of(stdout, |line| Some(line.split_once(LINE_PREFIX)?.1.to_owned()));
        let stdin = process.stdin.take();
        let mut child = Self { process, stdin, lines: said, output: ChildOutput::default() };
        child.wait_for_report("READY", 1).await;
        child
    }

    /// True if the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().expect("a child of ours").is_some()
    }

    pub fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("not stopped yet");
        writeln!(stdin, "{line}").expect("it listens");
    }

    /// Waits until the child has reported this word this many times. Returns what followed the word.
    pub async fn wait_for_report(&mut self, word: &str, times: usize) -> &[String] {
        while self.output.all(word).len() < times {
            let line = within_timeout(word, self.lines.recv()).await;
            self.note(&line.unwrap_or_else(|| panic!("it ended before it said {word} {times} times")));
        }
        self.output.all(word)
    }

    fn note(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        self.output.0.entry(word.to_owned()).or_default().push(rest.to_owned());
    }

    /// Suspends the process. Returns when all of its threads have stopped.
    pub fn suspend(&self) {
        suspend(self.process.id());
    }

    /// Resumes the process.
    pub fn resume(&self) {
        resume(self.process.id());
    }

    /// Kills the process. Returns what it had reported.
    pub async fn kill(mut self) -> ChildOutput {
        self.process.kill().expect("it runs");
        self.rest().await
    }

    /// Lets the process shut down. Returns what it has reported.
    pub async fn stop(mut self) -> ChildOutput {
        drop(self.stdin.take());
        let output = self.rest().await;
        assert_eq!(output.all("END").len(), 1, "it ended badly");
        output
    }

    async fn rest(&mut self) -> ChildOutput {
        while let Some(line) = within_timeout("it ends", self.lines.recv()).await {
            self.note(&line);
        }
        let wrong = self.output.all("WRONG");
        assert!(wrong.is_empty(), "another payload than the one that was written: {wrong:?}");
        std::mem::take(&mut self.output)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How often each event was delivered.
pub fn counts<'a>(ids: impl IntoIterator<Item = &'a String>) -> BTreeMap<&'a str, usize> {
    ids.into_iter().fold(BTreeMap::new(), |mut counts, id| {
        *counts.entry(id.as_str()).or_default() += 1;
        counts
    })
}

/// Reports to the parent. Writes one line in one call, so that a killed process has reported all of it or nothing.
pub fn report(word: &str, rest: &str) {
    println!("\n{LINE_PREFIX}{word}{}{rest}", if rest.is_empty() { "" } else { " " });
}

/// The commands of the parent, line by line, until it closes the pipe.
pub fn read_commands() -> mpsc::UnboundedReceiver<String> {
    lines_of(BufReader::new(std::io::stdin()), Some)
}

/// Reads lines from a pipe, in a thread.
fn lines_of(
    input: impl BufRead + Send + 'static,
    read: impl Fn(String) -> Option<String> + Send + 'static,
) -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in input.lines().map_while(Result::ok).filter_map(read) {
            let _ = sender.send(line);
        }
    });
    lines
}
