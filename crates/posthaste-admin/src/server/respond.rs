//! Reads and checks a request by its endpoint, and runs the handler within bounds of number, size and time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::ApiState;
use super::access::{Caller, RequiredRole};
use super::endpoint::{Endpoint, PATH_PARAMS};
use super::error::ApiError;
use super::params::Params;
use super::request::{ApiRequest, ApiResult};

/// The largest body of a request.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// The longest that a request may take. The stream of a tail is not bounded by it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Handles a request to this endpoint.
pub(super) async fn respond(state: Arc<ApiState>, endpoint: &'static Endpoint, request: Request) -> Response {
    match admit_and_handle(state, endpoint, request).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn admit_and_handle(state: Arc<ApiState>, endpoint: &'static Endpoint, request: Request) -> ApiResult {
    let who = state.access.admit(endpoint.required_role, &endpoint.method, &request)?;
    if endpoint.required_role == RequiredRole::Nothing {
        return handle(read(state, who, endpoint, request).await?, endpoint).await;
    }
    let busy = |_| {
        ApiError::unavailable("the relay has too many requests at the same time", "try again in a second")
    };
    let slow = |_| {
        ApiError::unavailable(
            "the request took too long",
            "a change that has begun goes on: see whether it was made before you try again",
        )
    };
    let (permit, end) =
        (state.requests.clone().try_acquire_owned().map_err(busy)?, Instant::now() + REQUEST_TIMEOUT);
    let request = timeout_at(end, read(state, who, endpoint, request)).await.map_err(slow)??;
    // In its own task, so that a change that has begun is finished and audited also when the client disconnects. The
    // task keeps its permit until then, because the database continues a query that the client no longer waits for.
    let handling = tokio::spawn(async move {
        let _permit = permit;
        handle(request, endpoint).await
    });
    timeout_at(end, handling).await.map_err(slow)?.unwrap_or_else(|_| Err(ApiError::panicked()))
}

async fn handle(request: ApiRequest, endpoint: &Endpoint) -> ApiResult {
    let outbox = request.path.text("outbox").unwrap_or_default().to_owned();
    let result = (endpoint.handle)(request).await;
    result.inspect_err(|error| error.log(&outbox, endpoint.id))
}

async fn read(
    state: Arc<ApiState>,
    who: Caller,
    endpoint: &Endpoint,
    request: Request,
) -> Result<ApiRequest, ApiError> {
    let (mut parts, body) = request.into_parts();
    let path = path(&mut parts, endpoint).await?;
    let query = query(&parts, endpoint)?;
    let body = match endpoint.body.is_empty() {
        true => Params::default(),
        false => {
            Params::of_body(endpoint.body, document(&parts.headers, body).await?).map_err(ApiError::bad)?
        }
    };
    Ok(ApiRequest { state, who, path, query, body })
}

async fn path(parts: &mut Parts, endpoint: &Endpoint) -> Result<Params, ApiError> {
    let raw = RawPathParams::from_request_parts(parts, &()).await;
    let raw = raw.map_err(|_| ApiError::bad("the path is not valid UTF-8"))?;
    // A service that mounts the router may have parameters of its own in the path before ours.
    let is_ours = |name: &str| PATH_PARAMS.iter().any(|param| param.name == name);
    let pairs = raw.iter().filter(|(name, _)| is_ours(name));
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Params::of_pairs(PATH_PARAMS, pairs)
        .map_err(|error| ApiError::bad(format!("{error} (in the path of {})", endpoint.id)))
}

fn query(parts: &Parts, endpoint: &Endpoint) -> Result<Params, ApiError> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    let Query(pairs) = pairs.map_err(|_| ApiError::bad("the query cannot be read"))?;
    Params::of_pairs(endpoint.query, pairs).map_err(ApiError::bad)
}

/// Reads the body. It must be declared as JSON, which a form on another site's web page cannot do.
async fn document(headers: &HeaderMap, body: Body) -> Result<Value, ApiError> {
    if !says_json(headers) {
        let advice = "send JSON with the header Content-Type: application/json";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be JSON", advice));
    }
    let mut request = Request::new(body);
    DefaultBodyLimit::max(MAX_BODY_BYTES).apply(&mut request);
    let bytes = Bytes::from_request(request, &()).await.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let error = format!("the body is larger than {MAX_BODY_BYTES} bytes");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, error, "send less per request")
        }
        _ => ApiError::bad("the body cannot be read"),
    })?;
    // The error of serde names the position and what was expected there, and repeats no value.
    serde_json::from_slice(&bytes).map_err(|error| ApiError::bad(format!("the body is not JSON: {error}")))
}

fn says_json(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}
