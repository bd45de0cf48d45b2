//! Tests of the configuration: values that are read, mistakes that are reported, secrets that are never shown.

mod environment;
mod hostile;
mod mistakes;
mod options;
mod read;
mod secrets;

use super::environment::Environment;
use super::*;

const SECRET: &str = "s3ntinel-PW-9f";

/// Loads this text as a configuration file.
fn read<const N: usize>(text: &str, variables: [(&str, &str); N]) -> Result<RelayConfig, Problems> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("posthaste.toml");
    std::fs::write(&path, text).unwrap();
    Source::File(path).load_with(&Environment::from(variables))
}

/// The configuration of a text without mistakes.
fn good<const N: usize>(text: &str, variables: [(&str, &str); N]) -> RelayConfig {
    read(text, variables).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Each problem of a text with mistakes, as `line:column setting: what`.
fn refused<const N: usize>(text: &str, variables: [(&str, &str); N]) -> Vec<String> {
    let problems = read(text, variables).expect_err("something is wrong");
    let brief = |problem: &Problem| {
        let place = match (problem.line, problem.column) {
            (Some(line), Some(column)) => format!("{line}:{column}"),
            _ => problem.source.clone(),
        };
        format!("{place} {}: {}", problem.setting, problem.what)
    };
    problems.iter().map(brief).collect()
}

const SHOP: &str = r#"
[outbox.shop]
store = "postgres://shop@db/shop"
[[outbox.shop.route]]
publish = "stdout:"
"#;
