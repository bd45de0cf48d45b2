//! The rows of a foreign table as a claim and a settlement know them.

use posthaste::EventId;
use posthaste::store::{Leased, Malformed};

use super::session::{QueryRow, number};

/// What tells a row from all others, those included that were there before it or come after it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowKey {
    pub(crate) id: EventId,
    /// The values of the key's columns, as text.
    pub(crate) parts: Vec<String>,
    /// When the row was written, as text, where the table says so. A key can be used again for another row, after a
    /// TRUNCATE for example, and the outcome of the one is not that of the other.
    pub(crate) written: Option<String>,
}

/// A row that was read to be delivered, or what cannot be read of it.
pub(crate) type ReadRow = Result<Leased, Malformed>;

/// What a claim has read of the rows that it chose.
#[derive(Debug, Default)]
pub(crate) struct RowsRead {
    pub(crate) rows: Vec<(RowKey, ReadRow)>,
    /// The size of them all.
    pub(crate) bytes: usize,
    /// Those that did not fit; the others are gone.
    pub(crate) left: Vec<RowKey>,
}

/// A failed attempt, for a table that counts them.
#[derive(Clone, Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) key: RowKey,
    pub(crate) error: String,
    /// The attempt at which the row is given up.
    pub(crate) max_attempts: u32,
}

/// What the table says of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptCount {
    pub(crate) attempts: u32,
    pub(crate) is_dead: bool,
}

impl AttemptCount {
    /// From the columns `attempts` and `is_dead`.
    pub(super) fn of(row: &QueryRow) -> Result<Self, sqlx::Error> {
        let attempts = u32::try_from(number(row, "attempts")?.max(0)).unwrap_or(u32::MAX);
        Ok(Self { attempts, is_dead: number(row, "is_dead")? != 0 })
    }
}
