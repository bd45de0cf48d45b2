//! Severity and order of findings, for people.

use std::cmp::Reverse;

use posthaste::admin::{Finding, Severity};

/// The severity as a word.
pub(in crate::commands) fn severity(finding: &Finding) -> &'static str {
    match finding.severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Problem => "problem",
    }
}

/// Sorts the most severe findings to the front.
pub(in crate::commands) fn worst_first(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| Reverse(finding.severity));
    findings
}
