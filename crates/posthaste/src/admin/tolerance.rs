//! How much an operator bears before something counts as wrong.

use std::time::Duration;

/// What [`Admin::diagnose`](super::Admin::diagnose) leaves out because it is still within bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tolerance {
    /// How long the oldest pending event may wait. Default: 5 minutes.
    pub late: Duration,
    /// How long a transaction of anybody may stay open on the database: while it does, nothing that was
    /// settled since can be cleaned up, and every claim walks over it. Default: 5 minutes.
    pub transaction: Duration,
    /// How long a route may be paused before somebody has forgotten it. Default: 1 hour.
    pub paused: Duration,
    /// How far clocks may be apart. Default: 5 s.
    pub skew: Duration,
    /// How much of a limit of the server may be used up, such as its connections, in percent. Default: 80.
    pub used: u8,
    /// From how many rows on that the database has not cleaned up yet they count, if they are also more than
    /// the rows that live. MySQL and MariaDB tell transactions, of all tables: ten times as many are borne.
    /// Default: 10,000.
    pub dead_rows: u64,
    /// How large the write-ahead log of a SQLite file may be, in bytes. Default: 64 MiB.
    pub wal_bytes: u64,
}

impl Tolerance {
    /// How long the oldest pending event may wait.
    #[must_use]
    pub fn with_late(self, late: Duration) -> Self {
        Self { late, ..self }
    }

    /// How long a transaction may stay open.
    #[must_use]
    pub fn with_transaction(self, transaction: Duration) -> Self {
        Self { transaction, ..self }
    }

    /// How long a route may be paused.
    #[must_use]
    pub fn with_paused(self, paused: Duration) -> Self {
        Self { paused, ..self }
    }

    /// How far clocks may be apart.
    #[must_use]
    pub fn with_skew(self, skew: Duration) -> Self {
        Self { skew, ..self }
    }

    /// How much of a limit of the server may be used up, in percent.
    #[must_use]
    pub fn with_used(self, used: u8) -> Self {
        Self { used, ..self }
    }

    /// How many rows may wait to be cleaned up.
    #[must_use]
    pub fn with_dead_rows(self, dead_rows: u64) -> Self {
        Self { dead_rows, ..self }
    }

    /// How large the write-ahead log of a SQLite file may be, in bytes.
    #[must_use]
    pub fn with_wal_bytes(self, wal_bytes: u64) -> Self {
        Self { wal_bytes, ..self }
    }

    /// Whether more of a limit is used up than is borne. A limit of zero is none.
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
