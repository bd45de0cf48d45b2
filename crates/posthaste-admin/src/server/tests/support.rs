//! Fixture: a router over one outbox, `orders`, and a client of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use posthaste::memory::RawRow;
use posthaste::{Admin, MemoryStore, Store};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::server::{AdminApi, ApiState, endpoints};
use crate::{AdminOutbox, Role, Token};

pub(super) const VIEWER_TOKEN: &str = "v-0123456789abcdef";
pub(super) const OPERATOR_TOKEN: &str = "o-0123456789abcdef";
pub(super) const ORDERS_PATH: &str = "/api/v1/outboxes/orders";

/// Text in payloads and headers, which must be in no response to a viewer.
pub(super) const PAYLOAD_SECRET: &str = "sEcret-payload";

pub(super) struct ApiFixture {
    pub(super) store: MemoryStore,
    pub(super) served: Arc<AdminOutbox>,
    pub(super) stop: CancellationToken,
    router: Router,
}

impl ApiFixture {
    /// With two tokens, of `ann` the viewer and `bob` the operator.
    pub(super) fn guarded() -> Self {
        Self::with_tokens(tokens())
    }

    /// Without tokens.
    pub(super) fn open() -> Self {
        Self::with_tokens(Vec::new())
    }

    fn with_tokens(tokens: Vec<Token>) -> Self {
        let store = MemoryStore::new();
        fill(&store, 3);
        let served = served();
        served.opened(Arc::new(store.clone()), Arc::new(store.clone()));
        let stop = CancellationToken::new();
        let router = router(api(served.clone(), tokens), &stop);
        Self { store, served, stop, router }
    }

    /// Without tokens, over any store.
    pub(super) fn over(admin: Arc<dyn Admin>, store: Arc<dyn Store>) -> Self {
        let served = served();
        served.opened(admin, store);
        Self::of(served)
    }

    /// Without tokens, over an outbox that may not be open.
    pub(super) fn of(served: Arc<AdminOutbox>) -> Self {
        let stop = CancellationToken::new();
        let router = router(api(served.clone(), Vec::new()), &stop);
        Self { store: MemoryStore::new(), served, stop, router }
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        Reply { status: parts.status, headers: parts.headers, text: String::from_utf8(bytes.into()).unwrap() }
    }

    /// The response with its body unread, because a tail does not end.
    pub(super) async fn open_stream(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(super) async fn get(&self, path: &str) -> Reply {
        self.send(request(Method::GET, path, Some(OPERATOR_TOKEN), None)).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(request(Method::POST, path, Some(OPERATOR_TOKEN), Some(body))).await
    }
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Reply {
    pub(super) fn json(&self) -> Value {
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/json", "{self:?}");
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// The document of an error response with this status.
    pub(super) fn refused(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        let json = self.json();
        let has = |name: &str| json[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(has("error") && has("advice") && json.as_object().unwrap().len() == 2, "{json}");
        json
    }

    /// The document of a successful response.
    pub(super) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }
}

pub(super) fn request(method: Method, path: &str, token: Option<&str>, body: Option<Value>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:9911");
    request = request.extension(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 50_000))));
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let Some(body) = body else { return request.body(Body::empty()).unwrap() };
    request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string())).unwrap()
}

pub(super) fn tokens() -> Vec<Token> {
    vec![Token::new("ann", Role::Viewer, VIEWER_TOKEN), Token::new("bob", Role::Operator, OPERATOR_TOKEN)]
}

fn router(api: AdminApi, stop: &CancellationToken) -> Router {
    endpoints::router(Arc::new(ApiState::new(api, stop.clone())))
}

pub(super) fn served() -> Arc<AdminOutbox> {
    Arc::new(AdminOutbox::new("orders", vec!["mail".to_owned(), "Order.*".to_owned(), "a/b".to_owned()]))
}

pub(super) fn api(served: Arc<AdminOutbox>, tokens: Vec<Token>) -> AdminApi {
    let api = AdminApi::new().outbox(served).metrics(|| "posthaste_test 1\n".to_owned());
    tokens.into_iter().fold(api, AdminApi::token)
}

/// Inserts this many rows of every status: `new-0`, `done-0`, `retry-0`, `dead-0`, …
pub(super) fn fill(store: &MemoryStore, each: usize) {
    for (status, name) in [(0, "new"), (1, "done"), (2, "retry"), (3, "dead")] {
        for n in 0..each {
            let mut row = RawRow::of_type(if n % 2 == 0 { "OrderPlaced" } else { "MailSent" })
                .with_id(format!("{name}-{n}"))
                .with_aggregate("Order", format!("o-{n}"))
                .with_payload(format!(r#"{{"key":"{PAYLOAD_SECRET}"}}"#))
                .with_headers(format!(r#"{{"region":"{PAYLOAD_SECRET}"}}"#))
                .with_status_code(status);
            row.tenant_id = (n % 3 == 0).then(|| "acme".to_owned());
            row.last_error = (status > 1).then(|| "refused by peer".to_owned());
            row.done_at = (status == 1 || status == 3).then(|| store.now() - Duration::from_secs(3600));
            store.insert_raw(row);
        }
    }
}
