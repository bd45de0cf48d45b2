//! `posthaste status`: how many events are pending, late, dead and done.

mod backlog;
pub(super) mod rates;
pub(super) mod watch;

use std::process::ExitCode;

use anyhow::Context;
use posthaste::StoreError;
use posthaste::admin::{Admin, BacklogBy, Finding, Stats, Tolerance};
use serde::Serialize;

use crate::commands::shared::findings::{severity, worst_first};
use crate::connect;
use crate::output::{self, Output, Report};
use crate::store_args::StoreArgs;
use posthaste_admin::terminal_escape;
use posthaste_admin::wire;
use posthaste_stores::OutboxRef;
use posthaste_stores::StoreSpec;
use watch::WatchArgs;

/// How many events are pending, late, dead and done, what is paused, and what looks wrong
///
/// With --watch it reads the counts again and again. On a terminal the screen is redrawn; otherwise each reading is one
/// block of text or one line of JSON. Rates are differences of counts and therefore lower bounds: rows that were
/// deleted between two readings are missing. An unknown rate is "-" or null.
///
/// JSON: {"store", "table", "schema": only if one was named, "pending": {"new", "retry", "due", "leased", "parked",
/// "scheduled"}, "done", "dead", "archived", "estimated": {"pending", "done", "dead", "archived"}: true for counts that
/// are estimates, "oldest_pending_seconds": number or null, "paused": [route], "by_type" and "by_tenant": {"groups":
/// the ten largest, [{"key": text or null, "count", "oldest_seconds"}], "complete"}, "findings": [{"code", "severity":
/// "note|warning|problem", "what", "advice"}]}
///
/// With --watch also "at", and "rates": null at first, then {"seconds", "backlog_per_second", "delivered_per_second",
/// "written_per_second"}, each a number or null.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  posthaste status
  posthaste status --watch
  posthaste status --watch --interval 10s --output json >> backlog.jsonl")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    watch: WatchArgs,

    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) async fn run(args: StatusArgs, output: Output) -> anyhow::Result<ExitCode> {
    let store = args.store.spec()?;
    connect::with_admin(&store, async |admin| {
        if args.watch.watch {
            return watch::run(admin, &args.watch, &store, output).await;
        }
        output.print(&read(admin, &store).await?)?;
        Ok(ExitCode::SUCCESS)
    })
    .await
}

async fn read(admin: &dyn Admin, store: &StoreSpec) -> anyhow::Result<StatusReport> {
    let status = StatusReport::of(admin, store.url.to_string(), store.outbox_ref());
    status.await.context("the outbox cannot be read")
}

#[derive(Debug, Serialize)]
struct StatusReport {
    store: String,
    #[serde(flatten)]
    outbox: OutboxRef,
    #[serde(flatten)]
    counts: wire::Stats,
    by_type: wire::Backlog,
    by_tenant: wire::Backlog,
    findings: Vec<Finding>,
    #[serde(skip)]
    stats: Stats,
}

impl Report for StatusReport {
    fn text(&self) -> String {
        let mut parts = vec![self.heading(), self.counts(), self.facts()];
        parts.extend(self.tables());
        parts.join("\n\n")
    }
}

impl StatusReport {
    async fn of(admin: &dyn Admin, store: String, outbox: OutboxRef) -> Result<Self, StoreError> {
        let stats = admin.stats().await?;
        Ok(Self {
            store,
            outbox,
            counts: wire::Stats::from(&stats),
            by_type: backlog::read(admin, BacklogBy::Type).await?,
            by_tenant: backlog::read(admin, BacklogBy::Tenant).await?,
            findings: worst_first(admin.diagnose(&Tolerance::default()).await?),
            stats,
        })
    }

    fn heading(&self) -> String {
        format!("{} in {}", self.outbox, terminal_escape::one_line(&self.store))
    }

    fn counts(&self) -> String {
        let wire::Stats { pending, done, dead, archived, estimated, .. } = self.counts;
        let wire::Pending { new, retry, due, leased, parked, scheduled, .. } = pending;
        let none = String::new;
        let pending = |count| about(count, estimated.pending);
        output::counts([
            ("pending", pending(new + retry), format!("{} NEW, {} RETRY", pending(new), pending(retry))),
            ("  due now", pending(due), none()),
            ("  on lease", pending(leased), "an engine works on them".to_owned()),
            ("  parked", pending(parked), "their route is closed".to_owned()),
            ("  scheduled", pending(scheduled), "their time has not come".to_owned()),
            ("done", about(done, estimated.done), none()),
            ("dead", about(dead, estimated.dead), none()),
            ("archived", about(archived, estimated.archived), none()),
        ])
    }

    fn facts(&self) -> String {
        let oldest = self.stats.oldest_pending.map(output::spoken);
        let paused: Vec<&str> = self.counts.paused.iter().map(String::as_str).collect();
        let paused = if paused.is_empty() { None } else { Some(paused.join(", ")) };
        output::pairs([
            ("oldest pending", output::or_dash(oldest)),
            ("paused routes", output::or_dash(paused)),
        ])
    }

    /// The backlog by type and tenant, and the findings. Empty tables are left out.
    fn tables(&self) -> impl Iterator<Item = String> {
        let by_type = backlog::text(&self.by_type, "waiting by type");
        let by_tenant = backlog::text(&self.by_tenant, "waiting by tenant");
        let findings = (!self.findings.is_empty()).then(|| findings(&self.findings));
        [by_type, by_tenant, findings].into_iter().flatten()
    }
}

/// A count; an estimate has the prefix `~`.
fn about(count: u64, estimated: bool) -> String {
    if estimated { format!("~{count}") } else { count.to_string() }
}

fn findings(findings: &[Finding]) -> String {
    let rows = findings
        .iter()
        .map(|finding| [severity(finding).to_owned(), finding.what.clone(), finding.advice.clone()]);
    output::columns(["finding", "what", "what to do"], rows)
}

#[cfg(test)]
mod tests {
    use posthaste::MemoryStore;
    use posthaste::memory::RawRow;

    use super::*;

    #[tokio::test]
    async fn estimates_are_marked() {
        let store = MemoryStore::new();
        for status in [0, 0, 2] {
            store.insert_raw(RawRow::default().with_status_code(status));
        }
        let mut status = StatusReport::of(&store, "sqlite:x.db".into(), OutboxRef::default()).await.unwrap();
        assert!(!status.text().contains('~'), "{}", status.text());
        status.counts.estimated.pending = true;
        assert!(status.text().contains("~3  ~2 NEW, ~1 RETRY"), "{}", status.text());
    }
}
