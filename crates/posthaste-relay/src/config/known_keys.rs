//! The keys of a table, and what may be shown of each. Every reader declares its own, but for two lists that others
//! need as well.

/// What may be shown of a key's value where something is wrong with the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sensitivity {
    /// All of it.
    Public,
    /// Nothing, whatever it is.
    Hidden,
    /// A table or a list: what it holds is judged by its own keys. A text in its place may be a secret.
    Container,
}

/// Keys by their sensitivity, in the order in which they are suggested.
pub(super) type Keys = &'static [(Sensitivity, &'static [&'static str])];

/// Of the configuration as a whole.
pub(super) const ROOT: Keys = &[(Sensitivity::Container, &["admin", "log", "outbox"])];

/// Of an outbox, but for those of its engine.
pub(super) const OUTBOX: Keys = &[
    (Sensitivity::Hidden, &["store"]),
    (Sensitivity::Public, &["table", "schema", "layout", "pgbouncer", "migrate"]),
    (Sensitivity::Container, &["route"]),
];

pub(super) fn names(keys: Keys) -> Vec<&'static str> {
    keys.iter().flat_map(|(_, names)| *names).copied().collect()
}
