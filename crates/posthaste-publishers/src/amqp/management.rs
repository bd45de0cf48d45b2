//! Client for RabbitMQ's management plugin: finds the queues that are bound to an exchange.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::{Client, StatusCode, Url, redirect};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::login::Login;

/// How many exchanges are followed. An exchange may be bound to other exchanges.
const MAX_EXCHANGES: usize = 16;
/// How many queues are looked up.
const MAX_QUEUES: usize = 50;
/// The largest response body that is read.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// The management plugin of one node or of a cluster.
pub(super) struct Management {
    client: Client,
    url: Url,
    login: Login,
}

/// A binding of an exchange to a queue or to another exchange.
#[derive(Deserialize)]
struct Binding {
    destination: String,
    destination_type: String,
}

/// The properties of a queue that decide whether it loses messages.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) durable: bool,
    /// `classic`, `quorum` or `stream`.
    #[serde(rename = "type")]
    pub(super) kind: String,
}

impl Management {
    /// Creates a client for this URL. A user and a password in the URL take precedence over those of the broker.
    pub(super) fn new(
        url: &str,
        login: &Login,
        tls: rustls::ClientConfig,
        timeout: Duration,
    ) -> Result<Self, String> {
        let wrong = "`management` is not a URL of the management plugin: write http://host:15672";
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

    /// Returns the queues that receive messages of this exchange, directly or through other exchanges.
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
        let unreachable = |error: reqwest::Error| {
            format!(
                "the management plugin is not reachable: check its host and port: {}",
                error.without_url()
            )
        };
        let response = request.send().await.map_err(unreachable)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err("the management plugin refuses this user: give it the tag management".to_owned());
            }
            status => return Err(format!("the management plugin responds with {status}: check its URL")),
        }
        let body = read(response).await.map_err(unreachable)?;
        serde_json::from_slice(&body)
            .map_err(|_| "the response of the management plugin cannot be read: check its URL".to_owned())
    }
}

/// Reads the body, up to about `MAX_RESPONSE_BYTES`.
async fn read(mut response: reqwest::Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await?.filter(|_| body.len() < MAX_RESPONSE_BYTES) {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
