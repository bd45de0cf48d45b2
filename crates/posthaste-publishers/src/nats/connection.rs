//! The NATS connection: sends messages, awaits acknowledgements, and tracks errors that the server reports.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{
    Context, ContextBuilder, GetStreamByNameErrorKind, PublishAckFuture, PublishError, PublishErrorKind,
    RequestErrorKind,
};
use async_nats::jetstream::response::Response;
use async_nats::{Client, ConnectError, ConnectErrorKind, Event, ServerError};
use bytes::Bytes;
use posthaste::Outcome;
use serde::de::IgnoredAny;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::message::NatsMessage;
use super::settings::Settings;
use crate::check_error::UNREACHABLE_ADVICE;
use crate::operator_text::one_line;
use crate::unsendable::Unsendable;

/// How long the connection to one server may take. Servers are tried one after the other.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a lookup may take that is not about a message, such as which stream stores a subject.
pub(super) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// The API subject that returns the streams that store a subject.
const STREAM_NAMES_SUBJECT: &str = "$JS.API.STREAM.NAMES";
/// The API subject that returns the JetStream account information.
const INFO_SUBJECT: &str = "$JS.API.INFO";
/// How many acknowledgements may be outstanding. Sending waits while there are more.
const MAX_ACKS_IN_FLIGHT: usize = 8_192;
/// How many denied subjects are counted. All counts are dropped when there are more.
const MAX_DENIED_SUBJECTS: usize = 1_000;

/// A connection that is used until it breaks. The client library could reconnect by itself, but would then keep
/// messages for later, leave pending acknowledgements unresolved, and send messages after their call has ended.
pub(super) struct Connection {
    client: Client,
    jetstream: Context,
    core: bool,
    server_list: String,
    timeout: Duration,
    /// Written by the client's event callback, read by every call.
    status: Arc<watch::Sender<ConnectionStatus>>,
}

/// The state of a connection, from the server's asynchronous error messages and from disconnects.
#[derive(Default)]
struct ConnectionStatus {
    /// Why the connection can no longer be used; `None` while it can. Never reset.
    broken: Option<String>,
    /// How often the server has denied publishing, by subject. A call compares the count before and after sending.
    denied: HashMap<String, u64>,
    /// The last error that concerns no subject. The server closes the connection next, and this is the reason.
    last_error: Option<String>,
}

/// The streams that store the subjects that had no responder, as far as one call has looked them up. Each subject is
/// looked up once. After a lookup has failed, no more subjects are looked up.
#[derive(Default)]
pub(super) struct StreamLookups {
    /// `None` for a subject that no stream stores.
    by_subject: HashMap<String, Option<String>>,
    /// Why a lookup failed.
    failure: Option<String>,
}

/// A message after it was handed to the client.
pub(super) enum SentMessage {
    /// It has an outcome already, for example because it could not be sent.
    Resolved(Outcome),
    /// It was sent, and its acknowledgement is outstanding.
    Waiting { subject: String, denied_before: u64, ack: PublishAckFuture },
    /// It was sent with core NATS, which acknowledges nothing.
    Unacknowledged { subject: String, denied_before: u64 },
}

impl Connection {
    /// Connects to the first server that accepts the connection. Tries every server once.
    pub(super) async fn open(settings: &Settings) -> Result<Self, String> {
        let status = Arc::new(watch::Sender::new(ConnectionStatus::default()));
        let noting = Arc::clone(&status);
        let options = settings.login.options()?;
        let client = options
            .name("posthaste")
            .tls_client_config(settings.tls.0.clone())
            .connection_timeout(CONNECT_TIMEOUT.min(settings.common.timeout))
            .reconnect_delay_callback(|_| Duration::ZERO)
            .max_reconnects(settings.servers.len())
            .ignore_discovered_servers()
            .event_callback(move |event| {
                noting.send_modify(|status| status.note(event));
                async {}
            })
            .connect(settings.servers.as_slice())
            .await
            .map_err(|error| connect_error(&error, settings))?;
        let jetstream = ContextBuilder::new()
            .timeout(settings.common.timeout)
            .ack_timeout(settings.common.timeout)
            .max_ack_inflight(MAX_ACKS_IN_FLIGHT)
            .backpressure_on_inflight(true)
            .build(client.clone());
        let (core, server_list, timeout) =
            (settings.core, settings.server_list.clone(), settings.common.timeout);
        Ok(Self { client, jetstream, core, server_list, timeout, status })
    }

    pub(super) fn is_good(&self) -> bool {
        self.status.borrow().broken.is_none()
    }

