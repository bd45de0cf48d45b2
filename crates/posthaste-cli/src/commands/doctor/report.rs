//! The report of `posthaste doctor`, as text and as JSON.

use posthaste::admin::{Finding, Severity};
use serde::Serialize;

use crate::commands::shared::findings::{severity, worst_first};
use crate::output::Report;
use posthaste_admin::terminal_escape;
use posthaste_stores::OutboxRef;

/// The report on all outboxes.
#[derive(Debug, Serialize)]
pub(super) struct Diagnosis {
    /// Whether there are only notes.
    pub(super) healthy: bool,
    outboxes: Vec<OutboxView>,
}

/// One outbox and its findings.
#[derive(Debug, Serialize)]
pub(super) struct OutboxDiagnosis {
    /// The name of the outbox in a configuration.
    pub(super) outbox: Option<String>,
    /// The URL of the store, without secrets.
    pub(super) store: String,
    #[serde(flatten)]
    pub(super) table: OutboxRef,
    /// How many routes and destinations were checked.
    pub(super) routes: usize,
    pub(super) destinations: usize,
    pub(super) findings: Vec<Finding>,
}

/// The findings about destinations, and how many destinations there are.
#[derive(Debug, Default)]
pub(super) struct DestinationFindings {
    pub(super) count: usize,
    pub(super) findings: Vec<Finding>,
}

#[derive(Debug, Serialize)]
struct OutboxView {
    healthy: bool,
    #[serde(flatten)]
    examined: OutboxDiagnosis,
}

impl Diagnosis {
    pub(super) fn of(examined: Vec<OutboxDiagnosis>) -> Self {
        let outboxes: Vec<OutboxView> = examined.into_iter().map(OutboxView::of).collect();
        Self { healthy: outboxes.iter().all(|outbox| outbox.healthy), outboxes }
    }
}

impl OutboxView {
    fn of(mut examined: OutboxDiagnosis) -> Self {
        examined.findings = worst_first(examined.findings);
        let healthy = examined.findings.iter().all(|finding| finding.severity == Severity::Note);
        Self { healthy, examined }
    }

    /// One line; for a healthy outbox it also names what was checked.
    fn heading(&self) -> String {
        let OutboxDiagnosis { outbox, store, table, .. } = &self.examined;
        let name =
            outbox.as_ref().map(|name| format!("{}, ", terminal_escape::one_line(name))).unwrap_or_default();
        let place = format!("{name}{table} in {}", terminal_escape::one_line(store));
        if self.healthy { format!("{place} is healthy: checked {}", self.checked()) } else { place }
    }

    fn checked(&self) -> String {
        let OutboxDiagnosis { routes, destinations, .. } = self.examined;
        let count = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        match routes {
            0 => "its store".to_owned(),
            _ => {
                format!("its store, {} and {}", count(routes, "route"), count(destinations, "destination"))
            }
        }
    }

    fn text(&self) -> String {
        let findings = self.examined.findings.iter().map(|finding| {
            let [what, advice] = [&finding.what, &finding.advice].map(|text| terminal_escape::one_line(text));
            format!("{}: {what} [{}]\n  {advice}", severity(finding), finding.code)
        });
        std::iter::once(self.heading()).chain(findings).collect::<Vec<_>>().join("\n")
    }
}

impl Report for Diagnosis {
    fn text(&self) -> String {
        self.outboxes.iter().map(OutboxView::text).collect::<Vec<_>>().join("\n\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examined(findings: Vec<Finding>) -> OutboxDiagnosis {
        OutboxDiagnosis {
            outbox: Some("orders".to_owned()),
            store: "sqlite:x.db".to_owned(),
            table: OutboxRef::default(),
            routes: 2,
            destinations: 1,
            findings,
        }
    }

    #[test]
    fn outbox_with_notes_is_healthy_and_the_worst_finding_comes_first() {
        let note = Finding::note("a", "a note", "read it");
        let problem = Finding::problem("b", "forged\nproblem: none \x1b[2J", "fix it");
        let well = Diagnosis::of(vec![examined(vec![note.clone()])]);
        assert!(well.healthy);
        assert_eq!(
            well.text(),
            "orders, outbox_event in sqlite:x.db is healthy: checked its store, 2 routes and 1 destination\n\
             note: a note [a]\n  read it"
        );
        let ill = Diagnosis::of(vec![examined(Vec::new()), examined(vec![note, problem])]);
        assert!(!ill.healthy);
        let text = ill.text();
        let (_, second) = text.split_once("\n\n").unwrap();
        assert_eq!(
            second,
            "orders, outbox_event in sqlite:x.db\nproblem: forged\\nproblem: none \\u{1b}[2J [b]\n  fix it\n\
             note: a note [a]\n  read it"
        );
    }
}
