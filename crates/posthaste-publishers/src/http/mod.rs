//! Webhook destination: each event is a POST to one endpoint, signed as specified by Standard Webhooks.
//!
//! - `builder` reads and checks the settings, `endpoint` the URL.
//! - `address_filter` restricts the addresses that requests may go to.
//! - `check` connects without sending a request.
//! - `headers` and `signature` turn an event into a request.
//! - `outcome`, `retry_after` and `transport_error` turn the response, or its absence, into an outcome.

mod address_filter;
mod builder;
mod check;
mod endpoint;
mod headers;
mod outcome;
mod retry_after;
mod signature;
#[cfg(test)]
mod tests;
mod transport_error;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, HeaderValue, Method, header};
use posthaste::{Delivery, Destination, Outcome, Profile};
use reqwest::{Client, Request, Response};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use address_filter::AddressFilter;
pub use builder::HttpBuilder;
use endpoint::Endpoint;
use signature::SigningKey;

use crate::error::PublisherError;
use crate::message_id::{message_id, with_replays};
use crate::settings::CommonSettings;
use crate::unsendable::Unsendable;

const NAME: &str = "HTTP";

/// How much of a response body is read. The body is read so that the connection can be reused; only the status is
/// used.
const MAX_RESPONSE_BODY_BYTES: usize = 4_096;
/// How long the body is read. A connection whose body takes longer is closed.
const RESPONSE_BODY_TIMEOUT: Duration = Duration::from_millis(250);

/// Sends each event as a POST to one URL. An event is delivered when the response is a 2xx.
///
/// All events go to the configured URL: [`Event::topic`](posthaste::Event::topic) is ignored, so that no row can
/// direct a request elsewhere. Redirects are not followed, the proxies of the environment are not used, and
/// addresses that are not public are refused unless [`allow_networks`](HttpBuilder::allow_networks) lists them.
///
/// Events with the same aggregate id are sent one after another within a batch. All others are sent concurrently,
/// up to [`concurrency`](HttpBuilder::concurrency).
///
/// Clones share the client and its connections.
///
/// ```
/// use posthaste_publishers::http::HttpPublisher;
///
/// let hooks = HttpPublisher::builder("https://example.com/hooks?tenant=7")
///     .signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
///     .concurrency(16)
///     .build()?;
/// # let _ = hooks;
/// # Ok::<(), posthaste_publishers::PublisherError>(())
/// ```
#[derive(Clone)]
pub struct HttpPublisher {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    /// The same filter and TLS settings as the client's, for `check`: the client can only send requests.
    address_filter: AddressFilter,
    tls: Arc<rustls::ClientConfig>,
    connect_timeout: Duration,
    endpoint: Endpoint,
    /// The headers of every request.
    headers: HeaderMap,
    /// The current signing key first, then the previous one. Empty without signatures.
    keys: Vec<SigningKey>,
    common: CommonSettings,
    concurrency: usize,
    /// One permit per concurrent request, shared by all calls.
    requests: Semaphore,
    /// When the last response arrived, from any request. `None` before the first.
    last_response: Mutex<Option<Instant>>,
}

/// A request that is not signed yet.
struct UnsignedRequest {
    /// The value of `webhook-id`, which is part of the signed content.
    id: String,
    headers: HeaderMap,
    body: Bytes,
}

/// The deadlines of one call of `deliver`. The call ends before the route's timeout: when the route ends a call,
/// the outcomes of events that were delivered are lost.
struct CallDeadlines {
    began: Instant,
    /// No request starts later, so that each has at least half of the timeout.
    last_start: Instant,
    end: Instant,
}

impl HttpPublisher {
    /// Builds a publisher for this URL with default settings: no signature, [`Format::Raw`](crate::Format::Raw), 8
    /// concurrent requests.
    pub fn from_url(url: &str) -> Result<Self, PublisherError> {
        Self::builder(url).build()
    }

