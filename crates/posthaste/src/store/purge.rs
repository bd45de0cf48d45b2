//! Which old rows to remove.

use std::fmt;
use std::time::Duration;

use crate::time::Timestamp;

/// Old rows to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purge {
    /// Which rows.
    pub what: Purgeable,
    /// Rows at least this old.
    pub older_than: Duration,
    /// Whether to keep a copy in the archive.
    pub archive: bool,
    /// At most so many rows.
    pub limit: usize,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

impl Purge {
    /// Deletes up to `limit` rows that are at least that old.
    pub fn new(what: Purgeable, older_than: Duration, limit: usize) -> Self {
        Self { what, older_than, archive: false, limit, now: None }
    }

    /// Whether to keep a copy in the archive. Default: no.
    #[must_use]
    pub fn with_archive(self, archive: bool) -> Self {
        Self { archive, ..self }
    }

    /// At most so many rows.
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Replaces the store's clock. Default: the store's clock.
    #[must_use]
    pub fn at(self, now: impl Into<Option<Timestamp>>) -> Self {
        Self { now: now.into(), ..self }
    }
}

/// What an [`AuditEntry`](crate::admin::AuditEntry) names as its target, such as `DONE older than 7days`.
impl fmt::Display for Purge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            Purgeable::Done => "DONE",
            Purgeable::Dead => "DEAD",
            Purgeable::Any => "all",
            Purgeable::Archived => "ARCHIVED",
        };
        write!(f, "{what} older than {}", humantime::format_duration(self.older_than))
    }
}

/// What a purge may remove. Exhaustive, because a store must do as it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purgeable {
    /// DONE rows, by `done_at` (by insertion time where a foreign program left it empty).
    Done,
    /// DEAD rows, by `done_at` in the same way.
    Dead,
    /// Rows of any status, by insertion time: only for writer-only outboxes.
    Any,
    /// Rows in the archive, by `done_at` in the same way; always deleted. A store that keeps its
    /// archive in days drops whole days, whatever the limit, so a row may stay for a day longer.
    Archived,
}
