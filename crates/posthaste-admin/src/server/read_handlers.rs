//! Handlers that read: outboxes, counts, events, groups, findings and the audit.

use std::cmp::Reverse;
use std::time::Duration;

use futures_util::future::join_all;
use posthaste::admin::{BacklogBy, Filter, PageRequest, Tolerance};
use posthaste::{EventId, StoreError};

use super::access::Role;
use super::admin_outbox::AdminOutbox;
use super::error::{ApiError, log_failure};
use super::params::Params;
use super::request::{ApiRequest, ApiResult, ok};
use crate::wire;

/// The longest wait for a store in the list of outboxes. A slower store is listed without its paused routes.
const STATS_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn outboxes(request: ApiRequest) -> ApiResult {
    let outboxes = request.state.api.outboxes.iter().map(|outbox| describe(outbox));
    ok(&wire::Outboxes { outboxes: join_all(outboxes).await })
}

/// Describes one outbox. A store that does not reply must not hide the other outboxes, so its error is only logged.
async fn describe(outbox: &AdminOutbox) -> wire::Outbox {
    let stats = match outbox.admin() {
        Some(admin) => {
            let stats = tokio::time::timeout(STATS_TIMEOUT, admin.stats()).await;
            let stats = stats.unwrap_or(Err(StoreError::Timeout(STATS_TIMEOUT)));
            stats.inspect_err(|error| log_failure(outbox.name(), "outboxes", error)).ok()
        }
        None => None,
    };
    wire::Outbox {
        outbox: outbox.name().to_owned(),
        open: outbox.admin().is_some(),
        routes: outbox.routes(),
        paused: stats.map(|stats| stats.paused),
    }
}

pub(super) async fn stats(request: ApiRequest) -> ApiResult {
    ok(&wire::Stats::from(&request.admin()?.stats().await?))
}

pub(super) async fn backlog(request: ApiRequest) -> ApiResult {
    let by = if request.query.text("by") == Some("tenant") { BacklogBy::Tenant } else { BacklogBy::Type };
    ok(&wire::Backlog::from(request.admin()?.backlog(by, request.query.limit()).await?))
}

pub(super) async fn events(request: ApiRequest) -> ApiResult {
    let page = request.admin()?.list(&any_status(&request.query), &page(&request.query)).await?;
    ok(&wire::Events::from(&page))
}

pub(super) async fn count(request: ApiRequest) -> ApiResult {
    ok(&wire::Count { count: request.admin()?.count(&any_status(&request.query)).await? })
}

fn any_status(query: &Params) -> Filter {
    let mut filter = filter(query);
    filter.status = query.value("status");
    filter
}

/// The conditions that a query or a body names.
pub(super) fn filter(params: &Params) -> Filter {
    let mut filter = Filter::default();
    filter.event_type = params.value("type");
    filter.aggregate_type = params.value("aggregate_type");
    filter.aggregate_id = params.value("aggregate_id");
    filter.tenant_id = params.value("tenant");
    filter.parked = params.value("parked");
    filter.error_contains = params.value("error");
    filter.older_than = params.age("older_than");
    filter
}

fn page(query: &Params) -> PageRequest {
    PageRequest::after(query.number("after"), query.limit())
}

pub(super) async fn event(request: ApiRequest) -> ApiResult {
    let id = EventId::from(request.path.text("id").unwrap_or_default());
    let Some(detail) = request.admin()?.get(&id).await? else {
        let advice = "check the id and the outbox; the event may also have been purged";
        return Err(ApiError::not_found("there is no event with this id", advice));
    };
    // Payloads and headers may contain personal data, so a viewer sees only the size of the payload.
    ok(&match request.who.role {
        Some(Role::Operator) => wire::Event::from(&detail),
        _ => wire::Event::without_content(&detail),
    })
}

pub(super) async fn dead_groups(request: ApiRequest) -> ApiResult {
    let groups = request.admin()?.dead_groups(request.query.limit()).await?;
    ok(&wire::Groups { groups: groups.iter().map(wire::DeadGroup::from).collect() })
}

pub(super) async fn findings(request: ApiRequest) -> ApiResult {
    let mut findings = request.admin()?.diagnose(&Tolerance::default()).await?;
    findings.sort_by_key(|finding| Reverse(finding.severity));
    ok(&wire::Findings { findings: findings.into_iter().map(wire::Finding::from).collect() })
}

pub(super) async fn audit(request: ApiRequest) -> ApiResult {
    ok(&wire::Audit::from(&request.admin()?.audit(&page(&request.query)).await?))
}
