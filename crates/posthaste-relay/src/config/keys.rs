//! The keys of a table, and what may be shown of each. Every reader declares its own.

use super::{admin, engine, layout, load, outbox, route, webhook};

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

const ALL: &[Keys] = &[
    load::ROOT,
    admin::ADMIN,
    admin::TOKEN,
    admin::LOG,
    outbox::OUTBOX,
    engine::ENGINE,
    route::ROUTE,
    webhook::WEBHOOK,
    layout::LAYOUT,
];

pub(super) fn names(keys: Keys) -> Vec<&'static str> {
    keys.iter().flat_map(|(_, names)| *names).copied().collect()
}

/// What may be shown of a key, in whatever table. A key that nobody declared may be a misspelt `store`.
pub(super) fn sensitivity(key: &str) -> Sensitivity {
    let declared = ALL.iter().copied().flatten().find(|(_, names)| names.contains(&key));
    declared.map_or(Sensitivity::Container, |(sensitivity, _)| *sensitivity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_as_sensitive_in_one_table_as_in_another() {
        for (own, names) in ALL.iter().copied().flatten() {
            for name in *names {
                assert_eq!(sensitivity(name), *own, "{name}");
            }
        }
    }
}
