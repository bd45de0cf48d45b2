//! Helpers for findings: run a diagnosis, and check one finding.

use posthaste::Admin;
use posthaste::admin::{Finding, Tolerance};

/// The findings with the default tolerance.
pub async fn diagnosed(store: &impl Admin) -> Vec<Finding> {
    diagnosed_with(store, Tolerance::default()).await
}

/// The findings with this tolerance.
pub async fn diagnosed_with(store: &impl Admin, tolerance: Tolerance) -> Vec<Finding> {
    store.diagnose(&tolerance).await.expect("a diagnosis")
}

/// The finding with this code, if there is one.
pub fn found<'f>(findings: &'f [Finding], code: &str) -> Option<&'f Finding> {
    findings.iter().find(|finding| finding.code == code)
}

/// Asserts that there is a finding with this code whose text or advice contains all these words.
#[track_caller]
pub fn assert_found<'f>(findings: &'f [Finding], code: &str, words: &[&str]) -> &'f Finding {
    let finding = found(findings, code).unwrap_or_else(|| panic!("no {code}: {findings:?}"));
    for word in words {
        assert!(finding.what.contains(word) || finding.advice.contains(word), "no {word:?}: {finding:?}");
    }
    finding
}

/// The statement in a finding's advice, behind this text.
#[track_caller]
pub fn statement_of(finding: &Finding, behind: &str) -> String {
    let statement = finding.advice.strip_prefix(behind);
    statement.unwrap_or_else(|| panic!("no {behind:?}: {finding:?}")).to_owned()
}
