//! Owners and leases: who holds a row, and under which token.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::event::EventId;

/// The holder of a lease: one running engine, with a random part that is new at every start.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// The longest name, in characters.
    pub const MAX_CHARS: usize = 128;

    /// A new owner in this process. Operators see the name, the host and the process id before the random part.
    pub fn of_this_process(name: &str) -> Self {
        let host = gethostname::gethostname();
        let host: String = host.to_string_lossy().chars().take(40).collect();
        let name: String = name.chars().take(30).collect();
        Self::random(&format!("{name}@{host}:{}", std::process::id()))
    }

    /// A new owner: `prefix` and a random part, so that a restarted process never inherits the leases of the previous
    /// one.
    pub fn random(prefix: &str) -> Self {
        let prefix: String = prefix.chars().filter(|c| !c.is_control()).take(90).collect();
        Self(format!("{prefix}#{}", Uuid::new_v4().simple()).into())
    }

    /// The owner as it is in `locked_by`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Owner {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fences write-backs: one value per claim or born-leased INSERT, never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseToken(i64);

impl LeaseToken {
    /// A new token: 63 random bits, so two claims of one row never get the same one.
    pub fn random() -> Self {
        Self(fastrand::i64(1..))
    }

    /// The token as it is in its column.
    pub fn as_i64(self) -> i64 {
        self.0
    }
}

impl From<i64> for LeaseToken {
    fn from(value: i64) -> Self {
        Self(value)
    }
}

/// Identifies one held row. `seq` is the store's own key and may be faster to look up than the id.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Lease {
    /// The event.
    pub id: EventId,
    /// The insertion number of its row; zero in stores without one.
    pub seq: i64,
    /// The token under which it is held.
    pub token: LeaseToken,
}

impl Lease {
    /// The lease of the row with this id and `seq`, held by `token`.
    pub fn new(id: impl Into<EventId>, seq: i64, token: LeaseToken) -> Self {
        Self { id: id.into(), seq, token }
    }
}
