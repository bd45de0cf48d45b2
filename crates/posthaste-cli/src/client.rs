//! A running relay, seen from outside: its HTTP API.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use axum::body::Bytes;
use reqwest::{Method, Request, Response, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::Usage;
use crate::redact::TypedUrl;
use crate::secret::Secret;

/// Whoever has not taken a connection by then does not listen.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A relay sends an empty line every 15 s to those who follow: three that are missing are no accident.
const READ_TIMEOUT: Duration = Duration::from_secs(45);

/// No relay sends a longer line, or a longer answer to anything but a tail.
pub(crate) const LONGEST: usize = 1024 * 1024;

/// Asks one relay.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: Url,
    token: Option<Secret>,
}

/// What the API says when it refuses.
#[derive(Deserialize)]
struct Refused {
    error: String,
    advice: String,
}

impl Client {
    /// Connects nowhere yet.
    pub(crate) fn new(url: &str, token: Option<Secret>) -> Result<Self, Usage> {
        let wrong = || {
            Usage::new("--relay must be the URL of a relay's admin listener, such as http://127.0.0.1:9911")
        };
        let url: Url = url.parse().map_err(|_| wrong())?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(wrong());
        }
        // Somebody else may have chosen one already: then it is theirs.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http =
            reqwest::Client::builder().no_proxy().connect_timeout(CONNECT_TIMEOUT).read_timeout(READ_TIMEOUT);
        let http =
            http.build().map_err(|error| Usage::new(format!("no HTTP client can be made: {error}")))?;
        Ok(Self { http, url, token })
    }

    /// Without what may be secret in it.
    pub(crate) fn url(&self) -> TypedUrl {
        TypedUrl::new(self.url.as_str())
    }

    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// An answer of the API that comes in parts.
    pub(crate) async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> anyhow::Result<Response> {
        self.send(self.request(Method::GET, &in_api(path), query)).await
    }

    /// A document of the API.
    pub(crate) async fn document<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> anyhow::Result<T> {
        read(whole(self.get(path, query).await?).await?)
    }

    /// The answer of the API to a change.
    pub(crate) async fn change<T: DeserializeOwned>(&self, path: &[&str], body: &Value) -> anyhow::Result<T> {
        let mut request = self.request(Method::POST, &in_api(path), &[]);
        let json = reqwest::header::HeaderValue::from_static("application/json");
        request.headers_mut().insert(reqwest::header::CONTENT_TYPE, json);
        *request.body_mut() = Some(body.to_string().into());
        read(whole(self.send(request).await?).await?)
    }

    /// The metrics, which need no token and are not a part of the API.
    pub(crate) async fn metrics(&self) -> anyhow::Result<String> {
        let answer = self.send(self.request(Method::GET, &["metrics"], &[])).await?;
        Ok(String::from_utf8_lossy(&whole(answer).await?).into_owned())
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

    async fn send(&self, request: Request) -> anyhow::Result<Response> {
        let request = reqwest::RequestBuilder::from_parts(self.http.clone(), request);
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.secret()),
            None => request,
        };
        let answer = request.send().await.map_err(reqwest::Error::without_url);
        let answer = answer.context("the relay cannot be reached: see that it runs, and where it listens")?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        match whole(answer).await.ok().and_then(|body| serde_json::from_slice::<Refused>(&body).ok()) {
            Some(Refused { error, advice }) => bail!("the relay refuses: {error}: {advice}"),
            None => bail!("this is no relay of Posthaste: it answers {status}"),
        }
    }
}

fn in_api<'a>(path: &[&'a str]) -> Vec<&'a str> {
    [&["api", "v1"], path].concat()
}

/// The next part of an answer.
pub(crate) async fn next_part(answer: &mut Response) -> anyhow::Result<Option<Bytes>> {
    answer.chunk().await.map_err(reqwest::Error::without_url).context("the relay is gone")
}

/// All of an answer that is no tail.
async fn whole(mut answer: Response) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(part) = next_part(&mut answer).await? {
        body.extend_from_slice(&part);
        ensure!(body.len() <= LONGEST, "this is no relay of Posthaste: its answer is longer than 1 MiB");
    }
    Ok(body)
}

fn read<T: DeserializeOwned>(body: Vec<u8>) -> anyhow::Result<T> {
    serde_json::from_slice(&body).context("this is no relay of Posthaste")
}

/// The token that is in this file, or else in the environment.
pub(crate) fn token(file: Option<&Path>) -> Result<Option<Secret>, Usage> {
    let Some(file) = file else { return Ok(std::env::var("POSTHASTE_TOKEN").ok().map(Secret::new)) };
    let text = std::fs::read_to_string(file)
        .map_err(|error| Usage::new(format!("--token-file {} cannot be read: {error}", file.display())))?;
    Ok(Some(Secret::new(text.trim())))
}
