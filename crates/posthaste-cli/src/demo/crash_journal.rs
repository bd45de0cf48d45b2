//! Append-only files of ids, for a checker that compares them after this process was killed.
//!
//! One `write` per line and no buffer: what was written before the kill is in the file.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use posthaste::EventId;

const ATTEMPTED_FILE: &str = "attempted.log";
const COMMITTED_FILE: &str = "committed.log";
const DELIVERED_FILE: &str = "delivered.log";

/// Writes the files, if anybody asked for them.
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
    /// With `echo` whoever reads our output learns of each line.
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

    /// Before COMMIT is sent.
    pub(super) fn attempted(&self, id: &EventId) -> io::Result<()> {
        self.append(|files| &files.attempted, id)
    }

    /// After COMMIT was answered.
    pub(super) fn committed(&self, id: &EventId) -> io::Result<()> {
        self.append(|files| &files.committed, id)
    }

    /// By the destination that takes the event.
    pub(super) fn delivered(&self, id: &EventId) -> io::Result<()> {
        self.append(|files| &files.delivered, id)
    }

    fn append(&self, file: impl Fn(&Files) -> &File, id: &EventId) -> io::Result<()> {
        let Some(files) = &self.0 else { return Ok(()) };
        file(files).write_all(format!("{id}\n").as_bytes())?;
        if files.echo {
            // Nobody may be reading any more.
            let _ = writeln!(io::stdout(), "{id}");
        }
        Ok(())
    }
}

/// What the files of all runs say: each id, and how often it stands there.
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

/// A last line without its end was cut by the kill: it never happened.
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
    fn files_keep_what_several_runs_appended() -> io::Result<()> {
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
    fn line_that_was_cut_does_not_count() {
        let lines = count_lines("one\ntwo\nthr");
        assert_eq!((lines.len(), lines.contains_key("thr")), (2, false));
        assert!(count_lines("").is_empty());
    }
}
