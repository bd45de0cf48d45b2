//! Output of results: tables for people, one line of JSON for programs.

#![cfg_attr(not(feature = "full"), allow(dead_code, reason = "the demo needs a part of it"))]

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::Context;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use posthaste::Timestamp;
use serde::Serialize;

use posthaste_admin::terminal_escape;

/// The format of results, chosen by `--output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// Tables for people.
    #[default]
    Text,
    /// One JSON document on one line.
    Json,
}

/// A result that can be printed in both formats. Its JSON is an interface for scripts: fields may be added but not
/// renamed or removed.
pub(crate) trait Report: Serialize {
    /// The text for people. Everything that comes from a store must go through [`columns`], [`pairs`], [`counts`] or
    /// `terminal_escape`.
    fn text(&self) -> String;
}

impl Output {
    /// Whether a person is watching stderr, so that a progress bar makes sense.
    pub(crate) fn is_watched(self) -> bool {
        self == Self::Text && io::stderr().is_terminal()
    }

    /// Prints the only result of a command.
    pub(crate) fn print(self, report: &impl Report) -> anyhow::Result<()> {
        self.print_after("", report)
    }

    /// Prints one of several results. A text on a terminal replaces the previous one; all other output is appended.
    pub(crate) fn print_again(self, report: &impl Report, first: bool) -> anyhow::Result<()> {
        self.print_after(self.between(io::stdout().is_terminal(), first), report)
    }

    fn between(self, terminal: bool, first: bool) -> &'static str {
        match self {
            Self::Text if terminal => HOME_AND_CLEAR,
            Self::Text if !first => "\n",
            Self::Text | Self::Json => "",
        }
    }

    fn print_after(self, before: &str, report: &impl Report) -> anyhow::Result<()> {
        let text = match self {
            Self::Text => terminal_escape::lines(&report.text()),
            Self::Json => {
                let document = serde_json::to_string(report);
                terminal_escape::json(&document.context("the result cannot be written as JSON")?)
            }
        };
        write_stdout(&format!("{before}{}\n", text.trim_end()))
    }
}

impl Output {
    /// Prints one line of a command that prints many.
    pub(crate) fn print_line(self, line: &str) -> anyhow::Result<()> {
        let safe =
            if self == Self::Json { terminal_escape::json(line) } else { terminal_escape::one_line(line) };
        write_stdout(&format!("{safe}\n"))
    }
}

/// Stdout was closed, as in `posthaste dead list | head -1`. This is not an error.
#[derive(Debug)]
pub(crate) struct StdoutClosed;

impl fmt::Display for StdoutClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output was closed")
    }
}

impl std::error::Error for StdoutClosed {}

/// The terminal sequence for "cursor to the top left, clear the screen".
const HOME_AND_CLEAR: &str = "\x1b[H\x1b[2J";

/// Does not use `print!`, which panics if stdout is closed.
fn write_stdout(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(StdoutClosed.into()),
        written => written.context("the result cannot be written to standard output"),
    }
}

/// Rows below a header, without lines, so that `grep` and `awk` can read them. On a terminal long cells are wrapped;
/// otherwise each row is one line.
pub(crate) fn columns<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = table(rows);
    table.set_header(header);
    shown(table)
}

/// Names and values, one pair per line.
pub(crate) fn pairs<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> String {
    shown(table(rows.into_iter().map(|(name, value)| [name.to_owned(), value])))
}

/// Names, counts and remarks; the counts are right-aligned.
pub(crate) fn counts<'a>(rows: impl IntoIterator<Item = (&'a str, String, String)>) -> String {
    let rows = rows.into_iter().map(|(name, count, remark)| [name.to_owned(), count, remark]);
    let mut table = table(rows);
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    shown(table)
}

fn table<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    for row in rows {
        table.add_row(row.map(|cell| terminal_escape::one_line(&cell)));
    }
    table
}

fn shown(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// The value, or `-`.
pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A timestamp with whole seconds.
pub(crate) fn moment(at: Timestamp) -> String {
    let text = at.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// A duration in whole seconds, with at most three units.
pub(crate) fn spoken(duration: Duration) -> String {
    let text = humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// `1 event`, `2 events`.
pub(crate) fn events(count: u64) -> String {
    format!("{count} {}", if count == 1 { "event" } else { "events" })
}

/// The first characters of a text, with `…` if there are more.
pub(crate) fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cell_cannot_pretend_to_be_two_rows() {
        let text = columns(["id", "error"], [["a".to_owned(), "one\ntwo \x1b[2J".to_owned()]]);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains(r"one\ntwo \u{1b}[2J"), "{text}");
    }

    #[test]
    fn only_text_on_a_terminal_is_redrawn() {
        let between = |output: Output, terminal| [true, false].map(|first| output.between(terminal, first));
        assert_eq!(between(Output::Text, true), [HOME_AND_CLEAR; 2]);
        assert_eq!(between(Output::Text, false), ["", "\n"]);
        assert_eq!(between(Output::Json, true), [""; 2]);
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(spoken(Duration::from_millis(90_500)), "1m 30s");
        assert_eq!(spoken(Duration::from_millis(5)), "0s");
        assert_eq!(spoken(Duration::from_secs(90_061 * 3)), "3days 3h 3m");
    }

    #[test]
    fn instants_are_shown_to_the_second() {
        assert_eq!(moment(Timestamp::from_micros(1_500_000)), "1970-01-01T00:00:01Z");
        assert_eq!(moment(Timestamp::from_micros(-1)), Timestamp::from_micros(-1).to_string());
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöü", 2), "äö…");
    }
}
