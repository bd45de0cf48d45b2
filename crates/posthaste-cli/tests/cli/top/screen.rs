//! A pseudo-terminal with `posthaste top`: keys go in, and the screen is what a person would see.

use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use pty_process::Size;
use pty_process::blocking::Pty;
use vt100::Parser;

use crate::binary::signal;
use crate::relay::process::retry_until_ok;

/// A running `posthaste top`. Dropping it kills it.
pub(crate) struct Screen {
    pty: Arc<Pty>,
    child: Child,
    output: Arc<Mutex<TerminalOutput>>,
    reader: Option<JoinHandle<()>>,
    /// Path of the terminal device.
    path: PathBuf,
}

/// Output of the program.
struct TerminalOutput {
    parser: Parser,
    bytes: Vec<u8>,
    /// The screen after the last complete frame.
    frame: String,
}

impl TerminalOutput {
    fn process(&mut self, part: &[u8]) {
        self.parser.process(part);
        self.bytes.extend_from_slice(part);
        if !self.is_within_frame() {
            self.frame = text_of(&self.parser);
        }
    }

    /// A terminal shows a frame only when it is complete.
    fn is_within_frame(&self) -> bool {
        let last = |sequence: &[u8]| self.bytes.windows(sequence.len()).rposition(|bytes| bytes == sequence);
        last(b"\x1b[?2026h") > last(b"\x1b[?2026l")
    }
}

/// State after the program has ended.
pub(crate) struct EndedScreen {
    pub(crate) code: Option<i32>,
    /// Contents of the terminal.
    pub(crate) text: String,
    /// Whether the terminal is restored: main screen, visible cursor, line mode and echo.
    pub(crate) is_restored: bool,
    /// All bytes that the program has written.
    pub(crate) bytes: Vec<u8>,
}

impl Screen {
    /// Runs a command on a terminal of this size.
    pub(crate) fn of(command: Command, width: u16, height: u16) -> Self {
        let (pty, end) = pty_process::blocking::open().expect("a terminal");
        pty.resize(Size::new(height, width)).expect("a size");
        let path = std::fs::read_link(format!("/proc/self/fd/{}", end.as_raw_fd())).expect("its terminal");
        let child = pty_process::blocking::Command::from(command).env("TERM", "xterm-256color").spawn(end);
        let child = child.expect("the binary starts");
        let lines = |n| NonZeroU16::new(n).expect("a size");
        let parser = Parser::new(lines(height), lines(width), 0);
        let output = Arc::new(Mutex::new(TerminalOutput { parser, bytes: Vec::new(), frame: String::new() }));
        let pty = Arc::new(pty);
        let reader = Some(read(pty.clone(), output.clone()));
        Self { pty, child, output, reader, path }
    }

    pub(crate) fn text(&self) -> String {
        self.output.lock().expect("no panic").frame.clone()
    }

    /// Waits until the screen satisfies `good`, and returns it.
    pub(crate) fn wait_until(&self, what: &str, mut good: impl FnMut(&str) -> bool) -> String {
        retry_until_ok(what, || {
            let text = self.text();
            if good(&text) { Ok(text) } else { Err(format!("the screen is\n{text}")) }
        })
    }

    /// Waits until the screen contains this text.
    pub(crate) fn wait_for(&self, wanted: &str) -> String {
        self.wait_until(wanted, |text| text.contains(wanted))
    }

    pub(crate) fn press(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).expect("it reads keys");
    }

    pub(crate) fn resize(&self, width: u16, height: u16) {
        let lines = |n| NonZeroU16::new(n).expect("a size");
        self.output.lock().expect("no panic").parser.set_size(lines(height), lines(width));
        self.pty.resize(Size::new(height, width)).expect("a size");
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits for the exit.
    pub(crate) fn end(mut self) -> EndedScreen {
        let status = retry_until_ok("the end", || {
            self.child
                .try_wait()
                .expect("it is a child of this process")
                .ok_or_else(|| format!("it shows\n{}", self.text()))
        });
        let is_usual = self.has_usual_mode();
        if let Some(reader) = self.reader.take() {
            reader.join().expect("a reader");
        }
        let output = self.output.lock().expect("no panic");
        let screen = output.parser.screen();
        let is_restored = is_usual && !screen.alternate_screen() && !screen.hide_cursor();
        EndedScreen {
            code: status.code(),
            text: text_of(&output.parser),
            is_restored,
            bytes: output.bytes.clone(),
        }
    }

    /// Whether the terminal is in line mode with echo.
    fn has_usual_mode(&self) -> bool {
        let output = Command::new("stty").arg("-F").arg(&self.path).arg("-a").output().expect("stty runs");
        let output = String::from_utf8(output.stdout).expect("text");
        let has = |word| output.split_whitespace().any(|other| other.trim_end_matches(';') == word);
        has("icanon") && has("echo") && has("isig")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads until the program has ended, which makes the read fail.
fn read(pty: Arc<Pty>, output: Arc<Mutex<TerminalOutput>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(read @ 1..) = (&*pty).read(&mut part) {
            output.lock().expect("no panic").process(&part[..read]);
        }
    })
}

fn text_of(parser: &Parser) -> String {
    let (_, width) = parser.screen().size();
    let lines = parser.screen().rows(0, width.get()).map(|line| line.trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}
