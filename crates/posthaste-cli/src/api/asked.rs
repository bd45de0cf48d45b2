//! A request that was taken apart and checked, and how it is answered.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use posthaste::Admin;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::Shared;
use super::access::Who;
use super::fields::Values;
use super::refusal::Refusal;
use super::routes::{self, Needs, Route};
use crate::relay::served::Served;

/// The largest body.
pub(super) const BODY_BYTES: usize = 1024 * 1024;

/// A request takes no longer, but for those that follow.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) type Answer = Result<Response, Refusal>;

/// What a handler of the table answers.
pub(super) type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// One request, as its handler sees it.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) shared: Arc<Shared>,
    pub(super) who: Who,
    pub(super) path: Values,
    pub(super) query: Values,
    pub(super) body: Values,
}

impl Asked {
    /// The outbox that the path names.
    pub(super) fn outbox(&self) -> Result<&Served, Refusal> {
        let name = self.path.text("outbox").unwrap_or_default();
        let found = self.shared.api.outboxes.iter().find(|served| served.name() == name);
        found.map(|served| &**served).ok_or_else(|| {
            Refusal::not_found("there is no outbox of this name", "see /api/v1/outboxes for their names")
        })
    }

    /// The operator's door of the outbox that the path names.
    pub(super) fn admin(&self) -> Result<&dyn Admin, Refusal> {
        self.outbox()?.admin().ok_or_else(|| {
            let advice = "the relay goes on trying: its log says what is wrong";
            Refusal::unavailable("the store of this outbox could not be opened yet", advice)
        })
    }
}

/// Answers a request by its route.
pub(super) async fn answer(shared: Arc<Shared>, route: &'static Route, request: Request) -> Response {
    match admitted(shared, route, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn admitted(shared: Arc<Shared>, route: &'static Route, request: Request) -> Answer {
    let who = shared.access.admit(route, request.uri(), request.headers())?;
    if route.needs == Needs::Nothing {
        return handled(read(shared, who, route, request).await?, route).await;
    }
    let busy =
        |_| Refusal::unavailable("the relay answers too many requests at once", "ask again in a second");
    let slow = |_| Refusal::unavailable("this took too long", "what was begun goes on; ask again");
    let (place, end) = (shared.requests.clone().try_acquire_owned().map_err(busy)?, Instant::now() + TIMEOUT);
    let asked = timeout_at(end, read(shared, who, route, request)).await.map_err(slow)??;
    // In a task of its own: a change that has begun is finished and put on record, also when whoever asked is gone.
    // It keeps its place so long, because a database goes on with a query that nobody waits for.
    let answering = tokio::spawn(async move {
        let _place = place;
        handled(asked, route).await
    });
    timeout_at(end, answering).await.map_err(slow)?.unwrap_or_else(|_| Err(Refusal::panicked()))
}

async fn handled(asked: Asked, route: &Route) -> Answer {
    let outbox = asked.path.owned("outbox").unwrap_or_default();
    let answer = (route.handle)(asked).await;
    answer.inspect_err(|refusal| refusal.log(&outbox, route.id))
}

async fn read(shared: Arc<Shared>, who: Who, route: &Route, request: Request) -> Result<Asked, Refusal> {
    let (mut parts, body) = request.into_parts();
    let path = path(&mut parts, route).await?;
    let query = query(&parts, route)?;
    let body = match route.body.is_empty() {
        true => Values::default(),
        false => Values::of_body(route.body, document(&parts.headers, body).await?).map_err(Refusal::bad)?,
    };
    Ok(Asked { shared, who, path, query, body })
}

async fn path(parts: &mut Parts, route: &Route) -> Result<Values, Refusal> {
    let raw = RawPathParams::from_request_parts(parts, &()).await;
    let raw = raw.map_err(|_| Refusal::bad("the path is not valid UTF-8"))?;
    let pairs = raw.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Values::of_pairs(routes::PATH, pairs)
        .map_err(|error| Refusal::bad(format!("{error} (in the path of {})", route.id)))
}

fn query(parts: &Parts, route: &Route) -> Result<Values, Refusal> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    let Query(pairs) = pairs.map_err(|_| Refusal::bad("the query cannot be read"))?;
    Values::of_pairs(route.query, pairs).map_err(Refusal::bad)
}

/// The body, which must say that it is JSON: a form of a foreign web page cannot.
async fn document(headers: &HeaderMap, body: Body) -> Result<Value, Refusal> {
    if !says_json(headers) {
        let advice = "send JSON with the header Content-Type: application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be JSON", advice));
    }
    let mut request = Request::new(body);
    DefaultBodyLimit::max(BODY_BYTES).apply(&mut request);
    let bytes = Bytes::from_request(request, &()).await.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let error = format!("the body is larger than {BODY_BYTES} bytes");
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error, "send less at once")
        }
        _ => Refusal::bad("the body cannot be read"),
    })?;
    // Its error names a place, and what it expected there; it repeats no value.
    serde_json::from_slice(&bytes).map_err(|error| Refusal::bad(format!("the body is no JSON: {error}")))
}

fn says_json(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}

/// A JSON document as the answer.
pub(super) fn json(status: StatusCode, document: &impl Serialize) -> Answer {
    let text = serde_json::to_string(document).map_err(|_| Refusal::panicked())?;
    Ok((status, [(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// The document that was asked for.
pub(super) fn ok(document: &impl Serialize) -> Answer {
    json(StatusCode::OK, document)
}
