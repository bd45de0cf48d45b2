//! What was found, for people and for programs.

use posthaste::admin::{Finding, Severity};
use serde::Serialize;

use crate::commands::shared::findings::{severity, worst_first};
use crate::output::Report;
use posthaste_admin::terminal_escape;
use posthaste_stores::OutboxRef;

/// All outboxes that were looked at.
#[derive(Debug, Serialize)]
pub(super) struct Diagnosis {
    /// Nothing but notes.
    pub(super) healthy: bool,
    outboxes: Vec<OutboxView>,
}

/// One outbox, and what was found.
#[derive(Debug, Serialize)]
pub(super) struct OutboxDiagnosis {
    /// Its name in a configuration.
    pub(super) outbox: Option<String>,
    /// Its URL, without what is secret in it.
    pub(super) store: String,
    #[serde(flatten)]
    pub(super) table: OutboxRef,
    /// How many routes and destinations were looked at.
    pub(super) routes: usize,
    pub(super) destinations: usize,
    pub(super) findings: Vec<Finding>,
}

/// What was found about destinations, and how many there are.
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

    /// One line, with what was looked at if all is well.
    fn heading(&self) -> String {
        let OutboxDiagnosis { outbox, store, table, .. } = &self.examined;
        let name =
            outbox.as_ref().map(|name| format!("{}, ", terminal_escape::one_line(name))).unwrap_or_default();
        let place = format!("{name}{table} in {}", terminal_escape::one_line(store));
        if self.healthy { format!("{place} is healthy: looked at {}", self.looked_at()) } else { place }
    }

    fn looked_at(&self) -> String {
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
    fn notes_alone_are_healthy_and_the_worst_comes_first() {
        let note = Finding::note("a", "a note", "read it");
        let problem = Finding::problem("b", "forged\nproblem: none \x1b[2J", "mend it");
        let well = Diagnosis::of(vec![examined(vec![note.clone()])]);
        assert!(well.healthy);
        assert_eq!(
            well.text(),
            "orders, outbox_event in sqlite:x.db is healthy: looked at its store, 2 routes and 1 destination\n\
             note: a note [a]\n  read it"
        );
        let ill = Diagnosis::of(vec![examined(Vec::new()), examined(vec![note, problem])]);
        assert!(!ill.healthy);
        let text = ill.text();
        let (_, second) = text.split_once("\n\n").unwrap();
        assert_eq!(
            second,
            "orders, outbox_event in sqlite:x.db\nproblem: forged\\nproblem: none \\u{1b}[2J [b]\n  mend it\n\
             note: a note [a]\n  read it"
        );
    }
}
