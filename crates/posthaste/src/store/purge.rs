//! Purges: which old rows to remove.

use std::fmt;
use std::time::Duration;

use crate::time::Timestamp;

/// Removes old rows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purge {
    /// Which rows.
    pub what: Purgeable,
    /// The least age of a row.
    pub older_than: Duration,
    /// Whether to keep a copy in the archive.
    pub archive: bool,
    /// The most rows.
    pub limit: usize,
    /// Replaces the store's clock in tests.
    pub now: Option<Timestamp>,
}

impl Purge {
    /// Deletes up to `limit` rows of at least this age.
    pub fn new(what: Purgeable, older_than: Duration, limit: usize) -> Self {
        Self { what, older_than, archive: false, limit, now: None }
    }

    /// Whether to keep a copy in the archive. Default: no.
    #[must_use]
    pub fn with_archive(self, archive: bool) -> Self {
        Self { archive, ..self }
    }

    /// Sets the most rows.
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

/// The target in an [`AuditEntry`](crate::admin::AuditEntry), such as `DONE older than 7days`.
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

/// Rows that a purge may remove. Exhaustive, because a store must implement every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purgeable {
    /// DONE rows, by `done_at`, or by insertion time if another program left `done_at` empty.
    Done,
    /// DEAD rows, by `done_at` in the same way.
    Dead,
    /// Rows of any status, by insertion time. Only for writer-only outboxes.
    Any,
    /// Rows in the archive; always deleted. A store that records the time of archiving (PostgreSQL, MySQL and MariaDB,
    /// but not a foreign table) counts the age from that time, any other store from `done_at` in the same way. A store
    /// that keeps its archive in days drops whole days, whatever the limit, so a row may stay a day longer.
    Archived,
}
