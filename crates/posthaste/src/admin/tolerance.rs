//! The tolerance of a diagnosis: what counts as normal.

use std::time::Duration;

/// The limits within which [`Admin::diagnose`](super::Admin::diagnose) reports nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tolerance {
    /// How long the oldest pending event may wait. Default: 5 minutes.
    pub late: Duration,
    /// How long any transaction may stay open on the database. While one is open, rows that were settled since cannot
    /// be cleaned up, and every claim reads over them. Default: 5 minutes.
    pub transaction: Duration,
    /// How long a route may be paused before it counts as forgotten. Default: 1 hour.
    pub paused: Duration,
    /// How far two clocks may differ. Default: 5 s.
    pub skew: Duration,
    /// The used share of a server's limit, such as its connections, in percent. Default: 80.
    pub used: u8,
    /// The number of dead rows that the database has not cleaned up from which they are reported, if they are also more
    /// than the live rows. MySQL and MariaDB report transactions of all tables, so the limit is ten times as high
    /// there. Default: 10,000.
    pub dead_rows: u64,
    /// How large the write-ahead log of a SQLite file may be, in bytes. Default: 64 MiB.
    pub wal_bytes: u64,
}

impl Tolerance {
    /// Sets how long the oldest pending event may wait.
    #[must_use]
    pub fn with_late(self, late: Duration) -> Self {
        Self { late, ..self }
    }

    /// Sets how long a transaction may stay open.
    #[must_use]
    pub fn with_transaction(self, transaction: Duration) -> Self {
        Self { transaction, ..self }
    }

    /// Sets how long a route may be paused.
    #[must_use]
    pub fn with_paused(self, paused: Duration) -> Self {
        Self { paused, ..self }
    }

    /// Sets how far two clocks may differ.
    #[must_use]
    pub fn with_skew(self, skew: Duration) -> Self {
        Self { skew, ..self }
    }

    /// Sets the used share of a server's limit, in percent.
    #[must_use]
    pub fn with_used(self, used: u8) -> Self {
        Self { used, ..self }
    }

    /// Sets the number of dead rows.
    #[must_use]
    pub fn with_dead_rows(self, dead_rows: u64) -> Self {
        Self { dead_rows, ..self }
    }

    /// Sets the size of the write-ahead log of a SQLite file, in bytes.
    #[must_use]
    pub fn with_wal_bytes(self, wal_bytes: u64) -> Self {
        Self { wal_bytes, ..self }
    }

    /// Whether usage exceeds the tolerated share of a limit. Zero means unlimited.
    pub fn is_used_up(&self, used: u64, limit: u64) -> bool {
        limit > 0 && u128::from(used) * 100 > u128::from(limit) * u128::from(self.used)
    }
}

impl Default for Tolerance {
    fn default() -> Self {
        Self {
            late: Duration::from_secs(5 * 60),
            transaction: Duration::from_secs(5 * 60),
            paused: Duration::from_secs(60 * 60),
            skew: Duration::from_secs(5),
            used: 80,
            dead_rows: 10_000,
            wal_bytes: 64 * 1024 * 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_used_up_above_the_percentage() {
        let tolerance = Tolerance::default().with_used(80);
        assert!(!tolerance.is_used_up(80, 100) && tolerance.is_used_up(81, 100));
        assert!(!tolerance.is_used_up(u64::MAX, 0));
        assert!(tolerance.is_used_up(u64::MAX, u64::MAX));
        assert!(tolerance.with_used(0).is_used_up(1, u64::MAX));
    }
}
