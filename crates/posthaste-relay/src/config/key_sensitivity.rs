//! Key sensitivity: looks a key up in the lists of all readers. A key has the same sensitivity in every table.

use super::known_keys::{Keys, OUTBOX, ROOT, Sensitivity};
use super::{admin, engine, foreign_layout, route, webhook};

const ALL: &[Keys] = &[
    ROOT,
    admin::ADMIN,
    admin::TOKEN,
    admin::LOG,
    OUTBOX,
    engine::ENGINE,
    route::ROUTE,
    webhook::WEBHOOK,
    foreign_layout::LAYOUT,
];

/// How much of a key's value may be shown, in any table. An unknown key may be a misspelt `store`, so its texts are
/// hidden.
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
