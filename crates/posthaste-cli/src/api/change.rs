//! What an operator can change. Each change is on record under the name of the token.

use posthaste::EventId;
use posthaste::admin::{Filter, Replay};
use posthaste::store::{Purge, Purgeable};
use serde::Serialize;

use super::asked::{Answer, Asked, ok};
use super::look::filter;
use super::refusal::Refusal;
use crate::commands::Verb;

/// What a change of events did.
#[derive(Debug, Serialize)]
struct Changed {
    action: &'static str,
    changed: u64,
    /// Whether there may be more of them: ask again until this is false.
    more: bool,
    /// Ids that were named and are not of DEAD events.
    unchanged: Vec<EventId>,
}

pub(super) async fn replay(asked: Asked) -> Answer {
    let forget_progress = asked.body.flag("forget_progress");
    change(&asked, Verb::Replay(Replay { actor: &asked.who.actor, forget_progress })).await
}

pub(super) async fn discard(asked: Asked) -> Answer {
    change(&asked, Verb::Discard(&asked.who.actor)).await
}

async fn change(asked: &Asked, verb: Verb<'_>) -> Answer {
    match asked.body.object("filter") {
        Some(conditions) => {
            change_all(asked, verb, &Filter { status: Filter::dead().status, ..filter(&conditions) }).await
        }
        None => change_named(asked, verb).await,
    }
}

async fn change_all(asked: &Asked, verb: Verb<'_>, filter: &Filter) -> Answer {
    let changed = verb.some(asked.admin()?, filter, asked.body.limit()).await?;
    ok(&Changed { action: verb.words().0, changed, more: changed > 0, unchanged: Vec::new() })
}

async fn change_named(asked: &Asked, verb: Verb<'_>) -> Answer {
    let admin = asked.admin()?;
    let mut done = Changed { action: verb.words().0, changed: 0, more: false, unchanged: Vec::new() };
    for id in asked.body.texts("ids").into_iter().map(EventId::from) {
        if verb.one(admin, &id).await? { done.changed += 1 } else { done.unchanged.push(id) }
    }
    ok(&done)
}

pub(super) async fn purge(asked: Asked) -> Answer {
    let body = &asked.body;
    let what = match body.text("what") {
        Some("done") => Purgeable::Done,
        Some("dead") => Purgeable::Dead,
        _ => Purgeable::Archived,
    };
    let older_than = body.age("older_than").ok_or_else(|| Refusal::bad("older_than is missing"))?;
    let purge = Purge { what, older_than, archive: body.flag("archive"), limit: body.limit(), now: None };
    let changed = asked.admin()?.purge(&purge, &asked.who.actor).await?;
    ok(&Changed { action: "purge", changed, more: changed > 0, unchanged: Vec::new() })
}

/// What a pause or its end did.
#[derive(Debug, Serialize)]
struct RouteChanged<'a> {
    action: &'static str,
    route: &'a str,
    changed: bool,
}

/// The relay knows its routes, so a name that is none of them is a mistake.
pub(super) async fn pause(asked: Asked) -> Answer {
    let (admin, route) = (asked.admin()?, route(&asked));
    if !is_known(&asked, route)? {
        return Err(no_route());
    }
    let changed = admin.pause(route, &asked.who.actor).await?;
    ok(&RouteChanged { action: "pause", route, changed })
}

/// A route that is gone from the configuration may still be paused.
pub(super) async fn resume(asked: Asked) -> Answer {
    let (admin, route) = (asked.admin()?, route(&asked));
    let changed = admin.resume(route, &asked.who.actor).await?;
    if !changed && !is_known(&asked, route)? {
        return Err(no_route());
    }
    ok(&RouteChanged { action: "resume", route, changed })
}

fn route(asked: &Asked) -> &str {
    asked.path.text("route").unwrap_or_default()
}

fn is_known(asked: &Asked, route: &str) -> Result<bool, Refusal> {
    Ok(asked.outbox()?.routes().iter().any(|known| known == route))
}

fn no_route() -> Refusal {
    Refusal::not_found("this outbox has no route of this name", "see /api/v1/outboxes for their names")
}
