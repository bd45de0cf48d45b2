//! What one can look at: outboxes, counts, events, groups, findings, the audit.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use posthaste::admin::{BacklogBy, Filter, Finding, PageRequest, Tolerance};
use posthaste::{EventId, Status, StoreError};
use serde::Serialize;

use super::asked::{Answer, Asked, ok};
use super::fields::Values;
use super::refusal::{Refusal, log_failure};
use crate::config::Role;
use crate::relay::served::Served;
use crate::views::{AuditView, BacklogView, EventView, GroupView, RowView, StatsView, worst_first};

pub(super) async fn outboxes(asked: Asked) -> Answer {
    let outboxes = join_all(asked.shared.api.outboxes.iter().map(|served| outbox(served))).await;
    ok(&Outboxes { outboxes })
}

#[derive(Debug, Serialize)]
struct Outboxes {
    outboxes: Vec<OutboxView>,
}

#[derive(Debug, Serialize)]
struct OutboxView {
    outbox: String,
    open: bool,
    routes: Vec<String>,
    paused: Option<BTreeSet<String>>,
}

/// One store that does not answer must not hide the others.
async fn outbox(served: &Served) -> OutboxView {
    const PATIENCE: Duration = Duration::from_secs(2);
    let stats = match served.admin() {
        Some(admin) => {
            let stats = tokio::time::timeout(PATIENCE, admin.stats()).await;
            let stats = stats.unwrap_or(Err(StoreError::Timeout(PATIENCE)));
            stats.inspect_err(|error| log_failure(served.name(), "outboxes", error)).ok()
        }
        None => None,
    };
    OutboxView {
        outbox: served.name().to_owned(),
        open: served.admin().is_some(),
        routes: served.routes(),
        paused: stats.map(|stats| stats.paused),
    }
}

pub(super) async fn stats(asked: Asked) -> Answer {
    ok(&StatsView::from(&asked.admin()?.stats().await?))
}

pub(super) async fn backlog(asked: Asked) -> Answer {
    let by = if asked.query.text("by") == Some("tenant") { BacklogBy::Tenant } else { BacklogBy::Type };
    ok(&BacklogView::from(asked.admin()?.backlog(by, asked.query.limit()).await?))
}

pub(super) async fn events(asked: Asked) -> Answer {
    let page = asked.admin()?.list(&any_status(&asked.query), &page(&asked.query)).await?;
    ok(&Events { events: page.items.iter().map(RowView::from).collect(), next: page.next })
}

#[derive(Debug, Serialize)]
struct Events<'a> {
    events: Vec<RowView<'a>>,
    next: Option<i64>,
}

pub(super) async fn count(asked: Asked) -> Answer {
    ok(&Count { count: asked.admin()?.count(&any_status(&asked.query)).await? })
}

#[derive(Debug, Serialize)]
struct Count {
    count: u64,
}

fn any_status(query: &Values) -> Filter {
    Filter { status: query.text("status").and_then(status), ..filter(query) }
}

fn status(name: &str) -> Option<Status> {
    [Status::New, Status::Retry, Status::Done, Status::Dead, Status::Archived]
        .into_iter()
        .find(|status| status.name() == name)
}

/// The conditions that a query or a body names.
pub(super) fn filter(values: &Values) -> Filter {
    Filter {
        event_type: values.owned("type"),
        aggregate_type: values.owned("aggregate_type"),
        aggregate_id: values.owned("aggregate_id"),
        tenant_id: values.owned("tenant"),
        parked: values.owned("parked"),
        error_contains: values.owned("error"),
        older_than: values.age("older_than"),
        ..Filter::default()
    }
}

fn page(query: &Values) -> PageRequest {
    PageRequest { after: query.number("after"), limit: query.limit() }
}

pub(super) async fn event(asked: Asked) -> Answer {
    let id = EventId::from(asked.path.text("id").unwrap_or_default());
    let Some(detail) = asked.admin()?.get(&id).await? else {
        let advice = "see whether id and outbox are right; it may also have been purged";
        return Err(Refusal::not_found("there is no event of this id", advice));
    };
    // Payloads and headers may be personal: a viewer sees how large a payload is.
    let event = match asked.who.role {
        Some(Role::Operator) => EventView::from(&detail.event),
        _ => EventView::sealed(&detail.event),
    };
    ok(&ShownView { row: RowView::from(&detail.row), event })
}

#[derive(Debug, Serialize)]
struct ShownView<'a> {
    #[serde(flatten)]
    row: RowView<'a>,
    #[serde(flatten)]
    event: EventView<'a>,
}

pub(super) async fn dead_groups(asked: Asked) -> Answer {
    let groups = asked.admin()?.dead_groups(asked.query.limit()).await?;
    ok(&Groups { groups: groups.iter().map(GroupView::from).collect() })
}

#[derive(Debug, Serialize)]
struct Groups<'a> {
    groups: Vec<GroupView<'a>>,
}

pub(super) async fn findings(asked: Asked) -> Answer {
    ok(&Findings { findings: worst_first(asked.admin()?.diagnose(&Tolerance::default()).await?) })
}

#[derive(Debug, Serialize)]
struct Findings {
    findings: Vec<Finding>,
}

pub(super) async fn audit(asked: Asked) -> Answer {
    let page = asked.admin()?.audit(&page(&asked.query)).await?;
    ok(&Audit { entries: page.items.iter().map(AuditView::from).collect(), next: page.next })
}

#[derive(Debug, Serialize)]
struct Audit<'a> {
    entries: Vec<AuditView<'a>>,
    next: Option<i64>,
}
