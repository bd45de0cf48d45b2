//! Findings for people.

use std::cmp::Reverse;

use posthaste::admin::{Finding, Severity};

/// How bad a finding is.
pub(in crate::commands) fn severity(finding: &Finding) -> &'static str {
    match finding.severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Problem => "problem",
    }
}

/// Findings in the order in which one looks after them.
pub(in crate::commands) fn worst_first(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| Reverse(finding.severity));
    findings
}
