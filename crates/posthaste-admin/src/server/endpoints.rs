//! Endpoints: the table of all paths of the listener. The router, the OpenAPI document and the tests are made from it.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::on;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use tower_http::catch_panic::CatchPanicLayer;

use super::access::RequiredRole;
use super::endpoint::{Endpoint, Success};
use super::error::ApiError;
use super::params::{Param, ParamKind};
use super::respond::respond;
use super::{ApiState, change_handlers, health, read_handlers, tail_handler};
use crate::wire;

/// Template of an endpoint that only reads and needs no token.
const FOR_ALL: Endpoint = Endpoint {
    method: Method::GET,
    path: "",
    required_role: RequiredRole::Nothing,
    id: "",
    summary: "",
    query: &[],
    body: &[],
    success: Success::Object,
    handle: |request| Box::pin(health::live(request)),
};

/// Template of an endpoint that only reads.
const FOR_VIEWERS: Endpoint = Endpoint { required_role: RequiredRole::Viewer, ..FOR_ALL };

/// Template of an endpoint that changes something.
const FOR_OPERATORS: Endpoint =
    Endpoint { method: Method::POST, required_role: RequiredRole::Operator, ..FOR_ALL };

const STATUS: Param = Param::new(
    "status",
    ParamKind::Choice(&["NEW", "RETRY", "DONE", "DEAD", "ARCHIVED"]),
    "Only this status",
);
const TYPE: Param = Param::new("type", ParamKind::Text(255), "Only this event type");
const AGGREGATE_TYPE: Param = Param::new("aggregate_type", ParamKind::Text(255), "Only this aggregate type");
const AGGREGATE_ID: Param = Param::new("aggregate_id", ParamKind::Text(255), "Only this aggregate id");
const TENANT: Param = Param::new("tenant", ParamKind::Text(255), "Only this tenant");
const PARKED: Param = Param::new("parked", ParamKind::Text(255), "Only events that wait for this route");
const ERROR: Param = Param::new("error", ParamKind::Text(1000), "Only events whose error contains this text");
const OLDER_THAN: Param = Param::new(
    "older_than",
    ParamKind::Age,
    "Only events that ended, or were inserted if they have not, this long ago",
);
const AFTER: Param =
    Param::new("after", ParamKind::Number(0, i64::MAX, None), "The `next` of the previous page");
const LIMIT: Param =
    Param::new("limit", ParamKind::Number(1, 1000, Some(100)), "The maximum number of items on the page");
const BATCH_LIMIT: Param = Param::new(
    "limit",
    ParamKind::Number(1, 1000, Some(500)),
    "The maximum number of events to change in this call",
);

const FORGET_PROGRESS: Param = Param::new(
    "forget_progress",
    ParamKind::Flag,
    "Deliver to every destination again, also to those that have the event",
);
const FILTER: Param = Param::required(
    "filter",
    ParamKind::Object(&[TYPE, AGGREGATE_TYPE, AGGREGATE_ID, TENANT, ERROR, OLDER_THAN]),
    "All DEAD events that match every condition; without conditions, all DEAD events",
);
const IDS: Param = Param::required("ids", ParamKind::Ids(100), "The ids of DEAD events");

const REQUIRED_OLDER_THAN: Param =
    Param::required("older_than", ParamKind::Age, "Only events that ended at least this long ago");
const ARCHIVED_OLDER_THAN: Param = Param::required(
    "older_than",
    ParamKind::Age,
    "Only events that ended at least this long ago; in an archive table of PostgreSQL, MySQL or MariaDB, only events \
     that were archived at least this long ago",
);

