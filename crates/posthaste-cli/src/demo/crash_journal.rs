//! Crash journal: append-only files of event ids. A test kills this process and compares the files with the database.
//!
//! Each line is one unbuffered `write`, so a line that was written before the kill is in the file.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use posthaste::EventId;

const ATTEMPTED_FILE: &str = "attempted.log";
const COMMITTED_FILE: &str = "committed.log";
const DELIVERED_FILE: &str = "delivered.log";

/// The journal; `None` if it was not requested.
#[derive(Debug)]
pub(super) struct Journal(Option<Files>);

#[derive(Debug)]
struct Files {
    attempted: File,
    committed: File,
    delivered: File,
    echo: bool,
}

impl Journal {
    /// Opens the files in `folder`. With `echo`, each id is also printed to stdout.
    pub(super) fn open(folder: Option<&Path>, echo: bool) -> io::Result<Self> {
        let Some(folder) = folder else { return Ok(Self(None)) };
        std::fs::create_dir_all(folder)?;
        let open = |name| OpenOptions::new().create(true).append(true).open(folder.join(name));
        Ok(Self(Some(Files {
            attempted: open(ATTEMPTED_FILE)?,
            committed: open(COMMITTED_FILE)?,
            delivered: open(DELIVERED_FILE)?,
            echo,
        })))
    }

    /// Recorded before COMMIT is sent.
    pub(super) fn attempted(&self, id: &EventId) -> io::Result<()> {
        self.append(|files| &files.attempted, id)
    }

    /// Recorded after COMMIT succeeded.
    pub(super) fn committed(&self, id: &EventId) -> io::Result<()> {
        self.append(|files| &files.committed, id)
    }

    /// Recorded by the destination that accepts the event.
    pub(super) fn delivered(&self, id: &EventId) -> io::Result<()> {
        self.append(|files| &files.delivered, id)
    }

    fn append(&self, file: impl Fn(&Files) -> &File, id: &EventId) -> io::Result<()> {
        let Some(files) = &self.0 else { return Ok(()) };
        file(files).write_all(format!("{id}\n").as_bytes())?;
        if files.echo {
            // Stdout may be closed.
            let _ = writeln!(io::stdout(), "{id}");
        }
        Ok(())
    }
}

/// Contents of the files of all runs: each id, and how often it occurs.
#[derive(Debug, Default)]
pub(super) struct JournalRecord {
    pub(super) attempted: HashMap<String, u64>,
    pub(super) committed: HashMap<String, u64>,
    pub(super) delivered: HashMap<String, u64>,
}

impl JournalRecord {
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let read = |name| std::fs::read_to_string(folder.join(name)).map(|text| count_lines(&text));
        Ok(Self {
            attempted: read(ATTEMPTED_FILE)?,
            committed: read(COMMITTED_FILE)?,
            delivered: read(DELIVERED_FILE)?,
        })
    }
}

/// Counts the lines. A last line without a line break was cut off by the kill and does not count.
fn count_lines(text: &str) -> HashMap<String, u64> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = HashMap::new();
    for line in whole.lines() {
        *lines.entry(line.to_owned()).or_default() += 1;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_the_lines_of_several_runs() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        for _ in 0..2 {
            let journal = Journal::open(Some(folder.path()), false)?;
            journal.attempted(&"a".into())?;
            journal.delivered(&"a".into())?;
        }
        let record = JournalRecord::read(folder.path())?;
        assert_eq!((record.attempted["a"], record.delivered["a"], record.committed.len()), (2, 2, 0));
        Ok(())
    }

    #[test]
    fn incomplete_last_line_does_not_count() {
        let lines = count_lines("one\ntwo\nthr");
        assert_eq!((lines.len(), lines.contains_key("thr")), (2, false));
        assert!(count_lines("").is_empty());
    }
}
