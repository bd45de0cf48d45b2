//! JSON lines destination: one JSON object per line, on standard output or in a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use posthaste::admin::Finding;
use posthaste::{Delivery, Destination, Outcome, Profile};
use tokio::sync::Mutex;

use crate::check_error::CheckError;
use crate::error::PublisherError;
use crate::format::Format;
use crate::publisher::Publisher;
use crate::url::PublisherUrl;

const NAME: &str = "lines";

/// The largest batch, in events.
const BATCH_EVENTS: usize = 500;

/// A batch is written in parts of about this size, so that no second copy of all its events is in memory. A part
/// consists of whole lines, because other processes may write to the file between two parts.
const PART_BYTES: usize = 1024 * 1024;

/// Writes each event as one line of JSON: `stdout:`, or `file:///var/log/events.jsonl?fsync=true`.
///
/// An event is delivered when the operating system has its line, or, with `fsync`, when the line is on the disk.
/// Several processes may write to one file. If the file is moved away, the next events create a new one; on Unix it
/// has the mode 0640, because its lines contain payloads. An existing file keeps its mode. If nothing can be
/// written, for example because the disk is full, the destination counts as unreachable.
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
    /// Whether the last line in the output may be incomplete, because writing it failed. Locked while a batch is
    /// written, so that one thread writes at a time and a reader that does not read blocks only that thread.
    cut: Arc<Mutex<bool>>,
}

#[derive(Clone, Debug)]
enum LineOutput {
    Stdout,
    File(PathBuf),
}

impl LinesPublisher {
    /// Writes to standard output. The service must then write nothing else there.
    pub fn stdout() -> Self {
        Self::new(LineOutput::Stdout)
    }

    /// Appends to this file, and creates it if it does not exist.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::new(LineOutput::File(path.into()))
    }

    /// Builds a publisher from `stdout:` or `file:///path`. The parameters are `format` (`envelope` or
    /// `cloudevents-structured`) and, for a file, `fsync` (`true` or `false`).
    ///
    /// # Errors
    ///
    /// A [`PublisherError`] that says how to write the URL.
    pub fn from_url(url: &str) -> Result<Self, PublisherError> {
        let url = url.replacen("stdout:", "stdout://", usize::from(!url.starts_with("stdout://")));
        let mut url = PublisherUrl::parse(NAME, &url)?;
        let mut lines = match url.scheme.as_str() {
            "stdout" if url.path.is_empty() && url.hosts.is_empty() => Self::stdout(),
            "stdout" => return Err(url.wrong("only ?format=… may follow stdout:")),
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

    /// Whether an event is delivered only when its line is on the disk. Has no effect on standard output. Default:
    /// `false`.
    pub fn fsync(mut self, fsync: bool) -> Self {
        self.fsync = fsync;
        self
    }

    /// The format of a line: [`Format::Envelope`] or [`Format::CloudEventsStructured`]. Default:
    /// [`Format::Envelope`].
    ///
    /// # Errors
    ///
    /// A [`PublisherError`] for all other formats, because their messages are not JSON.
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
        // JSON strings contain no raw line breaks, so a line break is between two tokens, where a space means the
        // same.
        text.extend(body.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
        text.push(b'\n');
    }

    /// Writes a batch. `cut` is true on entry if the output ends with an incomplete line, and on return if it does
    /// now.
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

    /// Appends a batch. The file is opened for each batch, because another process may have moved it away.
    fn append(&self, path: &Path, batch: &[Delivery], begins_after_cut: bool) -> io::Result<()> {
        let is_new = !path.exists();
        let mut file = open(path)?;
        self.write_parts(batch, begins_after_cut, &mut file)?;
        if self.fsync {
            file.sync_data()?;
            if is_new && let Some(folder) = path.parent() {
                // The name of a new file is on the disk only once its folder is.
                File::open(folder)?.sync_all()?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Destination for LinesPublisher {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        // Cloning an event is cheap: its payload is shared.
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
    async fn check(&self) -> Result<(), CheckError> {
        let LineOutput::File(path) = self.output.clone() else { return Ok(()) };
        blocking(move || can_append(&path)).await.map_err(|error| {
            CheckError::new(format!("no line can be written: check the path and its permissions: {error}"))
        })
    }

    async fn diagnose(&self) -> Vec<Finding> {
        self.check().await.err().map(Finding::from).into_iter().collect()
    }
}

async fn blocking(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Opens a file for appending. The lines contain payloads, so a new file can be written only by its owner and read
/// only by its owner and group. The umask of the process may restrict it further.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
    options.open(path)
}

/// Checks that the file can be opened for appending. A missing file is not created, but its folder must exist.
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
    // Anything else is not opened: opening a pipe would block until another process reads it.
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
    fn incomplete_line_is_ended_before_the_next_one() {
        let mut cut = false;
        let batch = [event("{}".to_owned())];
        assert!(LinesPublisher::file("/dev/full").write(&batch, &mut cut).is_err());
        assert!(cut, "it is unknown how much was written");
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

    /// Records the size of each write.
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
    fn large_batch_is_written_in_parts() {
        let half = format!("\"{}\"", "x".repeat(PART_BYTES / 2));
        let batch: Vec<Delivery> = (0..10).map(|_| event(half.clone())).collect();
        let mut writes = Writes::default();
        LinesPublisher::stdout().write_parts(&batch, false, &mut writes).expect("written");
        assert_eq!(writes.0.len(), 5, "{writes:?}", writes = writes.0);
        assert!(writes.0.iter().all(|bytes| *bytes < 2 * PART_BYTES), "{:?}", writes.0);
    }
}
