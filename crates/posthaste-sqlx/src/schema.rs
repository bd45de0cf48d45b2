//! The versions of an outbox's schema.

/// One numbered step of a schema. Steps are never changed once released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// 1, 2, 3, …
    pub version: u32,
    /// What it does.
    pub name: &'static str,
}

/// What is known about an outbox's schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaState {
    /// There is no outbox table.
    Missing,
    /// Everything is there.
    Current {
        /// The version.
        version: u32,
    },
    /// Migrations wait to be applied.
    Behind {
        /// The version that was found.
        version: u32,
        /// The newest version.
        latest: u32,
    },
    /// A newer release made this schema.
    Newer {
        /// The version that was found.
        version: u32,
        /// The newest version that this program knows.
        latest: u32,
    },
    /// A table of this name that Posthaste did not make.
    Foreign {
        /// What is different.
        why: String,
        /// Whether `adopt` can upgrade it.
        adoptable: bool,
    },
}