    /// Starts a builder for this URL: `https://host/path?query`. The query belongs to the endpoint and is no place
    /// for settings. User and password of the URL are sent as `Authorization: Basic`.
    pub fn builder(url: impl Into<String>) -> HttpBuilder {
        HttpBuilder::new(url.into())
    }

    /// Sends the events of one key one after another.
    async fn send_sequence(
        &self,
        sequence: Vec<usize>,
        batch: &[Delivery],
        deadlines: &CallDeadlines,
    ) -> Vec<(usize, Outcome)> {
        let mut outcomes: Vec<(usize, Outcome)> = Vec::with_capacity(sequence.len());
        for index in sequence {
            let outcome = match outcomes.last().and_then(|(_, before)| held_up(before)) {
                Some(outcome) => outcome,
                None => self.send(&batch[index], deadlines).await,
            };
            outcomes.push((index, outcome));
        }
        outcomes
    }

    async fn send(&self, delivery: &Delivery, deadlines: &CallDeadlines) -> Outcome {
        let unsigned = match self.inner.prepare(delivery) {
            Ok(unsigned) => unsigned,
            Err(unsendable) => return unsendable.into(),
        };
        let Ok(Ok(_permit)) = timeout_at(deadlines.last_start, self.inner.requests.acquire()).await else {
            return self.inner.not_sent(deadlines);
        };
        let request = self.inner.request(unsigned);
        match timeout_at(deadlines.end, self.inner.exchange(request)).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::no_answer(format!(
                "{} did not respond within {:?}",
                self.inner.endpoint.shown, self.inner.common.timeout
            )),
        }
    }
}

#[async_trait]
impl Destination for HttpPublisher {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let deadlines = CallDeadlines::begin(self.inner.common.timeout);
        let mut sending: FuturesUnordered<_> = sequences(batch)
            .into_iter()
            .map(|sequence| self.send_sequence(sequence, batch, &deadlines))
            .collect();
        let mut outcomes = Vec::with_capacity(batch.len());
        while let Some(of_sequence) = sending.next().await {
            outcomes.extend(of_sequence);
        }
        outcomes.sort_unstable_by_key(|(index, _)| *index);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn profile(&self) -> Profile {
        // Two rounds of requests, so that no permit is idle while the slowest request of a batch runs.
        Profile::publisher(self.inner.concurrency.saturating_mul(2))
    }
}

impl Inner {
    /// Converts an event into a request, or refuses it, before anything is sent.
    fn prepare(&self, delivery: &Delivery) -> Result<UnsignedRequest, Unsendable> {
        let message = self.common.format.message(delivery, "ce-");
        self.common.check_size(message.body.len())?;
        let mut headers = headers::for_request(&message, &self.headers)?;
        // Id, timestamp and body are signed with dots between them. If the id contained a dot, the same signature
        // would be valid for a shorter id, with a timestamp taken from the id and a body that begins there.
        let id = message_id(delivery, self.common.format, "").replace('.', "%2E");
        // An operator who replays an event wants it to be processed again: the key is one that no receiver has
        // seen.
        let key = headers::id_value(&with_replays(&id, delivery.replays))?;
        headers.insert(headers::WEBHOOK_ID, headers::id_value(&id)?);
        headers.insert(headers::IDEMPOTENCY_KEY, key);
        Ok(UnsignedRequest { id, headers, body: message.body })
    }

