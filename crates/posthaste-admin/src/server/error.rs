//! Error responses: each says what is wrong and what to do.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use posthaste::StoreError;

use crate::{error_chain, wire};

/// An error response. It never contains the text of a driver's error, which may contain a secret.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) error: String,
    pub(super) advice: String,
    /// The error of the store, for the log only.
    cause: Option<StoreError>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, error: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status, error: error.into(), advice: advice.into(), cause: None }
    }

    /// The request breaks a rule of its endpoint.
    pub(super) fn bad(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, "see /openapi.json for what this path takes")
    }

    pub(super) fn not_found(error: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error, advice)
    }

    /// The request may succeed later.
    pub(super) fn unavailable(error: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error, advice)
    }

    pub(super) fn panicked() -> Self {
        let advice = "see the relay's log; trying again may help";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the relay failed to handle this request", advice)
    }
}

impl ApiError {
    /// Logs the error of the store, which the response leaves out.
    pub(super) fn log(&self, outbox: &str, operation: &str) {
        if let Some(cause) = &self.cause {
            log_failure(outbox, operation, cause);
        }
    }
}

/// Logs that the store failed during a request.
pub(super) fn log_failure(outbox: &str, operation: &str, error: &StoreError) {
    let error = error_chain(error);
    tracing::warn!(outbox, operation, error, "the store failed, and a request with it");
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if let StoreError::Unsupported { .. } = error {
            let advice = "no store of this kind can do it: leave it out";
            return Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string(), advice);
        }
        let advice = "check that the database is up and not busy, then try again";
        let response = Self::unavailable(error.to_string(), advice);
        Self { cause: Some(error), ..response }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let document = wire::Error { error: self.error, advice: self.advice };
        let mut response = match serde_json::to_string(&document) {
            Ok(text) => (self.status, [(header::CONTENT_TYPE, "application/json")], text).into_response(),
            Err(_) => self.status.into_response(),
        };
        let headers = response.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}
