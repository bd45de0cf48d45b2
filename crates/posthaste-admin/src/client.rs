//! Client of the HTTP API, for a running relay or any process that serves the router.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, Request, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Secret, wire};

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest wait for data. A tail sends an empty line every 15 s, so three missing lines mean a lost connection.
const READ_TIMEOUT: Duration = Duration::from_secs(45);

/// The largest document, and the longest line of a tail, that the client accepts.
pub const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;

/// A request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The URL is not an HTTP URL.
    #[error("--relay must be the URL of a relay's admin listener, such as http://127.0.0.1:9911")]
    InvalidUrl,

    /// The HTTP client cannot be created.
    #[error("the HTTP client cannot be created: {0}")]
    NoHttpClient(reqwest::Error),

    /// No connection could be made, or no response came in time.
    #[error("the relay cannot be reached: check that it runs, and where it listens")]
    Unreachable(#[source] reqwest::Error),

    /// The connection ended in the middle of a response.
    #[error("the connection to the relay is lost")]
    Disconnected(#[source] reqwest::Error),

    /// The API refused the request. Its response says what is wrong and what to do.
    #[error("the relay refuses: {}: {}", .0.error, .0.advice)]
    Refused(wire::Error),

    /// The response is an HTTP error that is not one of the API, so another program listens there.
    #[error("this is not a Posthaste relay: it replies {0}")]
    NotARelay(StatusCode),

    /// The response is larger than [`MAX_DOCUMENT_BYTES`], so another program listens there.
    #[error("this is not a Posthaste relay: its reply is longer than 1 MiB")]
    TooLong,

    /// The response is not the expected document: another program listens there, or a relay of another release.
    #[error("this is not a Posthaste relay")]
    Unreadable(#[from] serde_json::Error),
}

/// A client of one process that serves the API.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    url: Url,
    token: Option<Secret>,
}

impl Client {
    /// Creates a client for the API at this URL. It connects with the first request.
    ///
    /// # Errors
    ///
    /// The URL is not an HTTP URL, or the HTTP client cannot be created.
    pub fn new(url: &str, token: Option<Secret>) -> Result<Self, ClientError> {
        let url: Url = url.parse().map_err(|_| ClientError::InvalidUrl)?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(ClientError::InvalidUrl);
        }
        // Fails if the program has installed a provider already; then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http =
            reqwest::Client::builder().no_proxy().connect_timeout(CONNECT_TIMEOUT).read_timeout(READ_TIMEOUT);
        Ok(Self { http: http.build().map_err(ClientError::NoHttpClient)?, url, token })
    }

    /// The URL of the API. It may contain a password.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Whether requests carry a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Reads a document of the API. The path is below `/api/v1`, in parts, such as `["outboxes", "shop", "stats"]`.
    ///
    /// # Errors
    ///
    /// The process cannot be reached, refuses the request, or is not a relay.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        let response = self.send(self.request(Method::GET, &in_api(path), query)).await?;
        Ok(serde_json::from_slice(&whole(response).await?)?)
    }

    /// Posts a change and reads its result. The path is as in [`get`](Self::get).
    ///
    /// # Errors
    ///
    /// The process cannot be reached, refuses the request, or is not a relay.
    pub async fn post<T: DeserializeOwned>(&self, path: &[&str], body: &Value) -> Result<T, ClientError> {
        let mut request = self.request(Method::POST, &in_api(path), &[]);
        let json = reqwest::header::HeaderValue::from_static("application/json");
        request.headers_mut().insert(reqwest::header::CONTENT_TYPE, json);
        *request.body_mut() = Some(body.to_string().into());
        Ok(serde_json::from_slice(&whole(self.send(request).await?).await?)?)
    }

    /// Follows the deliveries of an outbox.
    ///
    /// # Errors
    ///
    /// The process cannot be reached, refuses the request, or is not a relay.
    pub async fn tail(&self, outbox: &str, query: &[(&str, &str)]) -> Result<TailStream, ClientError> {
        let path = in_api(&["outboxes", outbox, "tail"]);
        Ok(TailStream(self.send(self.request(Method::GET, &path, query)).await?))
    }

    /// Reads `/metrics`, which needs no token and is not a part of the API.
    ///
    /// # Errors
    ///
    /// The process cannot be reached, has no metrics, or is not a relay.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let response = self.send(self.request(Method::GET, &["metrics"], &[])).await?;
        Ok(String::from_utf8_lossy(&whole(response).await?).into_owned())
    }

    fn request(&self, method: Method, path: &[&str], query: &[(&str, &str)]) -> Request {
        let mut url = self.url.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Request::new(method, url)
    }

    async fn send(&self, request: Request) -> Result<Response, ClientError> {
        let request = reqwest::RequestBuilder::from_parts(self.http.clone(), request);
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        };
        let response = request.send().await.map_err(|error| ClientError::Unreachable(error.without_url()))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = whole(response).await.ok();
        let refused = body.and_then(|body| serde_json::from_slice(&body).ok());
        Err(refused.map_or(ClientError::NotARelay(status), ClientError::Refused))
    }
}

/// The deliveries of an outbox as they happen: a stream of bytes. A chunk may end in the middle of a line.
#[derive(Debug)]
pub struct TailStream(Response);

impl TailStream {
    /// The next bytes; `None` when the process stops.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        next_chunk(&mut self.0).await
    }
}

fn in_api<'a>(path: &[&'a str]) -> Vec<&'a str> {
    [&["api", "v1"], path].concat()
}

async fn next_chunk(response: &mut Response) -> Result<Option<Bytes>, ClientError> {
    response.chunk().await.map_err(|error| ClientError::Disconnected(error.without_url()))
}

/// Reads the whole body, up to [`MAX_DOCUMENT_BYTES`].
async fn whole(mut response: Response) -> Result<Vec<u8>, ClientError> {
    let mut body = Vec::new();
    while let Some(chunk) = next_chunk(&mut response).await? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_DOCUMENT_BYTES {
            return Err(ClientError::TooLong);
        }
    }
    Ok(body)
}
