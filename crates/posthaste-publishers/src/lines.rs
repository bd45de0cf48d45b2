//! One JSON object per line, to standard output or to a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use posthaste::admin::Finding;
use posthaste::{Delivery, Destination, Outcome, Profile};
use tokio::sync::Mutex;

use crate::address::Address;
use crate::check::{Publisher, Unreached};
use crate::error::PublisherError;
use crate::format::Format;

const NAME: &str = "lines";

/// Events per call.
const BATCH: usize = 500;

/// Writes each event as one line of JSON: `stdout:`, or `file:///var/log/events.jsonl?fsync=true`.
///
/// An event is delivered when the operating system has its line, with `fsync` when the disk has it. Several
/// processes may write to one file. A file that is moved away is made anew with the next events. Where
/// nothing can be written, a full disk for example, the destination counts as unreachable.
///
/// ```
/// use posthaste_publishers::lines::LinesPublisher;
///
/// let stdout = LinesPublisher::stdout();
/// let file = LinesPublisher::file("/var/log/events.jsonl").fsync(true);
/// # let _ = (stdout, file);
/// ```
#[derive(Clone, Debug)]
pub struct LinesPublisher {
    place: Place,
    fsync: bool,
    format: Format,
    /// Whether the last line is one that could not be written to its end. Held while a batch is written, by
    /// one thread at a time: a reader that does not read stops that one and no other.
    cut: Arc<Mutex<bool>>,
}

#[derive(Clone, Debug)]
enum Place {
    Stdout,
    File(PathBuf),
}

impl LinesPublisher {
    /// To standard output, which a service then leaves to its events.
    pub fn stdout() -> Self {
        Self::new(Place::Stdout)
    }

    /// To the end of this file, which is made if it is not there.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::new(Place::File(path.into()))
    }

    /// From `stdout:` or `file:///path`, both with `?format=envelope` or `?format=cloudevents-structured`,
    /// and a file with `fsync=true`.
    pub fn from_url(url: &str) -> Result<Self, PublisherError> {
        let url = url.replacen("stdout:", "stdout://", usize::from(!url.starts_with("stdout://")));
        let mut address = Address::parse(NAME, &url)?;
        let mut lines = match address.scheme.as_str() {
            "stdout" if address.path.is_empty() && address.hosts.is_empty() => Self::stdout(),
            "stdout" => return Err(address.wrong("nothing follows stdout: but ?format=…")),
            "file" if !address.hosts.is_empty() || address.path.is_empty() => {
                return Err(address.wrong("write a file as file:///path, with three slashes"));
            }
            "file" => Self::file(Path::new("/").join(&address.path)),
            _ => return Err(address.wrong("write stdout: or file:///path")),
        };
        if let Some(format) = address.take_as("format", "envelope or cloudevents-structured")? {
            lines = lines.format(format)?;
        }
        if matches!(lines.place, Place::File(_)) {
            lines.fsync = address.take_as("fsync", "true or false")?.unwrap_or(false);
        }
        address.finish()?;
        Ok(lines)
    }

    /// Whether a line counts only when it is on the disk. Default: no.
    pub fn fsync(mut self, fsync: bool) -> Self {
        self.fsync = fsync;
        self
    }

    /// What a line looks like: [`Format::Envelope`], the default, or [`Format::CloudEventsStructured`]. The
    /// others are no JSON.
    pub fn format(mut self, format: Format) -> Result<Self, PublisherError> {
        if !matches!(format, Format::Envelope | Format::CloudEventsStructured) {
            return Err(PublisherError::new(
                NAME,
                "a line is JSON: the format is envelope or cloudevents-structured",
            ));
        }
        self.format = format;
        Ok(self)
    }

    fn new(place: Place) -> Self {
        Self { place, fsync: false, format: Format::Envelope, cut: Arc::default() }
    }

    fn lines(&self, batch: &[Delivery]) -> Vec<u8> {
        let mut lines = Vec::new();
        for delivery in batch {
            let body = self.format.message(delivery, "").body;
            // In JSON a break is never part of a text: between two tokens a space is as good.
            lines.extend(body.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
            lines.push(b'\n');
        }
        lines
    }

    fn write(&self, lines: &[u8], cut: &mut bool) -> io::Result<()> {
        let mut text = Vec::with_capacity(lines.len() + 1);
        text.extend(cut.then_some(b'\n'));
        text.extend_from_slice(lines);
        *cut = true;
        match &self.place {
            Place::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(&text)?;
                out.flush()?;
            }
            Place::File(path) => self.append(path, &text)?,
        }
        *cut = false;
        Ok(())
    }

    /// Opened each time: somebody may have moved it away.
    fn append(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        let is_new = !path.exists();
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        file.write_all(text)?;
        if self.fsync {
            file.sync_data()?;
            if is_new && let Some(folder) = path.parent() {
                // The name of a new file is in its folder.
                File::open(folder)?.sync_all()?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Destination for LinesPublisher {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let lines = self.lines(batch);
        let publisher = self.clone();
        let mut cut = Arc::clone(&self.cut).lock_owned().await;
        let written = tokio::task::spawn_blocking(move || publisher.write(&lines, &mut cut)).await;
        let error = match written {
            Ok(Ok(())) => return batch.iter().map(|_| Outcome::Done).collect(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        batch.iter().map(|_| Outcome::no_connection(format!("no line can be written: {error}"))).collect()
    }

    fn profile(&self) -> Profile {
        Profile::publisher(BATCH)
    }
}

#[async_trait]
impl Publisher for LinesPublisher {
    async fn check(&self) -> Result<(), Unreached> {
        let Place::File(path) = self.place.clone() else { return Ok(()) };
        let opened = tokio::task::spawn_blocking(move || can_append(&path)).await;
        let error = match opened {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        Err(Unreached::new(format!("no line can be written: check the path and its rights: {error}")))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        self.check().await.err().map(Finding::from).into_iter().collect()
    }
}

/// A file that is not there is not made: its folder has to be there.
fn can_append(path: &Path) -> io::Result<()> {
    let kind = match path.metadata() {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            return folder.map_or(Ok(()), |folder| folder.read_dir().map(drop));
        }
        Err(error) => return Err(error),
    };
    if kind.is_file() || kind.is_dir() {
        OpenOptions::new().append(true).open(path)?;
    }
    // A pipe would keep us until somebody reads it.
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_that_was_cut_is_ended_before_the_next_one() {
        let mut cut = false;
        assert!(LinesPublisher::file("/dev/full").write(b"{}\n", &mut cut).is_err());
        assert!(cut, "nobody knows how much of it was written");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("events.jsonl");
        let lines = LinesPublisher::file(&file);
        for _ in 0..2 {
            lines.write(b"{}\n", &mut cut).expect("written");
            assert!(!cut);
        }
        assert_eq!(std::fs::read_to_string(file).expect("a file"), "\n{}\n{}\n");
    }
}
