//! Every route of the listener: the one table from which the router, the OpenAPI document and the tests are made.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use tower_http::catch_panic::CatchPanicLayer;

use super::Shared;
use super::asked::{Answering, Asked, answer};
use super::fields::{Field, ID_CHARS, Kind};
use super::refusal::Refusal;
use super::{change, health, look, tail};

/// One route.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) needs: Needs,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: &'static [Field],
    /// The forms that a body may have; none if there is no body.
    pub(super) body: &'static [&'static [Field]],
    pub(super) answers: Answers,
    pub(super) handle: fn(Asked) -> Answering,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Everybody who can reach the listener.
    Nothing,
    Viewer,
    Operator,
}

/// What the answer is, when all is well.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answers {
    /// JSON of this schema.
    Json(&'static str),
    /// JSON of this schema also with 503, when not all is well.
    Ready(&'static str),
    /// Any JSON object.
    Object,
    /// Text of this media type.
    Text(&'static str),
}

const GET: Method = Method::GET;
const POST: Method = Method::POST;

/// Everything that stands in braces in a path.
pub(super) const PATH: &[Field] = &[
    Field::new("outbox", Kind::Text(255), "The name of an outbox"),
    Field::new("id", Kind::Text(ID_CHARS), "The id of an event"),
    Field::new("route", Kind::Text(255), "The name of a route"),
];

const STATUS: Field =
    Field::new("status", Kind::Choice(&["NEW", "RETRY", "DONE", "DEAD", "ARCHIVED"]), "Only this status");
const TYPE: Field = Field::new("type", Kind::Text(255), "Only this event type");
const AGGREGATE_TYPE: Field = Field::new("aggregate_type", Kind::Text(255), "Only this aggregate type");
const AGGREGATE_ID: Field = Field::new("aggregate_id", Kind::Text(255), "Only this aggregate id");
const TENANT: Field = Field::new("tenant", Kind::Text(255), "Only this tenant");
const PARKED: Field = Field::new("parked", Kind::Text(255), "Only events that wait for this route");
const ERROR: Field = Field::new("error", Kind::Text(1000), "Only events whose error contains this text");
const OLDER_THAN: Field = Field::new(
    "older_than",
    Kind::Age,
    "Only events that ended, or were inserted if they have not, so long ago",
);
const AFTER: Field = Field::new("after", Kind::Number(0, i64::MAX, None), "The `next` of the page before");
const PAGE: Field = Field::new("limit", Kind::Number(1, 1000, Some(100)), "At most so many");
const BATCH: Field =
    Field::new("limit", Kind::Number(1, 1000, Some(500)), "Change at most so many in this call");

const FORGET: Field = Field::new(
    "forget_progress",
    Kind::Flag,
    "Deliver to every destination again, also to those that have the event",
);
const FILTER: Field = Field::required(
    "filter",
    Kind::Object(&[TYPE, AGGREGATE_TYPE, AGGREGATE_ID, TENANT, ERROR, OLDER_THAN]),
    "All DEAD events that match every condition; all of them if there is none",
);
const IDS: Field = Field::required("ids", Kind::Ids(100), "The ids of DEAD events");

const OLDER: Field = Field::required("older_than", Kind::Age, "Only events that ended at least so long ago");

/// The table.
pub(super) static ROUTES: &[Route] = &[
    Route {
        method: GET,
        path: "/health/live",
        needs: Needs::Nothing,
        id: "live",
        summary: "Whether the process answers",
        query: &[],
        body: &[],
        answers: Answers::Json("Live"),
        handle: |asked| Box::pin(health::live(asked)),
    },
    Route {
        method: GET,
        path: "/health/ready",
        needs: Needs::Nothing,
        id: "ready",
        summary: "Whether every store answers and no due event has waited for too long",
        query: &[],
        body: &[],
        answers: Answers::Ready("Ready"),
        handle: |asked| Box::pin(health::ready(asked)),
    },
    Route {
        method: GET,
        path: "/metrics",
        needs: Needs::Nothing,
        id: "metrics",
        summary: "Metrics as Prometheus reads them",
        query: &[],
        body: &[],
        answers: Answers::Text("text/plain"),
        handle: |asked| Box::pin(health::metrics(asked)),
    },
    Route {
        method: GET,
        path: "/openapi.json",
        needs: Needs::Nothing,
        id: "openapi",
        summary: "This document",
        query: &[],
        body: &[],
        answers: Answers::Object,
        handle: |asked| Box::pin(health::openapi(asked)),
    },
    Route {
        method: GET,
        path: "/api/v1/outboxes",
        needs: Needs::Viewer,
        id: "outboxes",
        summary: "The outboxes of this relay, their routes, and which are paused",
        query: &[],
        body: &[],
        answers: Answers::Json("Outboxes"),
        handle: |asked| Box::pin(look::outboxes(asked)),
    },
    Route {
        method: GET,
        path: "/api/v1/outboxes/{outbox}/stats",
        needs: Needs::Viewer,
        id: "stats",
        summary: "How much waits, is late, died and is done",
        query: &[],
        body: &[],
        answers: Answers::Json("Stats"),
        handle: |asked| Box::pin(look::stats(asked)),
    },
    Route {
        method: GET,
        path: "/api/v1/outboxes/{outbox}/backlog",
        needs: Needs::Viewer,
        id: "backlog",
        summary: "What is pending, by type or by tenant, the largest groups first",
        query: &[
            Field::new("by", Kind::Choice(&["type", "tenant"]), "By what; by type if it is left out"),
            Field::new("limit", Kind::Number(1, 1000, Some(20)), "At most so many groups"),
        ],
        body: &[],
        answers: Answers::Json("Backlog"),
        handle: |asked| Box::pin(look::backlog(asked)),
    },
    Route {
        method: GET,
        path: "/api/v1/outboxes/{outbox}/events",
        needs: Needs::Viewer,
        id: "events",
        summary: "One page of the events that match, oldest first",
        query: &[STATUS, TYPE, AGGREGATE_TYPE, AGGREGATE_ID, TENANT, PARKED, ERROR, OLDER_THAN, AFTER, PAGE],
        body: &[],
        answers: Answers::Json("Events"),
        handle: |asked| Box::pin(look::events(asked)),
    },
    Route {
        method: GET,
        path: "/api/v1/outboxes/{outbox}/count",
        needs: Needs::Viewer,
        id: "count",
        summary: "How many events match",
        query: &[STATUS, TYPE, AGGREGATE_TYPE, AGGREGATE_ID, TENANT, PARKED, ERROR, OLDER_THAN],
        body: &[],
        answers: Answers::Json("Count"),
        handle: |asked| Box::pin(look::count(asked)),
    },
    Route {
        method: GET,
        path: "/api/v1/outboxes/{outbox}/events/{id}",
        needs: Needs::Viewer,
        id: "event",
        summary: "One event; its headers and its payload for operators only",
        query: &[],
        body: &[],
        answers: Answers::Json("Event"),
        handle: |asked| Box::pin(look::event(asked)),
    },
    Route {
        method: GET,
        path: "/api/v1/outboxes/{outbox}/dead/groups",
        needs: Needs::Viewer,
        id: "dead_groups",
        summary: "DEAD events by type and reason, the largest groups first",
        query: &[Field::new("limit", Kind::Number(1, 1000, Some(10)), "At most so many groups")],
        body: &[],
        answers: Answers::Json("Groups"),
        handle: |asked| Box::pin(look::dead_groups(asked)),
    },
    Route {
        method: POST,
        path: "/api/v1/outboxes/{outbox}/dead/replay",
        needs: Needs::Operator,
        id: "replay",
        summary: "Send DEAD events out again",
        query: &[],
        body: &[&[IDS, FORGET], &[FILTER, BATCH, FORGET]],
        answers: Answers::Json("Changed"),
        handle: |asked| Box::pin(change::replay(asked)),
    },
    Route {
        method: POST,
        path: "/api/v1/outboxes/{outbox}/dead/discard",
        needs: Needs::Operator,
        id: "discard",
        summary: "Delete DEAD events",
        query: &[],
        body: &[&[IDS], &[FILTER, BATCH]],
        answers: Answers::Json("Changed"),
        handle: |asked| Box::pin(change::discard(asked)),
    },
    Route {
        method: POST,
        path: "/api/v1/outboxes/{outbox}/purge",
        needs: Needs::Operator,
        id: "purge",
        summary: "Delete old DONE, DEAD or archived events, or move them to the archive",
        query: &[],
        body: &[
            &[
                Field::required("what", Kind::Choice(&["done", "dead"]), "Which events"),
                OLDER,
                Field::new("archive", Kind::Flag, "Move them to the archive instead of deleting them"),
                BATCH,
            ],
            &[Field::required("what", Kind::Choice(&["archived"]), "Events in the archive"), OLDER, BATCH],
        ],
        answers: Answers::Json("Changed"),
        handle: |asked| Box::pin(change::purge(asked)),
    },
    Route {
        method: POST,
        path: "/api/v1/outboxes/{outbox}/routes/{route}/pause",
        needs: Needs::Operator,
        id: "pause",
        summary: "Stop the deliveries of a route, on every relay",
        query: &[],
        body: &[],
        answers: Answers::Json("RouteChanged"),
        handle: |asked| Box::pin(change::pause(asked)),
    },
    Route {
        method: POST,
        path: "/api/v1/outboxes/{outbox}/routes/{route}/resume",
        needs: Needs::Operator,
        id: "resume",
        summary: "End a pause",
        query: &[],
        body: &[],
        answers: Answers::Json("RouteChanged"),
        handle: |asked| Box::pin(change::resume(asked)),
    },
    Route {
        method: GET,
        path: "/api/v1/outboxes/{outbox}/audit",
        needs: Needs::Viewer,
        id: "audit",
        summary: "One page of what operators did, newest first",
        query: &[AFTER, PAGE],
        body: &[],
        answers: Answers::Json("Audit"),
        handle: |asked| Box::pin(look::audit(asked)),
    },
    Route {
        method: GET,
        path: "/api/v1/outboxes/{outbox}/findings",
        needs: Needs::Viewer,
        id: "findings",
        summary: "What looks wrong, the worst first, with what to do about it",
        query: &[],
        body: &[],
        answers: Answers::Json("Findings"),
        handle: |asked| Box::pin(look::findings(asked)),
    },
    Route {
        method: GET,
        path: "/api/v1/outboxes/{outbox}/tail",
        needs: Needs::Viewer,
        id: "tail",
        summary: "What this relay delivers, as it happens: one line of JSON each, until it stops",
        query: &[
            TYPE,
            AGGREGATE_TYPE,
            AGGREGATE_ID,
            TENANT,
            Field::new(
                "outcome",
                Kind::Choice(&["done", "retry", "deferred", "dead", "unreachable", "busy"]),
                "Only deliveries that ended so",
            ),
        ],
        body: &[],
        answers: Answers::Text("application/x-ndjson"),
        handle: |asked| Box::pin(tail::tail(asked)),
    },
];

/// The router of the table.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    let nowhere = shared.clone();
    let router = serving(&shared, |_| true).fallback(move |request| nothing_here(nowhere, request));
    finished(router, shared)
}

/// What probes ask for, for connections that found every other place taken.
pub(super) fn probes(shared: Arc<Shared>) -> Router {
    let router = serving(&shared, |route| route.path.starts_with("/health/")).fallback(no_place);
    finished(router, shared)
}

/// The routes of the table that are wanted.
fn serving(shared: &Arc<Shared>, is_wanted: fn(&Route) -> bool) -> Router {
    let mut router = Router::new();
    for route in ROUTES.iter().filter(|route| is_wanted(route)) {
        let shared = shared.clone();
        let handler = move |request: Request| answer(shared, route, request);
        router = router.route(route.path, on(route.filter(), handler));
    }
    router
}

fn finished(router: Router, shared: Arc<Shared>) -> Router {
    router
        .method_not_allowed_fallback(move |request| no_such_method(shared, request))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(axum::middleware::map_response(guarded))
}

impl Route {
    fn filter(&self) -> MethodFilter {
        if self.method == POST { MethodFilter::POST } else { MethodFilter::GET }
    }

    /// The fields of its path.
    pub(super) fn path_fields(&self) -> impl Iterator<Item = &'static Field> {
        PATH.iter().filter(|field| self.path.contains(&format!("{{{}}}", field.name)))
    }
}

async fn nothing_here(shared: Arc<Shared>, request: Request) -> Response {
    let refusal = Refusal::not_found("there is nothing here", "see /openapi.json for what there is");
    shared.access.refuse(&request, refusal).into_response()
}

async fn no_place() -> Response {
    let advice = "close some, or ask again when others have ended";
    Refusal::unavailable("the relay has as many connections as it takes", advice).into_response()
}

async fn no_such_method(shared: Arc<Shared>, request: Request) -> Response {
    let error = "this path knows another method";
    let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error, "see the header Allow");
    shared.access.refuse(&request, refusal).into_response()
}

/// The text of a panic may hold anything: the hook of the process logs it, no client gets it.
fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("a request to the admin listener failed in a way that nobody expected");
    Refusal::panicked().into_response()
}

async fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