    pub(super) fn is_core(&self) -> bool {
        self.core
    }

    /// The version of the server.
    pub(super) fn version(&self) -> String {
        one_line(self.client.server_info().version)
    }

    pub(super) fn times_denied(&self, subject: &str) -> u64 {
        self.status.borrow().times_denied(subject)
    }

    /// Sends a request without a body. Returns `None` if there is no responder.
    pub(super) async fn request(&self, subject: &str) -> Option<Bytes> {
        let reply = self.client.request(subject.to_owned(), Bytes::new()).await;
        reply.ok().map(|message| message.payload)
    }

    /// Checks that JetStream replies. If the user may not request its status, the check succeeds: the server is
    /// reachable, and the user may still be allowed to publish.
    pub(super) async fn check(&self, deadline: Instant) -> Result<(), String> {
        if self.core {
            let flushed = timeout_at(deadline, self.client.flush()).await;
            return if matches!(flushed, Ok(Ok(()))) { Ok(()) } else { Err(self.no_reply_text()) };
        }
        let denied_before = self.status.borrow().times_denied(INFO_SUBJECT);
        tokio::select! {
            biased;
            result = self.check_jetstream() => result,
            failure = self.wait_for_failure(INFO_SUBJECT, denied_before) => match failure {
                Outcome::Unreachable(why) => Err(format!("{}: {UNREACHABLE_ADVICE}", why.error)),
                _ => Ok(()),
            },
            () = sleep_until(deadline) => Err(self.no_reply_text()),
        }
    }

    /// Requests the JetStream status. The reply is not parsed, because older servers omit fields that the library
    /// expects.
    async fn check_jetstream(&self) -> Result<(), String> {
        let server_list = &self.server_list;
        let error = match self.jetstream.request::<_, _, Response<IgnoredAny>>("INFO", b"").await {
            Ok(Response::Ok(_)) => return Ok(()),
            Ok(Response::Err { error }) => {
                return Err(format!(
                    "JetStream of NATS at {server_list} cannot be used: check the account of this user: {error}"
                ));
            }
            Err(error) => error,
        };
        Err(match error.kind() {
            RequestErrorKind::NoResponders => format!(
                "NATS at {server_list} has no JetStream: turn it on there, or do without acknowledgements with core=true"
            ),
            RequestErrorKind::TimedOut => self.no_reply_text(),
            _ => format!("JetStream of NATS at {server_list} does not reply: {UNREACHABLE_ADVICE}: {error}"),
        })
    }

    fn no_reply_text(&self) -> String {
        format!("NATS at {} did not reply within {:?}: {UNREACHABLE_ADVICE}", self.server_list, self.timeout)
    }

    /// Sends a message without waiting for its acknowledgement.
    pub(super) async fn send(&self, message: NatsMessage, deadline: Instant) -> SentMessage {
        let most = self.client.max_payload();
        if message.size > most {
            return SentMessage::Resolved(Unsendable::too_large(message.size, most).into());
        }
        if let Some(why) = &self.status.borrow().broken {
            return SentMessage::Resolved(Outcome::no_connection(why.clone()));
        }
        let NatsMessage { subject, headers, body, .. } = message;
        let denied_before = self.status.borrow().times_denied(&subject);
        let sent = async {
            if self.core {
                let sent = self.client.publish_with_headers(subject.clone(), headers, body).await;
                sent.map(|()| None).map_err(|error| error.to_string())
            } else {
                let sent = self.jetstream.publish_with_headers(subject.clone(), headers, body).await;
                sent.map(Some).map_err(|error| error.to_string())
            }
        };
        match timeout_at(deadline, sent).await {
            Ok(Ok(Some(ack))) => SentMessage::Waiting { subject, denied_before, ack },
            Ok(Ok(None)) => SentMessage::Unacknowledged { subject, denied_before },
            Ok(Err(error)) => SentMessage::Resolved(self.connection_lost(&error)),
            Err(_) => SentMessage::Resolved(self.no_answer()),
        }
    }

    /// Waits until all messages are written to the connection. Without acknowledgements this is all that can be
    /// known.
    pub(super) async fn flush(&self, sent: &mut [SentMessage], deadline: Instant) {
        let failed: fn(&Self, String) -> Outcome = match timeout_at(deadline, self.client.flush()).await {
            Ok(Ok(())) => return,
            Ok(Err(_)) => |connection, error| connection.connection_lost(&error),
            Err(_) => |connection, _| connection.no_answer(),
        };
        for sent in sent.iter_mut().filter(|sent| matches!(sent, SentMessage::Unacknowledged { .. })) {
            *sent = SentMessage::Resolved(failed(self, "it cannot be written to".to_owned()));
        }
    }

