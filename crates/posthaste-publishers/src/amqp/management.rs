//! What the management plugin of RabbitMQ tells of the queues behind an exchange.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::{Client, StatusCode, Url, redirect};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::login::Login;

/// How many exchanges and queues are asked for. An exchange may be bound to others.
const MAX_EXCHANGES: usize = 16;
const MAX_QUEUES: usize = 50;
/// The largest answer that is read.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// The plugin of one node, or of a cluster.
pub(super) struct Management {
    client: Client,
    url: Url,
    login: Login,
}

/// Something that an exchange hands its messages to.
#[derive(Deserialize)]
struct Binding {
    destination: String,
    destination_type: String,
}

/// A queue, as far as it matters here.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) durable: bool,
    /// `classic`, `quorum` or `stream`.
    #[serde(rename = "type")]
    pub(super) kind: String,
}

impl Management {
    /// At this URL. A user and a password in it come before those of the broker.
    pub(super) fn new(
        url: &str,
        login: &Login,
        tls: rustls::ClientConfig,
        timeout: Duration,
    ) -> Result<Self, String> {
        let wrong = "`management` is no URL of the management plugin: write http://host:15672";
        let url: Url = url.parse().map_err(|_| wrong.to_owned())?;
        if !["http", "https"].contains(&url.scheme()) || url.cannot_be_a_base() {
            return Err(wrong.to_owned());
        }
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .tls_backend_preconfigured(tls)
            .timeout(timeout)
            .build()
            .map_err(|error| format!("the client cannot be set up: {}", error.without_url()))?;
        Ok(Self { client, url, login: login.clone() })
    }

    /// The queues that get messages of this exchange, through other exchanges too.
    pub(super) async fn queues(&self, vhost: &str, exchange: &str) -> Result<Vec<Queue>, String> {
        let (mut exchanges, mut at) = (VecDeque::from([exchange.to_owned()]), 0);
        let mut names: Vec<String> = Vec::new();
        while let Some(exchange) = exchanges.get(at).filter(|_| at < MAX_EXCHANGES).cloned() {
            at += 1;
            let path = ["api", "exchanges", vhost, &exchange, "bindings", "source"];
            for Binding { destination, destination_type } in self.get::<Vec<Binding>>(&path).await? {
                if destination_type == "queue" && !names.contains(&destination) {
                    names.push(destination);
                } else if destination_type == "exchange" && !exchanges.contains(&destination) {
                    exchanges.push_back(destination);
                }
            }
        }
        let mut queues = Vec::new();
        for name in names.iter().take(MAX_QUEUES) {
            queues.push(self.get(&["api", "queues", vhost, name]).await?);
        }
        Ok(queues)
    }

    async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, String> {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let mut request = self.client.get(url);
        if self.url.username().is_empty() {
            request = request.basic_auth(&self.login.user, Some(&self.login.password));
        }
        let silent = |error: reqwest::Error| {
            format!("the management plugin cannot be asked: check its host and port: {}", error.without_url())
        };
        let response = request.send().await.map_err(silent)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(
                    "the management plugin does not let this user in: give it the tag management".to_owned()
                );
            }
            status => return Err(format!("the management plugin answers {status}: check its URL")),
        }
        let body = read(response).await.map_err(silent)?;
        serde_json::from_slice(&body)
            .map_err(|_| "the management plugin answers what cannot be read: check its URL".to_owned())
    }
}

/// As much of a body as an answer can have.
async fn read(mut response: reqwest::Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await?.filter(|_| body.len() < MAX_RESPONSE_BYTES) {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
