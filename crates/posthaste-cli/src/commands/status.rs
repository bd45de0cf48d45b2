//! `posthaste status`: how much waits, is late, died and is done.

use std::cmp::Reverse;
use std::process::ExitCode;
use std::time::Duration;

use posthaste::StoreError;
use posthaste::admin::{Admin, Finding, Severity, Stats};
use serde::Serialize;

use crate::args::StatusArgs;
use crate::connect;
use crate::escape;
use crate::output::{self, Output, Report};
use crate::place::Place;

pub(crate) async fn run(args: StatusArgs, output: Output) -> anyhow::Result<ExitCode> {
    let (store, place) = (args.store.url.to_string(), args.store.place());
    let status = connect::with_admin(&args.store, async |admin| Ok(look(admin, store, place).await?)).await?;
    output.print(&status)?;
    Ok(ExitCode::SUCCESS)
}

async fn look(admin: &dyn Admin, store: String, place: Place) -> Result<Status, StoreError> {
    let stats = admin.stats().await?;
    let mut findings = admin.diagnose().await?;
    findings.sort_by_key(|finding| Reverse(finding.severity));
    let Stats { new, retry, done, dead, archived, due, leased, parked, scheduled, oldest_pending, paused } =
        stats;
    Ok(Status {
        store,
        place,
        pending: Pending { new, retry, due, leased, parked, scheduled },
        done,
        dead,
        archived,
        oldest_pending_seconds: oldest_pending.map(|age| age.as_secs_f64()),
        paused: paused.into_iter().collect(),
        findings,
    })
}

#[derive(Debug, Serialize)]
struct Status {
    store: String,
    #[serde(flatten)]
    place: Place,
    pending: Pending,
    done: u64,
    dead: u64,
    archived: u64,
    oldest_pending_seconds: Option<f64>,
    paused: Vec<String>,
    findings: Vec<Finding>,
}

/// The same rows counted twice: by status, and by what they wait for.
#[derive(Debug, Serialize)]
struct Pending {
    new: u64,
    retry: u64,
    due: u64,
    leased: u64,
    parked: u64,
    scheduled: u64,
}

impl Report for Status {
    fn text(&self) -> String {
        let place = format!("{} in {}", self.place, escape::one_line(&self.store));
        let mut parts = vec![place, self.counts(), self.facts()];
        if !self.findings.is_empty() {
            parts.push(findings(&self.findings));
        }
        parts.join("\n\n")
    }
}

impl Status {
    fn counts(&self) -> String {
        let Pending { new, retry, due, leased, parked, scheduled } = self.pending;
        let none = String::new;
        output::counts([
            ("pending", new + retry, format!("{new} NEW, {retry} RETRY")),
            ("  due now", due, none()),
            ("  on lease", leased, "an engine works on them".to_owned()),
            ("  parked", parked, "their route is closed".to_owned()),
            ("  scheduled", scheduled, "their time has not come".to_owned()),
            ("done", self.done, none()),
            ("dead", self.dead, none()),
            ("archived", self.archived, none()),
        ])
    }

    fn facts(&self) -> String {
        let oldest = self.oldest_pending_seconds.map(|age| output::spoken(Duration::from_secs_f64(age)));
        let paused = if self.paused.is_empty() { None } else { Some(self.paused.join(", ")) };
        output::pairs([
            ("oldest pending", output::or_dash(oldest)),
            ("paused routes", output::or_dash(paused)),
        ])
    }
}

fn findings(findings: &[Finding]) -> String {
    let rows = findings.iter().map(|finding| {
        let severity = match finding.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Problem => "problem",
        };
        [severity.to_owned(), finding.what.clone(), finding.advice.clone()]
    });
    output::columns(["finding", "what", "what to do"], rows)
}

#[cfg(test)]
mod tests {
    use posthaste::MemoryStore;
    use posthaste::memory::RawRow;

    use super::*;

    #[tokio::test]
    async fn status_names_counts_pauses_and_findings() {
        let store = MemoryStore::new();
        for status in [0, 0, 2, 1, 3] {
            store.insert_raw(RawRow { status, ..RawRow::default() });
        }
        Admin::pause(&store, "mail\x1b[2J", "ann").await.unwrap();
        let status = look(&store, "sqlite:x.db".into(), Place::default()).await.unwrap();
        assert_eq!((status.pending.new, status.pending.retry, status.done, status.dead), (2, 1, 1, 1));
        let text = status.text();
        for part in ["outbox_event in sqlite:x.db", r"mail\u{1b}[2J", "DEAD events: 1", "warning"] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
    }
}