    /// Waits for the outcome of a message, until the deadline at the latest.
    pub(super) async fn outcome(
        &self,
        sent: SentMessage,
        lookups: &mut StreamLookups,
        deadline: Instant,
    ) -> Outcome {
        let (subject, denied_before, ack) = match sent {
            SentMessage::Resolved(outcome) => return outcome,
            SentMessage::Waiting { subject, denied_before, ack } => (subject, denied_before, ack),
            SentMessage::Unacknowledged { subject, denied_before } => {
                let status = self.status.borrow();
                return status.outcome(&subject, denied_before).unwrap_or(Outcome::done());
            }
        };
        tokio::select! {
            biased;
            result = ack.into_future() => match result {
                Ok(ack) => {
                    if ack.duplicate {
                        tracing::debug!(stream = ack.stream, subject, "the stream had this event already");
                    }
                    Outcome::done()
                }
                Err(error) if error.kind() == PublishErrorKind::StreamNotFound => {
                    self.no_responder_outcome(&subject, lookups, deadline).await
                }
                Err(error) => self.publish_error_outcome(&error, &subject, denied_before),
            },
            failure = self.wait_for_failure(&subject, denied_before) => failure,
            () = sleep_until(deadline) => self.no_answer(),
        }
    }

    /// Waits until the server denies the subject, or the connection breaks.
    pub(super) async fn wait_for_failure(&self, subject: &str, denied_before: u64) -> Outcome {
        let mut status = self.status.subscribe();
        let mut outcome = None;
        let seen = status.wait_for(|status| {
            outcome = status.outcome(subject, denied_before);
            outcome.is_some()
        });
        let _ = seen.await;
        outcome.unwrap_or_else(|| self.connection_lost("it was closed"))
    }

    fn publish_error_outcome(&self, error: &PublishError, subject: &str, denied_before: u64) -> Outcome {
        match error.kind() {
            PublishErrorKind::TimedOut => self.no_answer(),
            PublishErrorKind::BrokenPipe => {
                let status = self.status.borrow();
                let outcome = status.outcome(subject, denied_before);
                outcome.unwrap_or_else(|| self.connection_lost("it was closed"))
            }
            _ => {
                let source = std::error::Error::source(error);
                match source.and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>()) {
                    Some(error) => stream_error_outcome(error, subject),
                    None => Outcome::retry(one_line(format!("the reply of NATS cannot be read: {error}"))),
                }
            }
        }
    }

    /// The outcome of a message that had no responder. It counts as an attempt only if the server says that no
    /// stream stores the subject. A stream that is electing a leader does not respond either, nor does a cluster
    /// that has lost its majority; both recover by themselves.
    async fn no_responder_outcome(
        &self,
        subject: &str,
        lookups: &mut StreamLookups,
        deadline: Instant,
    ) -> Outcome {
        if lookups.failure.is_none() && !lookups.by_subject.contains_key(subject) {
            match self.stream_for(subject, deadline).await {
                Ok(stream) => drop(lookups.by_subject.insert(subject.to_owned(), stream)),
                Err(why) => lookups.failure = Some(why),
            }
        }
        match (lookups.by_subject.get(subject), &lookups.failure) {
            (Some(Some(stream)), _) => Outcome::no_answer(one_line(format!(
                "the stream {stream} stores the subject {subject}, but has no leader at the moment"
            ))),
            (Some(None), _) => Outcome::retry(one_line(format!(
                "no stream stores the subject {subject}: create one, or add it to the subjects of one"
            ))),
            (None, why) => Outcome::no_answer(one_line(format!(
                "the subject {subject} has no responder, and NATS does not say which stream stores it: {}",
                why.as_deref().unwrap_or("it was not looked up")
            ))),
        }
    }

    /// Returns the stream that stores the subject, `None` if no stream does, or the reason why the lookup
    /// failed.
    pub(super) async fn stream_for(
        &self,
        subject: &str,
        deadline: Instant,
    ) -> Result<Option<String>, String> {
        let denied_before = self.status.borrow().times_denied(STREAM_NAMES_SUBJECT);
        let deadline = deadline.min(Instant::now() + LOOKUP_TIMEOUT);
        tokio::select! {
            biased;
            result = self.jetstream.stream_by_subject(subject) => match result {
                Ok(stream) => Ok(Some(stream)),
                Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => Ok(None),
                Err(error) => Err(error.to_string()),
            },
            _ = self.wait_for_failure(STREAM_NAMES_SUBJECT, denied_before) => Err(format!("the user may not publish to {STREAM_NAMES_SUBJECT}")),
            () = sleep_until(deadline) => Err("it did not reply in time".to_owned()),
        }
    }

    fn connection_lost(&self, why: &str) -> Outcome {
        let said = self.status.borrow().broken.clone();
        let why = said.unwrap_or_else(|| format!("the connection to NATS broke: {why}"));
        Outcome::no_connection(one_line(why))
    }

    fn no_answer(&self) -> Outcome {
        Outcome::no_answer(format!("NATS at {} did not reply within {:?}", self.server_list, self.timeout))
    }
}

