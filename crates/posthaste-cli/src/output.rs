//! Prints answers: tables for people, one line of JSON for programs.

#![cfg_attr(not(feature = "full"), allow(dead_code, reason = "the demo needs a part of it"))]

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::Context;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use posthaste::Timestamp;
use serde::Serialize;

use posthaste_admin::terminal_escape;

/// How answers are printed: what `--output` may say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// Tables for people.
    #[default]
    Text,
    /// One JSON document on one line.
    Json,
}

/// An answer that can be printed in both formats. Its `Serialize` is a promise to scripts: names
/// stay, new ones may come.
pub(crate) trait Report: Serialize {
    /// For people. Whatever comes from a store goes through [`columns`] or [`escape`].
    fn text(&self) -> String;
}

impl Output {
    /// Whether a person follows the work, so that a progress bar is of use.
    pub(crate) fn is_watched(self) -> bool {
        self == Self::Text && io::stderr().is_terminal()
    }

    /// Prints the one answer of a command.
    pub(crate) fn print(self, report: &impl Report) -> anyhow::Result<()> {
        self.print_after("", report)
    }

    /// Prints one of several answers: in place of the one before on a terminal, otherwise below it.
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
                terminal_escape::json(&document.context("the answer cannot be written as JSON")?)
            }
        };
        write_stdout(&format!("{before}{}\n", text.trim_end()))
    }
}

impl Output {
    /// Prints one of many lines, of a command that goes on.
    pub(crate) fn print_line(self, line: &str) -> anyhow::Result<()> {
        let safe =
            if self == Self::Json { terminal_escape::json(line) } else { terminal_escape::one_line(line) };
        write_stdout(&format!("{safe}\n"))
    }
}

/// Nobody reads the answer any more, as in `posthaste dead list | head -1`: they have seen enough.
#[derive(Debug)]
pub(crate) struct StdoutClosed;

impl fmt::Display for StdoutClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output was closed")
    }
}

impl std::error::Error for StdoutClosed {}

/// What a terminal takes for "begin at the top of an empty screen".
const HOME_AND_CLEAR: &str = "\x1b[H\x1b[2J";

/// `print!` would panic when nobody reads.
fn write_stdout(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(StdoutClosed.into()),
        written => written.context("the answer cannot be written to standard output"),
    }
}

/// Rows below a header, without lines, so that `grep` and `awk` can read them. On a terminal long
/// cells are wrapped, otherwise each row is one line.
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

/// Names, counts and remarks, the counts below each other by their last digit.
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

/// A value, or a dash.
pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// An instant to the second, for tables.
pub(crate) fn moment(at: Timestamp) -> String {
    let text = at.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// A duration as people say it: whole seconds, at most three units.
pub(crate) fn spoken(duration: Duration) -> String {
    let text = humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// `1 event`, `2 events`.
pub(crate) fn events(count: u64) -> String {
    format!("{count} {}", if count == 1 { "event" } else { "events" })
}

/// The first characters of a text, with a sign that there are more.
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