/// The table of all endpoints.
pub(super) static ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        path: "/health/live",
        id: "live",
        summary: "Whether the process is alive",
        success: Success::Json(schema::<wire::Live>),
        handle: |request| Box::pin(health::live(request)),
        ..FOR_ALL
    },
    Endpoint {
        path: "/health/ready",
        id: "ready",
        summary: "Whether every store replies and the lag is at most `ready_lag`",
        success: Success::Ready(schema::<wire::Ready>),
        handle: |request| Box::pin(health::ready(request)),
        ..FOR_ALL
    },
    Endpoint {
        path: "/metrics",
        id: "metrics",
        summary: "Metrics in the text format of Prometheus",
        success: Success::Text("text/plain"),
        handle: |request| Box::pin(health::metrics(request)),
        ..FOR_ALL
    },
    Endpoint {
        path: "/openapi.json",
        id: "openapi",
        summary: "This document",
        success: Success::Object,
        handle: |request| Box::pin(health::openapi(request)),
        ..FOR_ALL
    },
    Endpoint {
        path: "/api/v1/outboxes",
        id: "outboxes",
        summary: "The outboxes of this relay, their routes, and which are paused",
        success: Success::Json(schema::<wire::Outboxes>),
        handle: |request| Box::pin(read_handlers::outboxes(request)),
        ..FOR_VIEWERS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/stats",
        id: "stats",
        summary: "Counts of pending, done, DEAD and archived events",
        success: Success::Json(schema::<wire::Stats>),
        handle: |request| Box::pin(read_handlers::stats(request)),
        ..FOR_VIEWERS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/backlog",
        id: "backlog",
        summary: "Pending events by type or by tenant, the largest groups first",
        query: &[
            Param::new("by", ParamKind::Choice(&["type", "tenant"]), "How to group; by type if left out"),
            Param::new("limit", ParamKind::Number(1, 1000, Some(20)), "The maximum number of groups"),
        ],
        success: Success::Json(schema::<wire::Backlog>),
        handle: |request| Box::pin(read_handlers::backlog(request)),
        ..FOR_VIEWERS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/events",
        id: "events",
        summary: "One page of the events that match, oldest first",
        query: &[STATUS, TYPE, AGGREGATE_TYPE, AGGREGATE_ID, TENANT, PARKED, ERROR, OLDER_THAN, AFTER, LIMIT],
        success: Success::Json(schema::<wire::Events>),
        handle: |request| Box::pin(read_handlers::events(request)),
        ..FOR_VIEWERS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/count",
        id: "count",
        summary: "How many events match",
        query: &[STATUS, TYPE, AGGREGATE_TYPE, AGGREGATE_ID, TENANT, PARKED, ERROR, OLDER_THAN],
        success: Success::Json(schema::<wire::Count>),
        handle: |request| Box::pin(read_handlers::count(request)),
        ..FOR_VIEWERS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/events/{id}",
        id: "event",
        summary: "One event; its headers and its payload for operators only",
        success: Success::Json(schema::<wire::Event>),
        handle: |request| Box::pin(read_handlers::event(request)),
        ..FOR_VIEWERS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/dead/groups",
        id: "dead_groups",
        summary: "DEAD events by type and reason, the largest groups first",
        query: &[Param::new("limit", ParamKind::Number(1, 1000, Some(10)), "The maximum number of groups")],
        success: Success::Json(schema::<wire::Groups>),
        handle: |request| Box::pin(read_handlers::dead_groups(request)),
        ..FOR_VIEWERS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/dead/replay",
        id: "replay",
        summary: "Send DEAD events out again",
        body: &[&[IDS, FORGET_PROGRESS], &[FILTER, BATCH_LIMIT, FORGET_PROGRESS]],
        success: Success::Json(schema::<wire::Changed>),
        handle: |request| Box::pin(change_handlers::replay(request)),
        ..FOR_OPERATORS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/dead/discard",
        id: "discard",
        summary: "Delete DEAD events",
        body: &[&[IDS], &[FILTER, BATCH_LIMIT]],
        success: Success::Json(schema::<wire::Changed>),
        handle: |request| Box::pin(change_handlers::discard(request)),
        ..FOR_OPERATORS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/purge",
        id: "purge",
        summary: "Delete old DONE, DEAD or archived events, or move them to the archive",
        body: &[
            &[
                Param::required("what", ParamKind::Choice(&["done", "dead"]), "Which events"),
                REQUIRED_OLDER_THAN,
                Param::new("archive", ParamKind::Flag, "Move them to the archive instead of deleting them"),
                BATCH_LIMIT,
            ],
            &[
                Param::required("what", ParamKind::Choice(&["archived"]), "Events in the archive"),
                ARCHIVED_OLDER_THAN,
                BATCH_LIMIT,
            ],
        ],
        success: Success::Json(schema::<wire::Changed>),
        handle: |request| Box::pin(change_handlers::purge(request)),
        ..FOR_OPERATORS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/routes/{route}/pause",
        id: "pause",
        summary: "Pause the deliveries of a route on every relay",
        success: Success::Json(schema::<wire::RouteChanged>),
        handle: |request| Box::pin(change_handlers::pause(request)),
        ..FOR_OPERATORS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/routes/{route}/resume",
        id: "resume",
        summary: "End the pause of a route",
        success: Success::Json(schema::<wire::RouteChanged>),
        handle: |request| Box::pin(change_handlers::resume(request)),
        ..FOR_OPERATORS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/audit",
        id: "audit",
        summary: "One page of the actions of operators, newest first",
        query: &[AFTER, LIMIT],
        success: Success::Json(schema::<wire::Audit>),
        handle: |request| Box::pin(read_handlers::audit(request)),
        ..FOR_VIEWERS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/findings",
        id: "findings",
        summary: "What looks wrong and what to do about it, the worst first",
        success: Success::Json(schema::<wire::Findings>),
        handle: |request| Box::pin(read_handlers::findings(request)),
        ..FOR_VIEWERS
    },
    Endpoint {
        path: "/api/v1/outboxes/{outbox}/tail",
        id: "tail",
        summary: "The deliveries of this relay as they happen, one JSON line each, until it stops",
        query: &[
            TYPE,
            AGGREGATE_TYPE,
            AGGREGATE_ID,
            TENANT,
            Param::new(
                "outcome",
                ParamKind::Choice(&["done", "retry", "deferred", "dead", "unreachable", "busy"]),
                "Only deliveries with this outcome",
            ),
        ],
        success: Success::Text("application/x-ndjson"),
        handle: |request| Box::pin(tail_handler::tail(request)),
        ..FOR_VIEWERS
    },
];

