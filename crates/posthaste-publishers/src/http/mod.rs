//! Webhooks: every event is a POST to one endpoint, signed as Standard Webhooks wants it.
//!
//! # Layout
//!
//! - `builder` has the settings, `endpoint` the URL.
//! - `address_filter` says which addresses may be reached.
//! - `check` connects and sends nothing.
//! - `headers` and `signature` make a request of an event.
//! - `outcome`, `retry_after` and `transport_error` make an outcome of the response, or of the lack of one.

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

/// How much of a response's body is read, and for how long. It is read to its end so that the connection can be
/// used again, and only the status counts.
const MAX_RESPONSE_BODY_BYTES: usize = 4_096;
const RESPONSE_BODY_TIMEOUT: Duration = Duration::from_millis(250);

/// Sends each event as a POST to one URL, and counts it as delivered when the answer is a 2xx.
///
/// All events go to the URL of the settings: [`Event::topic`](posthaste::Event::topic) is not looked at, so
/// that no row can lead a request elsewhere. Redirects are not followed, proxies of the environment are not
/// used, and addresses that are not public are refused unless
/// [`allow_networks`](HttpBuilder::allow_networks) names them.
///
/// Events of one aggregate id within a batch go one after another, all others at once, up to
/// [`concurrency`](HttpBuilder::concurrency).
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
    /// What the client has too, but uses for requests only.
    address_filter: AddressFilter,
    tls: Arc<rustls::ClientConfig>,
    connect_timeout: Duration,
    endpoint: Endpoint,
    /// What stands in every request.
    headers: HeaderMap,
    /// The current one first, then the one before it.
    keys: Vec<SigningKey>,
    common: CommonSettings,
    concurrency: usize,
    requests: Semaphore,
    /// When the endpoint was last seen to be there.
    last_answer: Mutex<Option<Instant>>,
}

/// A request that is not signed yet.
struct UnsignedRequest {
    /// The webhook's, which is signed with the rest.
    id: String,
    headers: HeaderMap,
    body: Bytes,
}

/// The deadlines of one call of `deliver`. Its end comes before the engine's timeout, which would take the outcomes of events
/// with it that were delivered.
struct CallDeadlines {
    began: Instant,
    /// No request is begun later, so that each has at least half of the time.
    last_start: Instant,
    end: Instant,
}

impl HttpPublisher {
    /// To this URL, with every setting at its default: no signature, [`Format::Raw`](crate::Format::Raw), 8 requests at once.
    pub fn from_url(url: &str) -> Result<Self, PublisherError> {
        Self::builder(url).build()
    }

    /// To this URL, which is `https://host/path?query`. The query is the endpoint's own: settings are made here
    /// and not there. A user and a password in it are sent by `Authorization: Basic`.
    pub fn builder(url: impl Into<String>) -> HttpBuilder {
        HttpBuilder::new(url.into())
    }

    /// Posts the events of one key one after another.
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
                "{} did not answer within {:?}",
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
        // Enough that none of the requests at once waits for the slowest of its batch.
        Profile::publisher(self.inner.concurrency.saturating_mul(2))
    }
}

impl Inner {
    /// Everything that can be wrong with an event is found here, before anything is sent.
    fn prepare(&self, delivery: &Delivery) -> Result<UnsignedRequest, Unsendable> {
        let message = self.common.format.message(delivery, "ce-");
        self.common.check_size(message.body.len())?;
        let mut headers = headers::for_request(&message, &self.headers)?;
        // Id, time and body are signed with dots between. With a dot in the id, the same signature would be good for
        // a shorter id, a time that stands in the id, and a body that begins there.
        let id = message_id(delivery, self.common.format, "").replace('.', "%2E");
        // An operator wants a replay to be taken again: a new key, which no receiver has seen.
        let key = headers::id_value(&with_replays(&id, delivery.replays))?;
        headers.insert(headers::WEBHOOK_ID, headers::id_value(&id)?);
        headers.insert(headers::IDEMPOTENCY_KEY, key);
        Ok(UnsignedRequest { id, headers, body: message.body })
    }

    /// Signed at the last moment: receivers refuse signatures that are minutes old.
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
            // The client leaves it out, and servers then ask for it.
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
        *self.last_answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let outcome =
            outcome::of_response(response.status(), response.headers(), &self.endpoint.shown, unix_seconds());
        let _ = timeout(RESPONSE_BODY_TIMEOUT, drain_body(response)).await;
        outcome
    }

    /// Too many others were before it. An endpoint that answers them is slow; one that does not is not there.
    fn not_sent(&self, deadlines: &CallDeadlines) -> Outcome {
        let last = *self.last_answer.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last >= deadlines.began) {
            return Outcome::Defer(Duration::ZERO);
        }
        Outcome::no_answer(format!(
            "not sent: {} answers none of {} requests before it",
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

/// The events of a batch by key, as their places in the batch: each sequence is posted one event after the other. An
/// event without a key is a sequence of its own.
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

const NO_ANSWER_BEFORE: &str = "not sent: an event of the same key before it got no answer";

/// An event whose forerunner comes again must not overtake it. One that was answered, even by a no, does not
/// hold up the others: how often it is tried is not for us to say.
fn held_up(before: &Outcome) -> Option<Outcome> {
    match before {
        Outcome::Defer(delay) => Some(Outcome::Defer(*delay)),
        // The receiver asks for less, and would only say it again.
        Outcome::Busy(busy) => Some(Outcome::busy_for(
            busy.retry_after,
            "not sent: the receiver put off an event of the same key before it",
        )),
        Outcome::Unreachable(why) if why.connection_failed => Some(Outcome::no_connection(NO_ANSWER_BEFORE)),
        Outcome::Unreachable(_) => Some(Outcome::no_answer(NO_ANSWER_BEFORE)),
        _ => None,
    }
}

/// Reads a body to its end if it is a short one. Others cost their connection.
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

/// Seconds since 1970.
fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Neither path nor query nor headers nor keys.
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
