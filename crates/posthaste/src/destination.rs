//! Destinations: where events are delivered, and the outcome of a delivery.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::BoxError;
use crate::event::Event;
use crate::trace::TraceContext;

/// Where events are delivered: a handler, a broker, a webhook.
///
/// # Contract
///
/// `deliver` gets at least one event and returns one [`Outcome`] per event, in the same order. [`Outcome::done`] means
/// that the destination has the event permanently: acknowledged, not only sent. Delivery is at least once, so the
/// receiver recognises repeats by [`Event::id`], which a publisher carries in a header or in the body. `deliver` may be
/// called from several tasks at the same time. Its future may be dropped at any await when the timeout of the route
/// ends, and a panic counts as a failed attempt.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a destination",
    note = "wrap an async function in `handler(…)`, build a publisher, or implement `Destination`"
)]
#[async_trait]
pub trait Destination: Send + Sync + 'static {
    /// Delivers a batch. Returns one outcome per event, in the order of the batch.
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome>;

    /// How the engine calls this destination unless its route says otherwise.
    fn profile(&self) -> Profile;
}

/// A shared destination.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<D: Destination + ?Sized> Destination for Arc<D> {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        (**self).deliver(batch).await
    }

    fn profile(&self) -> Profile {
        (**self).profile()
    }
}

/// How the engine calls a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// The most events per call. One for handlers.
    pub batch: usize,
    /// What a timeout means: a failed attempt for a handler, an unreachable destination for a publisher.
    pub on_timeout: OnTimeout,
}

impl Profile {
    /// One event at a time; a timeout is a failed attempt.
    pub const HANDLER: Self = Self { batch: 1, on_timeout: OnTimeout::Retry };

    /// Up to `batch` events at a time; a timeout means unreachable.
    pub const fn publisher(batch: usize) -> Self {
        Self { batch, on_timeout: OnTimeout::Unreachable }
    }
}

/// What a timeout of a destination means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnTimeout {
    /// The event failed: spends an attempt. The configuration's `handler_timeout` applies.
    Retry,
    /// The destination could not be reached: spends no attempt. The configuration's `publish_timeout` applies.
    Unreachable,
}

/// An event on its way to a destination. Derefs to the [`Event`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Delivery {
    /// The event.
    pub event: Event,
    /// The number of this attempt, counted by the store: 1, then 2 after one failure, …
    pub attempt: u32,
    /// How often the event was [deferred](Outcome::Defer) so far, counted by the store. A deferral is not an attempt,
    /// so a handler that waits for something has to give up by this count.
    ///
    /// ```
    /// use std::time::Duration;
    /// use posthaste::{Delivery, Outcome};
    ///
    /// async fn wait_for_payment(event: Delivery) -> Outcome {
    ///     match event.deferrals {
    ///         0..10 => Outcome::Defer(Duration::from_secs(60)),
    ///         _ => Outcome::Dead("not paid within ten minutes".to_owned()),
    ///     }
    /// }
    /// # let _ = wait_for_payment;
    /// ```
    pub deferrals: u32,
    /// How often an operator has replayed the event. Brokers that drop repeats need a new message id for each replay.
    pub replays: u32,
    /// Whether the event came straight from a commit or through the store.
    pub source: Source,
    /// The span of this delivery in the trace in which the event was written; `None` if it was written outside a trace.
    /// Destinations send this one on, not the one in the event's headers. With the feature `opentelemetry` it is the
    /// span `posthaste.deliver` of this call, if that is recorded.
    pub trace: Option<TraceContext>,
}

impl Delivery {
    /// The first attempt to deliver an event that comes through the store.
    pub fn first(event: Event) -> Self {
        let trace = TraceContext::of(&event).map(|written| written.next());
        Self { event, attempt: 1, deferrals: 0, replays: 0, source: Source::Cold, trace }
    }
}

impl Deref for Delivery {
    type Target = Event;
    fn deref(&self) -> &Event {
        &self.event
    }
}

/// Where an event came from. Exhaustive: from a commit, or from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Straight from a commit in this process.
    Hot,
    /// Claimed from the store by the poller.
    Cold,
}

/// The outcome of one delivery.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Delivered. [`Outcome::done`] makes it.
    #[non_exhaustive]
    Done {},
    /// Not yet: try again after this long. It spends no attempt, so only the handler can end it; the store counts it
    /// as a deferral. For a failure use [`Outcome::retry_after`], which spends an attempt.
    Defer(Duration),
    /// Failed: try again after the delay of the retry policy. Spends an attempt. [`Outcome::retry`] makes it from a
    /// text or any error.
    Failed(BoxError),
    /// Failed: try again after this delay. Spends an attempt. [`Outcome::retry_after`] makes it from a text or any
    /// error.
    FailedWithDelay(Duration, BoxError),
    /// Final failure: DEAD immediately, with this reason. Spends no attempt.
    Dead(String),
    /// The event can never be sent, and the destination was not called: DEAD immediately, with this reason. Unlike
    /// [`Dead`](Self::Dead) it says nothing about the destination.
    Unsendable(String),
    /// The destination could not be reached. May open the route's circuit breaker. Spends no attempt, unless the same
    /// event gets this outcome more than ten times while other events are delivered in between.
    Unreachable(Unreachable),
    /// The destination is overloaded: its queue is full or its rate limit is reached. Spends no attempt and slows the
    /// route down. Only time ends it: an event that had no other outcome for the configuration's `busy_grace` is DEAD.
    Busy(Busy),
}

