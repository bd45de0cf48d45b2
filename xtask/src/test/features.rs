//! Feature checks: each published crate compiles without features, and with each of its features alone.
//!
//! The other steps enable all features, so they miss code that compiles only because another feature is enabled. The
//! features are read from the manifests, so that a new one needs no entry here.

use serde_json::Value;

use super::checks::Check;
use super::options::Options;
use crate::cargo::{Cargo, packages};

/// The start of every name. A `--step` that starts with it selects the full set.
const STEP: &str = "features";

/// Crates whose features are all checked in every run: their dependencies are small, or needed by another check.
const WITH_EACH_FEATURE: &[&str] = &["posthaste", "posthaste-admin", "posthaste-redis", "posthaste-sqlx"];

/// Crates that an ordinary run checks without features only, because each feature compiles another client or driver.
const WITHOUT_FEATURES: &[&str] = &[
    // This is what `cargo demo` builds.
    "posthaste-cli",
    "posthaste-diesel",
    "posthaste-publishers",
    "posthaste-sea-orm",
    "posthaste-tokio-postgres",
];

/// The checks of an ordinary run, or the full set. Those of one package follow each other, so that compiled
/// dependencies are shared.
pub(super) fn checks(options: &Options) -> Vec<Check> {
    let is_full = options.step.as_ref().is_some_and(|step| step.starts_with(STEP));
    let packages = packages();
    let sets = packages.iter().filter(|package| is_published(package)).flat_map(feature_sets);
    let is_wanted = |(package, feature): &(&str, &str)| {
        is_full
            || WITH_EACH_FEATURE.contains(package)
            || (feature.is_empty() && WITHOUT_FEATURES.contains(package))
    };
    sets.filter(is_wanted).map(|(package, feature)| check(package, feature)).collect()
}

/// `cargo metadata` shows `publish = false` as an empty list of registries.
fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

/// The package with the empty name for no feature, and with each feature of its manifest.
fn feature_sets(package: &Value) -> impl Iterator<Item = (&str, &str)> {
    let name = package["name"].as_str().unwrap_or_default();
    let features = package["features"].as_object().into_iter().flat_map(|features| features.keys());
    let features = features.map(String::as_str).filter(|feature| *feature != "default");
    std::iter::once("").chain(features).map(move |feature| (name, feature))
}

fn check(package: &str, feature: &str) -> Check {
    let cargo = Cargo::new("check --locked --no-default-features").args(&["-p", package]);
    if feature.is_empty() {
        return Check::new(&format!("{STEP}: {package} without features"), cargo);
    }
    Check::new(&format!("{STEP}: {package} with {feature} alone"), cargo.args(&["--features", feature]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str]) -> Vec<String> {
        checks(&Options::parse(args).unwrap()).into_iter().map(|check| check.name).collect()
    }

    #[test]
    fn ordinary_run_has_few_of_the_checks() {
        let (small, full) = (names(&[]), names(&["--step", "features"]));
        assert!(small.len() <= 21, "each check costs seconds: {small:#?}");
        assert!(small.iter().all(|name| full.contains(name)));
        for package in WITHOUT_FEATURES.iter().chain(WITH_EACH_FEATURE) {
            assert!(small.contains(&format!("features: {package} without features")), "{package}");
        }
        assert!(small.contains(&"features: posthaste with testing alone".to_owned()));
    }

    #[test]
    fn full_set_has_every_feature_of_every_published_crate() {
        let full = names(&["--step", "features"]);
        for name in [
            "features: posthaste-macros without features",
            "features: posthaste-publishers with kafka-tls alone",
            "features: posthaste-cli with bench alone",
        ] {
            assert!(full.iter().any(|known| known == name), "{name}");
        }
        assert!(!full.iter().any(|name| name.contains("testkit") || name.contains(" default ")), "{full:?}");
    }

    #[test]
    fn check_without_features_has_none() {
        let commands = ["", "serde"].map(|feature| check("posthaste", feature).cargo.to_string());
        assert_eq!(commands[0], "cargo check --locked --no-default-features -p posthaste");
        assert_eq!(commands[1], format!("{} --features serde", commands[0]));
    }
}
