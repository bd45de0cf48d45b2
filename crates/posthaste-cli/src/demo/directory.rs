//! Directory of the demo's database: temporary, or kept.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;

use super::DATABASE_FILE;

/// The directory of one run. Dropping a temporary one removes it.
#[derive(Debug)]
pub(super) enum DemoDir {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl DemoDir {
    pub(super) fn new(dir: Option<&Path>, keep: bool) -> anyhow::Result<Self> {
        if let Some(dir) = dir {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
            return Ok(Self::Kept(dir.to_owned()));
        }
        let dir = tempfile::Builder::new().prefix("posthaste-demo-").tempdir();
        let dir = dir.context("cannot create a temporary directory: use --dir")?;
        Ok(if keep { Self::Kept(dir.keep()) } else { Self::Temporary(dir) })
    }

    pub(super) fn file(&self) -> PathBuf {
        match self {
            Self::Temporary(dir) => dir.path().join(DATABASE_FILE),
            Self::Kept(dir) => dir.join(DATABASE_FILE),
        }
    }

    /// The path of the database file, if it is kept after the demo.
    pub(super) fn kept(&self) -> Option<PathBuf> {
        matches!(self, Self::Kept(_)).then(|| self.file())
    }
}
