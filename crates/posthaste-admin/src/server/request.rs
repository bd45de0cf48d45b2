//! Request as a handler gets it, and the responses that a handler returns.

use std::pin::Pin;
use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use posthaste::Admin;
use serde::Serialize;

use super::ApiState;
use super::access::Caller;
use super::admin_outbox::AdminOutbox;
use super::error::ApiError;
use super::params::Params;

pub(super) type ApiResult = Result<Response, ApiError>;

/// The future of a handler.
pub(super) type ApiFuture = Pin<Box<dyn Future<Output = ApiResult> + Send>>;

/// One request, admitted and checked.
#[derive(Debug)]
pub(super) struct ApiRequest {
    pub(super) state: Arc<ApiState>,
    /// The sender.
    pub(super) who: Caller,
    pub(super) path: Params,
    pub(super) query: Params,
    pub(super) body: Params,
}

impl ApiRequest {
    /// The outbox that the path names.
    pub(super) fn outbox(&self) -> Result<&AdminOutbox, ApiError> {
        let name = self.path.text("outbox").unwrap_or_default();
        let found = self.state.api.outboxes.iter().find(|outbox| outbox.name() == name);
        found.map(|outbox| &**outbox).ok_or_else(|| {
            ApiError::not_found("there is no outbox with this name", "see /api/v1/outboxes for their names")
        })
    }

    /// The store of the outbox that the path names.
    pub(super) fn admin(&self) -> Result<&dyn Admin, ApiError> {
        self.outbox()?.admin().ok_or_else(|| {
            let advice = "the relay keeps trying: its log has the reason";
            ApiError::unavailable("the store of this outbox could not be opened yet", advice)
        })
    }
}

/// A response with a JSON document.
pub(super) fn json(status: StatusCode, document: &impl Serialize) -> ApiResult {
    let text = serde_json::to_string(document).map_err(|_| ApiError::panicked())?;
    Ok((status, [(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// A successful response with a JSON document.
pub(super) fn ok(document: &impl Serialize) -> ApiResult {
    json(StatusCode::OK, document)
}
