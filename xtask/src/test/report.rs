//! The report of a run: printed as results come, and as a summary at the end.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A run with more flaky tests than this fails.
const MAX_FLAKY_TESTS: usize = 2;

/// The number of lines that are printed of a failed step's log. The file keeps all of it.
const MAX_LOG_LINES: usize = 200;

/// The results so far. All threads of a run write to it.
#[derive(Debug, Default)]
pub(super) struct Report(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    passed: u64,
    failed: Vec<String>,
    flaky: Vec<String>,
    notes: Vec<String>,
}

impl Report {
    /// A line for the summary, such as a test that did not run against the real server.
    pub(super) fn note(&self, note: &str) {
        println!("{note}");
        self.lock().notes.push(note.to_owned());
    }

    /// A step that cannot run here, with the reason.
    pub(super) fn skip(&self, reason: &str) {
        self.note(&format!("LEFT OUT: {reason}"));
    }

    pub(super) fn passed(&self, count: u64) {
        self.lock().passed += count;
    }

    /// A test or a step that failed.
    pub(super) fn failed(&self, name: String) {
        println!("FAILED: {name}");
        self.lock().failed.push(name);
    }

    /// A test that failed, and passed when it ran alone.
    pub(super) fn flaky(&self, name: String) {
        println!("FLAKY: {name}");
        self.lock().flaky.push(name);
    }

    /// A step or a program that has ended, with or without success.
    pub(super) fn step(&self, name: &str, took: Duration) {
        println!("=== {:6.1} s  {name}", took.as_secs_f64());
    }

    /// Prints the last lines of a log, without those of passed tests.
    pub(super) fn show(&self, log: &Path) {
        let _one_at_a_time = self.lock();
        let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| !line.ends_with(" ... ok")).collect();
        let shown = lines.len().saturating_sub(MAX_LOG_LINES);
        println!("--- {}", log.display());
        lines[shown..].iter().for_each(|line| println!("{line}"));
        println!("---");
    }

    /// Prints the summary. Returns whether the run has passed.
    pub(super) fn finish(&self) -> bool {
        let lists = self.lock();
        println!();
        lists.notes.iter().for_each(|note| println!("{note}"));
        for name in &lists.flaky {
            println!("FLAKY: {name} failed, and passed when it ran alone. Remove the cause.");
        }
        lists.failed.iter().for_each(|name| println!("FAILED: {name}"));
        if lists.flaky.len() > MAX_FLAKY_TESTS {
            println!("FAILED: {} tests are flaky, at most {MAX_FLAKY_TESTS} are allowed.", lists.flaky.len());
        }
        println!("{} passed, {} failed, {} flaky", lists.passed, lists.failed.len(), lists.flaky.len());
        lists.failed.is_empty() && lists.flaky.len() <= MAX_FLAKY_TESTS
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_passes_with_two_flaky_tests_and_not_with_three() {
        let report = Report::default();
        report.flaky("one".to_owned());
        report.flaky("two".to_owned());
        assert!(report.finish());
        report.flaky("three".to_owned());
        assert!(!report.finish());
    }

    #[test]
    fn one_failure_fails_the_run() {
        let report = Report::default();
        report.passed(5000);
        report.failed("clippy".to_owned());
        assert!(!report.finish());
    }
}
