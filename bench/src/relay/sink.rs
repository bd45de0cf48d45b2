//! The file to which the relay delivers events, in a temporary folder.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

/// A folder in memory, if there is one, because the disk is not measured.
const MEMORY_DIRECTORY: &str = "/dev/shm";

/// How long to wait for the first event.
const FIRST_EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between two checks of the file.
const FILE_CHECK_INTERVAL: Duration = Duration::from_millis(2);

pub(super) struct FileSink {
    folder: TempDir,
}

impl FileSink {
    pub(super) fn new() -> anyhow::Result<Self> {
        let named = || {
            let mut folder = tempfile::Builder::new();
            folder.prefix("posthaste-bench-");
            folder
        };
        let folder = named().tempdir_in(MEMORY_DIRECTORY).or_else(|_| named().tempdir())?;
        Ok(Self { folder })
    }

    pub(super) fn url(&self) -> String {
        format!("file://{}", self.file().display())
    }

    /// The file for the log of the relay.
    pub(super) fn create_log(&self) -> std::io::Result<File> {
        File::create(self.log())
    }

    /// The last line of the log.
    pub(super) fn last_log_line(&self) -> String {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().next_back().unwrap_or("nothing was logged").to_owned()
    }

    /// Size of the file. All lines have the same length.
    pub(super) fn bytes(&self) -> u64 {
        std::fs::metadata(self.file()).map(|file| file.len()).unwrap_or_default()
    }

    /// Waits for the first event.
    pub(super) async fn has_one(&self) -> anyhow::Result<()> {
        match tokio::time::timeout(FIRST_EVENT_TIMEOUT, self.has_bytes(1)).await {
            Ok(()) => Ok(()),
            Err(_) => anyhow::bail!(
                "nothing was delivered within {FIRST_EVENT_TIMEOUT:?}: {}",
                self.last_log_line()
            ),
        }
    }

    /// Waits until the file has at least this size.
    pub(super) async fn has_bytes(&self, least: u64) {
        while self.bytes() < least {
            tokio::time::sleep(FILE_CHECK_INTERVAL).await;
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("events.jsonl")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("relay.log")
    }
}
