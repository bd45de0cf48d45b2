//! What may be shown of a key in whatever table it stands: the keys of all readers together.

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
