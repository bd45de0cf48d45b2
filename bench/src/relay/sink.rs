//! The file that events are delivered to, in a folder of its own that goes with it.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

/// In memory, where there is such a folder: a disk is not what is measured.
const MEMORY_DIRECTORY: &str = "/dev/shm";

/// How long a first event may take before something is wrong.
const FIRST_EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long between two looks at the file.
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

    /// For what a relay says, which is no event.
    pub(super) fn create_log(&self) -> std::io::Result<File> {
        File::create(self.log())
    }

    /// The last that a relay has said.
    pub(super) fn last_log_line(&self) -> String {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().next_back().unwrap_or("nothing was logged").to_owned()
    }

    /// Bytes by now. All lines have the same length.
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

    /// Waits until there are so many.
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
