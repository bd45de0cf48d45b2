//! Handlers of changes: replay, discard, purge, pause and resume. Each change is in the audit with the name of the
//! token.

use posthaste::admin::Replay;
use posthaste::store::{Purge, Purgeable};
use posthaste::{EventId, Status};

use super::error::ApiError;
use super::read_handlers::filter;
use super::request::{ApiRequest, ApiResult, ok};
use crate::DeadAction;
use crate::wire::{Changed, RouteChanged};

pub(super) async fn replay(request: ApiRequest) -> ApiResult {
    let forget_progress = request.body.flag("forget_progress");
    change(&request, DeadAction::Replay(Replay::by(&request.who.actor).with_forget_progress(forget_progress)))
        .await
}

pub(super) async fn discard(request: ApiRequest) -> ApiResult {
    change(&request, DeadAction::Discard(&request.who.actor)).await
}

async fn change(request: &ApiRequest, action: DeadAction<'_>) -> ApiResult {
    match request.body.object("filter") {
        Some(conditions) => {
            let filter = filter(&conditions).with_status(Status::Dead);
            let changed = action.some(request.admin()?, &filter, request.body.limit()).await?;
            ok(&Changed { changed, more: changed > 0, ..nothing_changed(action.name()) })
        }
        None => change_named(request, action).await,
    }
}

async fn change_named(request: &ApiRequest, action: DeadAction<'_>) -> ApiResult {
    let admin = request.admin()?;
    let mut done = nothing_changed(action.name());
    for id in request.body.value::<Vec<String>>("ids").unwrap_or_default() {
        if action.one(admin, &EventId::from(id.as_str())).await? {
            done.changed += 1;
        } else {
            done.unchanged.push(id);
        }
    }
    ok(&done)
}

pub(super) async fn purge(request: ApiRequest) -> ApiResult {
    let body = &request.body;
    let what = match body.text("what") {
        Some("done") => Purgeable::Done,
        Some("dead") => Purgeable::Dead,
        _ => Purgeable::Archived,
    };
    let older_than = body.age("older_than").ok_or_else(|| ApiError::bad("older_than is missing"))?;
    let purge = Purge::new(what, older_than, body.limit()).with_archive(body.flag("archive"));
    let changed = request.admin()?.purge(&purge, &request.who.actor).await?;
    ok(&Changed { changed, more: changed > 0, ..nothing_changed("purge") })
}

fn nothing_changed(action: &str) -> Changed {
    Changed { action: action.to_owned(), changed: 0, more: false, unchanged: Vec::new() }
}

/// Refuses a name that is not that of a route of this process: it is most likely misspelt.
pub(super) async fn pause(request: ApiRequest) -> ApiResult {
    let (admin, route) = (request.admin()?, route(&request));
    if !is_known(&request, route)? {
        return Err(no_route());
    }
    let changed = admin.pause(route, &request.who.actor).await?;
    ok(&RouteChanged { action: "pause".to_owned(), route: route.to_owned(), changed })
}

/// Accepts any paused route: one that was removed from the configuration may still be paused.
pub(super) async fn resume(request: ApiRequest) -> ApiResult {
    let (admin, route) = (request.admin()?, route(&request));
    let changed = admin.resume(route, &request.who.actor).await?;
    if !changed && !is_known(&request, route)? {
        return Err(no_route());
    }
    ok(&RouteChanged { action: "resume".to_owned(), route: route.to_owned(), changed })
}

fn route(request: &ApiRequest) -> &str {
    request.path.text("route").unwrap_or_default()
}

fn is_known(request: &ApiRequest, route: &str) -> Result<bool, ApiError> {
    Ok(request.outbox()?.routes().iter().any(|known| known == route))
}

fn no_route() -> ApiError {
    ApiError::not_found("this outbox has no route with this name", "see /api/v1/outboxes for their names")
}