/// The schema of a document, as a reference to the shared definitions.
pub(super) fn schema<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Schema {
    schemas.subschema_for::<T>()
}

/// The router of all endpoints.
pub(super) fn router(state: Arc<ApiState>) -> Router {
    let fallback = state.clone();
    let router = serving(&state, |endpoint| endpoint.is_served(&state.api));
    finished(router.fallback(move |request| nothing_here(fallback, request)), state)
}

/// The router of `/health/…` alone, for connections that are accepted while all other slots are taken.
pub(super) fn probes(state: Arc<ApiState>) -> Router {
    let router = serving(&state, |endpoint| endpoint.path.starts_with("/health/")).fallback(no_slot);
    finished(router, state)
}

/// A router of the endpoints that satisfy this condition.
fn serving(state: &Arc<ApiState>, is_wanted: impl Fn(&Endpoint) -> bool) -> Router {
    let mut router = Router::new();
    for endpoint in ENDPOINTS.iter().filter(|endpoint| is_wanted(endpoint)) {
        let state = state.clone();
        let handler = move |request: Request| respond(state, endpoint, request);
        router = router.route(endpoint.path, on(endpoint.filter(), handler));
    }
    router
}

fn finished(router: Router, state: Arc<ApiState>) -> Router {
    router
        .method_not_allowed_fallback(move |request| no_such_method(state, request))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(axum::middleware::map_response(guarded))
}

async fn nothing_here(state: Arc<ApiState>, request: Request) -> Response {
    let error = ApiError::not_found("this path does not exist", "see /openapi.json for the paths");
    state.access.refuse(&request, error).into_response()
}

async fn no_slot() -> Response {
    let advice = "close some, or try again later";
    ApiError::unavailable("the relay has as many connections as it accepts", advice).into_response()
}

async fn no_such_method(state: Arc<ApiState>, request: Request) -> Response {
    let error = "this path does not accept this method";
    let error = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, error, "see the header Allow");
    state.access.refuse(&request, error).into_response()
}

/// The text of a panic may contain secrets, so no client gets it. The panic hook of the process logs it.
fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("a request to the admin listener panicked");
    ApiError::panicked().into_response()
}

async fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
