//! How much an operator bears before something counts as wrong.

use std::time::Duration;

/// What [`Admin::diagnose`](super::Admin::diagnose) leaves out because it is still within bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// the rows that live. Default: 10,000.
    pub dead_rows: u64,
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
        }
    }
}
