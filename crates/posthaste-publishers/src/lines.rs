//! One JSON object per line, to standard output or to a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use posthaste::admin::Finding;
use posthaste::{Delivery, Destination, Outcome, Profile};
use tokio::sync::Mutex;

use crate::error::PublisherError;
use crate::format::Format;
use crate::publisher::Publisher;
use crate::unreached::Unreached;
use crate::url::PublisherUrl;

const NAME: &str = "lines";

/// Events per call.
const BATCH_EVENTS: usize = 500;

/// A batch is written in parts of about this size, so that no second copy of all its events is in memory. A
/// part consists of whole lines: other processes may write to the file between two parts.
const PART_BYTES: usize = 1024 * 1024;

/// Writes each event as one line of JSON: `stdout:`, or `file:///var/log/events.jsonl?fsync=true`.
///
/// An event is delivered when the operating system has its line, with `fsync` when the disk has it. Several
/// processes may write to one file. A file that is moved away is made anew with the next events, on Unix with
/// the mode 0640, as its lines hold payloads; a file that exists keeps its mode. Where nothing can be written,
/// a full disk for example, the destination counts as unreachable.
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
    output: LineOutput,
    fsync: bool,
    format: Format,
    /// Whether the last line is one that could not be written to its end. Held while a batch is written, by
    /// one thread at a time: a reader that does not read stops that one and no other.
    cut: Arc<Mutex<bool>>,
}

#[derive(Clone, Debug)]
enum LineOutput {
    Stdout,
    File(PathBuf),
}

impl LinesPublisher {
    /// To standard output, which a service then leaves to its events.
    pub fn stdout() -> Self {
        Self::new(LineOutput::Stdout)
    }

    /// To the end of this file, which is made if it is not there.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::new(LineOutput::File(path.into()))
    }

    /// From `stdout:` or `file:///path`, both with `?format=envelope` or `?format=cloudevents-structured`,
    /// and a file with `fsync=true`.
    pub fn from_url(url: &str) -> Result<Self, PublisherError> {
        let url = url.replacen("stdout:", "stdout://", usize::from(!url.starts_with("stdout://")));
        let mut url = PublisherUrl::parse(NAME, &url)?;
        let mut lines = match url.scheme.as_str() {
            "stdout" if url.path.is_empty() && url.hosts.is_empty() => Self::stdout(),
            "stdout" => return Err(url.wrong("nothing follows stdout: but ?format=…")),
            "file" if !url.hosts.is_empty() || url.path.is_empty() => {
                return Err(url.wrong("write a file as file:///path, with three slashes"));
            }
            "file" => Self::file(Path::new("/").join(&url.path)),
            _ => return Err(url.wrong("write stdout: or file:///path")),
        };
        if let Some(format) = url.take_as("format", "envelope or cloudevents-structured")? {
            lines = lines.format(format)?;
        }
        if matches!(lines.output, LineOutput::File(_)) {
            lines.fsync = url.take_as("fsync", "true or false")?.unwrap_or(false);
        }
        url.finish()?;
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

    fn new(output: LineOutput) -> Self {
        Self { output, fsync: false, format: Format::Envelope, cut: Arc::default() }
    }

    fn push_line(&self, delivery: &Delivery, text: &mut Vec<u8>) {
        let body = self.format.message(delivery, "").body;
        // In JSON a break is never part of a text: between two tokens a space is as good.
        text.extend(body.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
        text.push(b'\n');
    }

    fn write(&self, batch: &[Delivery], cut: &mut bool) -> io::Result<()> {
        let begins_after_cut = std::mem::replace(cut, true);
        match &self.output {
            LineOutput::Stdout => {
                let mut out = io::stdout().lock();
                self.write_parts(batch, begins_after_cut, &mut out)?;
                out.flush()?;
            }
            LineOutput::File(path) => self.append(path, batch, begins_after_cut)?,
        }
        *cut = false;
        Ok(())
    }

    fn write_parts(
        &self,
        batch: &[Delivery],
        begins_after_cut: bool,
        out: &mut impl io::Write,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        text.extend(begins_after_cut.then_some(b'\n'));
        for delivery in batch {
            self.push_line(delivery, &mut text);
            if text.len() >= PART_BYTES {
                out.write_all(&text)?;
                text.clear();
            }
        }
        out.write_all(&text)
    }

    /// Opened each time, because another process may have moved the file away.
    fn append(&self, path: &Path, batch: &[Delivery], begins_after_cut: bool) -> io::Result<()> {
        let is_new = !path.exists();
        let mut file = open(path)?;
        self.write_parts(batch, begins_after_cut, &mut file)?;
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
        // An event is cheap to clone: its payload is shared.
        let (publisher, events) = (self.clone(), batch.to_vec());
        let mut cut = Arc::clone(&self.cut).lock_owned().await;
        let written = blocking(move || publisher.write(&events, &mut cut)).await;
        let outcome = || match &written {
            Ok(()) => Outcome::done(),
            Err(error) => Outcome::no_connection(format!("no line can be written: {error}")),
        };
        batch.iter().map(|_| outcome()).collect()
    }

    fn profile(&self) -> Profile {
        Profile::publisher(BATCH_EVENTS)
    }
}

#[async_trait]
impl Publisher for LinesPublisher {
    async fn check(&self) -> Result<(), Unreached> {
        let LineOutput::File(path) = self.output.clone() else { return Ok(()) };
        blocking(move || can_append(&path)).await.map_err(|error| {
            Unreached::new(format!("no line can be written: check the path and its rights: {error}"))
        })
    }

    async fn diagnose(&self) -> Vec<Finding> {
        self.check().await.err().map(Finding::from).into_iter().collect()
    }
}

async fn blocking(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Payloads stand in the file: only its owner may write to it, and beside the owner only its group may read it.
/// The umask of the process may take more away.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
    options.open(path)
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
    use posthaste::Event;

    use super::*;

    fn event(payload: String) -> Delivery {
        Delivery::first(Event::builder("Made").json_text(payload).build().expect("a good event"))
    }

    #[test]
    fn line_that_was_cut_is_ended_before_the_next_one() {
        let mut cut = false;
        let batch = [event("{}".to_owned())];
        assert!(LinesPublisher::file("/dev/full").write(&batch, &mut cut).is_err());
        assert!(cut, "nobody knows how much of it was written");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("events.jsonl");
        let lines = LinesPublisher::file(&file);
        for _ in 0..2 {
            lines.write(&batch, &mut cut).expect("written");
            assert!(!cut);
        }
        let text = std::fs::read_to_string(file).expect("a file");
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            matches!(lines[..], ["", first, second] if first == second && first.starts_with('{')),
            "{text}"
        );
    }

    /// Keeps the size of each write.
    #[derive(Default)]
    struct Writes(Vec<usize>);

    impl io::Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert_eq!(bytes.last(), Some(&b'\n'), "a part ends with a line");
            self.0.push(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn large_batch_is_never_in_memory_a_second_time() {
        let half = format!("\"{}\"", "x".repeat(PART_BYTES / 2));
        let batch: Vec<Delivery> = (0..10).map(|_| event(half.clone())).collect();
        let mut writes = Writes::default();
        LinesPublisher::stdout().write_parts(&batch, false, &mut writes).expect("written");
        assert_eq!(writes.0.len(), 5, "{writes:?}", writes = writes.0);
        assert!(writes.0.iter().all(|bytes| *bytes < 2 * PART_BYTES), "{:?}", writes.0);
    }
}
