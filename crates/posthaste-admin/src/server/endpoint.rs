//! Endpoint: the description of one path of the API, with its parameters, its required role and its response.

use axum::http::Method;
use axum::routing::MethodFilter;
use schemars::{Schema, SchemaGenerator};

use super::AdminApi;
use super::access::RequiredRole;
use super::params::{MAX_ID_CHARS, Param, ParamKind};
use super::request::{ApiFuture, ApiRequest};

/// One endpoint of the table in `endpoints`.
pub(super) struct Endpoint {
    /// GET or POST.
    pub(super) method: Method,
    /// The path, with the names of [`PATH_PARAMS`] in braces.
    pub(super) path: &'static str,
    pub(super) required_role: RequiredRole,
    /// The `operationId` in the OpenAPI document, and the name in log lines.
    pub(super) id: &'static str,
    /// The summary in the OpenAPI document and in `docs/admin-api.md`.
    pub(super) summary: &'static str,
    /// The parameters of the query.
    pub(super) query: &'static [Param],
    /// The forms that a body may have; empty if there is no body.
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

/// All parameters that a path can have in braces.
pub(super) const PATH_PARAMS: &[Param] = &[
    Param::new("outbox", ParamKind::Text(255), "The name of an outbox"),
    Param::new("id", ParamKind::Text(MAX_ID_CHARS), "The id of an event"),
    Param::new("route", ParamKind::Text(255), "The name of a route"),
];

impl Endpoint {
    /// Whether this API serves the endpoint. `/metrics` is served only if there is a function that renders it.
    pub(super) fn is_served(&self, api: &AdminApi) -> bool {
        self.id != "metrics" || api.metrics.is_some()
    }

    pub(super) fn filter(&self) -> MethodFilter {
        if self.method == Method::POST { MethodFilter::POST } else { MethodFilter::GET }
    }

    /// The parameters of the path.
    pub(super) fn path_params(&self) -> impl Iterator<Item = &'static Param> {
        PATH_PARAMS.iter().filter(|param| self.path.contains(&format!("{{{}}}", param.name)))
    }
}
