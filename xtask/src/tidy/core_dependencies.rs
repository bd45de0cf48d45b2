//! Rule: the core crate depends on no driver of a database or broker, not even indirectly.

use std::collections::BTreeSet;

use super::Violation;
use super::tree::Tree;
use crate::cargo::Cargo;

const CORE_MANIFEST: &str = "crates/posthaste/Cargo.toml";

/// Names of crates. A `*` matches any ending.
const DENIED_CRATES: &str = "async-nats axum diesel* fred hyper lapin libsqlite3-sys mysql* postgres* rdkafka* redis reqwest \
     rusqlite sea-orm* sqlx* tokio-postgres";

pub(super) fn check(_tree: &Tree) -> Vec<Violation> {
    let cargo = Cargo::new("tree --locked -p posthaste -e normal --all-features --prefix none");
    match cargo.output() {
        Ok(listing) => denied_in(&listing),
        Err(error) => vec![Violation::new(CORE_MANIFEST, 1, format!("`{cargo}` failed: {error}"))],
    }
}

/// The violations in the output of `cargo tree`, whose lines start with the name of a crate.
fn denied_in(listing: &str) -> Vec<Violation> {
    let names = listing.lines().filter_map(|line| line.split_whitespace().next());
    let denied: BTreeSet<&str> = names.filter(|name| is_denied(name)).collect();
    let advice =
        |name| format!("the core depends on {name}: move the code that needs it to a crate of its own");
    denied.into_iter().map(|name| Violation::new(CORE_MANIFEST, 1, advice(name))).collect()
}

fn is_denied(name: &str) -> bool {
    DENIED_CRATES.split_whitespace().any(|denied| match denied.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == denied,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // S0-01, S2-07
    #[test]
    fn denied_crates_are_reported_once_each() {
        let listing = "posthaste v0.1.0 (/somewhere)\ntokio v1.54.0\nsqlx-core v0.9.0\n\
                       hyper v1.0.0\nsqlx-core v0.9.0 (*)\n";
        let found = denied_in(listing);
        assert_eq!(found.len(), 2);
        assert!(found[0].advice.contains("hyper") && found[1].advice.contains("sqlx-core"));
    }

    // S0-28
    #[test]
    fn star_stands_for_any_ending_and_only_a_star_does() {
        assert!(is_denied("postgres") && is_denied("postgres-types") && is_denied("redis"));
        assert!(!is_denied("posthaste") && !is_denied("redis-like") && !is_denied("hyperloglog"));
    }
}
