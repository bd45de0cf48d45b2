//! Known keys: the keys that a table may have, and how much of the value of each may be shown. Each reader declares its
//! own list. The two lists that several modules need are here.

/// How much of a key's value may be shown in an excerpt of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sensitivity {
    /// All of it.
    Public,
    /// Nothing, whatever the value is.
    Hidden,
    /// A table or a list, whose values have their own keys. A text in its place may be a secret and is hidden.
    Container,
}

/// Keys by their sensitivity, in the order in which error messages list them.
pub(super) type Keys = &'static [(Sensitivity, &'static [&'static str])];

/// The keys of the configuration as a whole.
pub(super) const ROOT: Keys = &[(Sensitivity::Container, &["admin", "log", "outbox"])];

/// The keys of an outbox, without those of its engine.
pub(super) const OUTBOX: Keys = &[
    (Sensitivity::Hidden, &["store"]),
    (Sensitivity::Public, &["table", "schema", "layout", "pgbouncer", "migrate"]),
    (Sensitivity::Container, &["route"]),
];

pub(super) fn names(keys: Keys) -> Vec<&'static str> {
    keys.iter().flat_map(|(_, names)| *names).copied().collect()
}