    /// Signs a request. Called immediately before it is sent, because receivers refuse signatures that are minutes
    /// old.
    fn request(&self, unsigned: UnsignedRequest) -> Request {
        let UnsignedRequest { id, mut headers, body } = unsigned;
        let timestamp = unix_seconds();
        headers.insert(headers::WEBHOOK_TIMESTAMP, HeaderValue::from(timestamp));
        let sign = |key: &SigningKey| key.sign(&id, timestamp, &body);
        let signatures: Vec<String> = self.keys.iter().map(sign).collect();
        if let (false, Ok(value)) = (signatures.is_empty(), HeaderValue::from_str(&signatures.join(" "))) {
            headers.insert(headers::WEBHOOK_SIGNATURE, value);
        }
        if body.is_empty() {
            // The client omits the length of an empty body, and some servers require it.
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let mut request = Request::new(Method::POST, self.endpoint.url.clone());
        *request.headers_mut() = headers;
        *request.body_mut() = Some(body.into());
        request
    }

    async fn exchange(&self, request: Request) -> Outcome {
        let response = match self.client.execute(request).await {
            Ok(response) => response,
            Err(error) => return transport_error::outcome_of(error, &self.endpoint.shown),
        };
        *self.last_response.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let outcome =
            outcome::of_response(response.status(), response.headers(), &self.endpoint.shown, unix_seconds());
        let _ = timeout(RESPONSE_BODY_TIMEOUT, drain_body(response)).await;
        outcome
    }

    /// The outcome of an event that got no permit in time. If the endpoint has responded to other requests of this
    /// call it is slow, and the event is deferred. Otherwise it is unreachable.
    fn not_sent(&self, deadlines: &CallDeadlines) -> Outcome {
        let last = *self.last_response.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last >= deadlines.began) {
            return Outcome::Defer(Duration::ZERO);
        }
        Outcome::no_answer(format!(
            "not sent: {} responded to none of the {} requests before it",
            self.endpoint.shown, self.concurrency
        ))
    }
}

impl CallDeadlines {
    fn begin(timeout: Duration) -> Self {
        let began = Instant::now();
        Self { began, last_start: began + timeout / 2, end: began + timeout }
    }
}

/// Groups the events of a batch by aggregate id. Each group holds indexes into the batch and is sent one event
/// after another. An event without an aggregate id is a group of its own.
fn sequences(batch: &[Delivery]) -> Vec<Vec<usize>> {
    let mut sequences: Vec<Vec<usize>> = Vec::with_capacity(batch.len());
    let mut of_key: HashMap<&str, usize> = HashMap::new();
    for (index, delivery) in batch.iter().enumerate() {
        let sequence = match delivery.aggregate_id() {
            Some(key) => *of_key.entry(key).or_insert(sequences.len()),
            None => sequences.len(),
        };
        match sequences.get_mut(sequence) {
            Some(sequence) => sequence.push(index),
            None => sequences.push(vec![index]),
        }
    }
    sequences
}

const NO_ANSWER_BEFORE: &str = "not sent: an earlier event with the same key got no response";

/// The outcome of an event whose predecessor with the same key was not delivered, if it must not overtake it. A
/// predecessor that got a response, even a refusal, holds nothing up: the engine decides about retries and order.
fn held_up(before: &Outcome) -> Option<Outcome> {
    match before {
        Outcome::Defer(delay) => Some(Outcome::Defer(*delay)),
        // The receiver asked for fewer requests, and would refuse this one as well.
        Outcome::Busy(busy) => Some(Outcome::busy_for(
            busy.retry_after,
            "not sent: the receiver postponed an earlier event with the same key",
        )),
        Outcome::Unreachable(why) if why.connection_failed => Some(Outcome::no_connection(NO_ANSWER_BEFORE)),
        Outcome::Unreachable(_) => Some(Outcome::no_answer(NO_ANSWER_BEFORE)),
        _ => None,
    }
}

/// Reads a short body to its end. After a longer one the connection cannot be reused.
async fn drain_body(mut response: Response) {
    let mut left = MAX_RESPONSE_BODY_BYTES;
    while let Ok(Some(chunk)) = response.chunk().await {
        match left.checked_sub(chunk.len()) {
            Some(less) => left = less,
            None => return,
        }
    }
}

/// An error about a setting.
fn wrong(problem: impl Into<String>) -> PublisherError {
    PublisherError::new(NAME, problem)
}

/// The current Unix time in seconds.
fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Leaves out path, query, headers and keys: each may be a secret.
impl fmt::Debug for HttpPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpPublisher")
            .field("endpoint", &self.inner.endpoint.shown)
            .field("signing_keys", &self.inner.keys.len())
            .field("common", &self.inner.common)
            .field("concurrency", &self.inner.concurrency)
            .finish_non_exhaustive()
    }
}
