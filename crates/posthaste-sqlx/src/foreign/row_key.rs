//! Keys of rows in a foreign table, and the results of reading and counting.

use posthaste::EventId;
use posthaste::store::{Leased, Malformed};

use super::session::{QueryRow, number};

/// Identifies a row, and tells it apart from earlier and later rows with the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowKey {
    pub(crate) id: EventId,
    /// The values of the key columns, as text.
    pub(crate) parts: Vec<String>,
    /// The time at which the row was written, as text, if the table has one. A key can be used again for another row,
    /// after a TRUNCATE for example, and the outcome of one row must not be written into the other.
    pub(crate) written: Option<String>,
}

/// A row that was read for delivery, or the reason why it cannot be read.
pub(crate) type ReadRow = Result<Leased, Malformed>;

/// The rows that a claim has read, of those that it chose.
#[derive(Debug, Default)]
pub(crate) struct RowsRead {
    pub(crate) rows: Vec<(RowKey, ReadRow)>,
    /// The size of all rows that were read, in bytes.
    pub(crate) bytes: usize,
    /// Rows that did not fit. Chosen rows in neither list no longer exist.
    pub(crate) left: Vec<RowKey>,
}

/// A failed attempt, for a table that counts attempts.
#[derive(Clone, Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) key: RowKey,
    pub(crate) error: String,
    /// The number of attempts after which the row is given up.
    pub(crate) max_attempts: u32,
}

/// What the table says after a failed attempt was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptCount {
    pub(crate) attempts: u32,
    pub(crate) is_dead: bool,
}

impl AttemptCount {
    /// Reads the columns `attempts` and `is_dead`.
    pub(super) fn of(row: &QueryRow) -> Result<Self, sqlx::Error> {
        let attempts = u32::try_from(number(row, "attempts")?.max(0)).unwrap_or(u32::MAX);
        Ok(Self { attempts, is_dead: number(row, "is_dead")? != 0 })
    }
}