impl Outcome {
    /// Delivered.
    pub fn done() -> Self {
        Self::Done {}
    }

    /// Whether the event was delivered.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// Failed with this text or error: try again after the delay of the retry policy. Spends an attempt.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self::Failed(error.into())
    }

    /// Failed with this text or error: try again after this delay. Spends an attempt.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self::FailedWithDelay(delay, error.into())
    }

    /// The connection was refused or broke: opens the route's circuit breaker immediately.
    pub fn no_connection(error: impl Into<BoxError>) -> Self {
        Self::Unreachable(Unreachable { error: error.into(), connection_failed: true })
    }

    /// The destination is overloaded and did not say for how long.
    pub fn busy(error: impl Into<BoxError>) -> Self {
        Self::busy_for(None, error)
    }

    /// The destination is overloaded and, if `retry_after` is given, asks for a pause of this length.
    pub fn busy_for(retry_after: impl Into<Option<Duration>>, error: impl Into<BoxError>) -> Self {
        Self::Busy(Busy { error: error.into(), retry_after: retry_after.into() })
    }

    /// Name in logs and on screens: `done`, `deferred`, `retry`, `dead`, `unreachable` or `busy`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done { .. } => "done",
            Self::Defer(_) => "deferred",
            Self::Failed(_) | Self::FailedWithDelay(..) => "retry",
            Self::Dead(_) | Self::Unsendable(_) => "dead",
            Self::Unreachable(_) => "unreachable",
            Self::Busy(_) => "busy",
        }
    }

    /// The destination did not reply: opens the route's circuit breaker when it happens to three events in a row.
    pub fn no_answer(error: impl Into<BoxError>) -> Self {
        Self::Unreachable(Unreachable { error: error.into(), connection_failed: false })
    }
}

/// How a destination said that it is overloaded.
#[derive(Debug)]
#[non_exhaustive]
pub struct Busy {
    /// What the destination said.
    pub error: BoxError,
    /// How long it asks for a pause; `None` if it did not say.
    pub retry_after: Option<Duration>,
}

/// Why a destination could not be reached.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unreachable {
    /// What went wrong.
    pub error: BoxError,
    /// Whether there was no connection at all, as opposed to no reply on one.
    pub connection_failed: bool,
}

/// Returned as a handler's error (`?` works): the event is DEAD immediately.
#[derive(Debug, thiserror::Error)]
#[error("unrecoverable: {0}")]
pub struct Unrecoverable(pub String);

/// Returned as a handler's error (`?` works): try again after this delay. Spends an attempt.
#[derive(Debug, thiserror::Error)]
#[error("{message} (retry after {delay:?})")]
#[non_exhaustive]
pub struct RetryAfter {
    /// How long to wait.
    pub delay: Duration,
    /// What went wrong.
    pub message: String,
    /// The cause, if there is one.
    #[source]
    pub source: Option<BoxError>,
}

impl RetryAfter {
    /// A failure without a cause.
    ///
    /// ```
    /// use std::time::Duration;
    /// use posthaste::{Delivery, HandlerResult, RetryAfter};
    ///
    /// async fn charge(_: Delivery) -> HandlerResult {
    ///     Err(RetryAfter::new(Duration::from_secs(30), "the bank is overloaded"))?
    /// }
    /// # let _ = charge;
    /// ```
    pub fn new(delay: Duration, message: impl Into<String>) -> Self {
        Self { delay, message: message.into(), source: None }
    }

    /// Adds the error that caused the failure.
    pub fn caused_by(self, source: impl Into<BoxError>) -> Self {
        Self { source: Some(source.into()), ..self }
    }
}

impl From<BoxError> for Outcome {
    fn from(error: BoxError) -> Self {
        let error = match error.downcast::<Unrecoverable>() {
            Ok(unrecoverable) => return Outcome::Dead(unrecoverable.0),
            Err(error) => error,
        };
        match error.downcast::<RetryAfter>() {
            Ok(retry) => Outcome::FailedWithDelay(retry.delay, retry),
            Err(error) => Outcome::Failed(error),
        }
    }
}

/// The return type of most handlers: `?` works on any error.
pub type HandlerResult = Result<(), BoxError>;

/// Types that a handler may return.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    note = "return `()`, an `Outcome`, or a `Result` of one of them, such as `HandlerResult`"
)]
pub trait IntoOutcome {
    /// The outcome that this value means.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::done()
    }
}

/// An error is a failed attempt. A [`RetryAfter`] is one too, and names its own delay. An [`Unrecoverable`] makes the
/// event DEAD immediately.
impl<T: IntoOutcome, E: Into<BoxError>> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => error.into().into(),
        }
    }
}

impl fmt::Debug for dyn Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Destination")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S3-110
    #[test]
    fn retry_after_keeps_its_delay_message_and_cause() {
        let delay = Duration::from_secs(40);
        let error = RetryAfter::new(delay, "slow down").caused_by("status 429");
        let Outcome::FailedWithDelay(waits, error) = Err::<(), _>(error).into_outcome() else {
            panic!("another outcome");
        };
        assert_eq!(waits, delay);
        assert!(error.to_string().contains("slow down"), "{error}");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("status 429"));
    }
}