impl ConnectionStatus {
    fn note(&mut self, event: Event) {
        match event {
            Event::Disconnected | Event::Closed => {
                let why = self.last_error.take().unwrap_or_else(|| "it was closed".to_owned());
                self.broken.get_or_insert_with(|| one_line(format!("the connection to NATS broke: {why}")));
            }
            Event::ServerError(ServerError::Other(text)) => self.note_error(text),
            Event::ServerError(error) => self.last_error = Some(error.to_string()),
            _ => {}
        }
    }

    fn note_error(&mut self, text: String) {
        const PUBLISH: &str = "permissions violation for publish to ";
        const SUBSCRIBE: &str = "permissions violation for subscription to ";
        let begins =
            |with: &str| text.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
        if begins(PUBLISH) {
            let subject = text[PUBLISH.len()..].trim_matches('"').to_owned();
            if self.denied.len() >= MAX_DENIED_SUBJECTS {
                self.denied.clear();
            }
            *self.denied.entry(subject).or_default() += 1;
        } else if begins(SUBSCRIBE) {
            let why = "the user may not subscribe to _INBOX.>, where acknowledgements arrive: allow it";
            self.broken = Some(why.to_owned());
        } else {
            self.last_error = Some(text);
        }
    }

    fn times_denied(&self, subject: &str) -> u64 {
        self.denied.get(subject).copied().unwrap_or_default()
    }

    fn outcome(&self, subject: &str, denied_before: u64) -> Option<Outcome> {
        if self.times_denied(subject) > denied_before {
            let why = format!("the user may not publish to {subject}: allow it, or use another user");
            return Some(Outcome::retry(one_line(why)));
        }
        self.broken.as_ref().map(|why| Outcome::no_connection(why.clone()))
    }
}

fn stream_error_outcome(error: &async_nats::jetstream::Error, subject: &str) -> Outcome {
    let why = one_line(format!("NATS refuses a message for {subject}: {error}"));
    match error.error_code() {
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => {
            Outcome::Dead(format!("too large for the limit of the stream: {why}"))
        }
        // The account has reached its storage limit, or the stream is full until its consumers have caught up. The
        // server accepts other subjects in the meantime, so this does not count as an attempt.
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED => Outcome::busy(why),
        ErrorCode::STREAM_STORE_FAILED if is_stream_full(error) => Outcome::busy(why),
        // The server has no space or cannot write, or the stream has lost its servers: nothing can be stored at
        // all.
        ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::MEMORY_RESOURCES_EXCEEDED
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::STREAM_STORE_FAILED => Outcome::no_answer(why),
        _ if error.code() == 503 => Outcome::no_answer(why),
        _ => Outcome::retry(why),
    }
}

/// Whether a stream with `discard: new` has reached its limit. The server uses one code for all storage failures,
/// so only the text tells them apart.
fn is_stream_full(error: &async_nats::jetstream::Error) -> bool {
    const LIMITS: [&str; 3] =
        ["maximum messages exceeded", "maximum bytes exceeded", "maximum messages per subject exceeded"];
    let text = error.to_string();
    LIMITS.iter().any(|limit| text.contains(limit))
}

fn connect_error(error: &ConnectError, settings: &Settings) -> String {
    let server_list = &settings.server_list;
    one_line(match error.kind() {
        ConnectErrorKind::AuthorizationViolation => {
            format!("NATS at {server_list} refuses the login: check user, password, token or credentials")
        }
        ConnectErrorKind::Authentication => {
            format!(
                "the login to NATS at {server_list} failed: the nkey or the credentials cannot sign the server's challenge"
            )
        }
        ConnectErrorKind::TimedOut => {
            format!(
                "no connection to NATS at {server_list} within {:?}: {UNREACHABLE_ADVICE}",
                CONNECT_TIMEOUT.min(settings.common.timeout)
            )
        }
        _ => format!("no connection to NATS at {server_list}: {error}: {UNREACHABLE_ADVICE}"),
    })
}
