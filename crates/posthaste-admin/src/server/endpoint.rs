//! What describes a route: its path, its parameters, who may use it, and what it answers.

use axum::http::Method;
use axum::routing::MethodFilter;
use schemars::{Schema, SchemaGenerator};

use super::AdminApi;
use super::access::RequiredRole;
use super::params::{MAX_ID_CHARS, Param, ParamKind};
use super::request::{ApiFuture, ApiRequest};

/// One route.
pub(super) struct Endpoint {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) required_role: RequiredRole,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: &'static [Param],
    /// The forms that a body may have; none if there is no body.
    pub(super) body: &'static [&'static [Param]],
    pub(super) success: Success,
    pub(super) handle: fn(ApiRequest) -> ApiFuture,
}

/// The body of a successful response.
#[derive(Clone, Copy)]
pub(super) enum Success {
    /// JSON of this schema.
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// JSON of this schema, also with 503 when an outbox is not ready.
    Ready(fn(&mut SchemaGenerator) -> Schema),
    /// Any JSON object.
    Object,
    /// Text of this media type.
    Text(&'static str),
}

/// Everything that stands in braces in a path.
pub(super) const PATH_PARAMS: &[Param] = &[
    Param::new("outbox", ParamKind::Text(255), "The name of an outbox"),
    Param::new("id", ParamKind::Text(MAX_ID_CHARS), "The id of an event"),
    Param::new("route", ParamKind::Text(255), "The name of a route"),
];

impl Endpoint {
    /// Whether this API has the route: `/metrics` is there only if it has something to show.
    pub(super) fn is_served(&self, api: &AdminApi) -> bool {
        self.id != "metrics" || api.metrics.is_some()
    }

    pub(super) fn filter(&self) -> MethodFilter {
        if self.method == Method::POST { MethodFilter::POST } else { MethodFilter::GET }
    }

    /// The parameters of its path.
    pub(super) fn path_params(&self) -> impl Iterator<Item = &'static Param> {
        PATH_PARAMS.iter().filter(|param| self.path.contains(&format!("{{{}}}", param.name)))
    }
}
