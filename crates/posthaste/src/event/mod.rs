//! The event: a service writes it, a store keeps it, and a destination receives it.
//!
//! An event is immutable, built once and serialised once: the same bytes are inserted, delivered on the hot path and
//! delivered on the cold path.

mod builder;
mod error;
mod id;
mod limits;
mod type_names;
mod typed;
mod validation;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use builder::EventBuilder;
pub use error::EventError;
pub use id::{EventId, IdPolicy};
pub use limits::Limits;
pub use type_names::{AggregateType, EventType, GLOBAL};
pub use typed::TypedEvent;

use crate::Timestamp;

/// Headers of an event: text to text, sorted by name.
pub type Headers = BTreeMap<String, String>;

/// Something that happened and that other systems must learn about.
///
/// Cheap to clone (one reference count). Its `Debug` shows neither the payload nor values of headers, so an event may
/// be logged.
///
/// ```
/// use posthaste::Event;
///
/// let event = Event::builder("OrderPlaced")
///     .aggregate("Order", "o-17")
///     .header("region", "eu")
///     .json(&serde_json::json!({ "total": 42 }))
///     .build()?;
/// assert_eq!(event.aggregate_id(), Some("o-17"));
/// assert_eq!(event.payload(), br#"{"total":42}"#.as_slice());
/// # Ok::<(), posthaste::EventError>(())
/// ```
#[derive(Clone)]
pub struct Event(Arc<EventParts>);

/// Every field of an [`Event`], for stores that read one from a row. Exhaustive, because a store that overlooked a new
/// field would lose it.
///
/// [`Event::from_parts`] does not check them: limits are checked when an event is written, and a row that another
/// program wrote is delivered if the destination accepts it.
#[derive(Clone)]
#[allow(missing_docs, reason = "each field is documented at the accessor of the same name")]
pub struct EventParts {
    pub id: EventId,
    pub event_type: Box<str>,
    pub aggregate_type: Box<str>,
    pub aggregate_id: Option<Box<str>>,
    pub tenant_id: Option<Box<str>>,
    pub topic: Option<Box<str>>,
    pub content_type: Option<Box<str>>,
    pub schema_version: Option<u32>,
    pub headers: Headers,
    pub payload: Bytes,
    pub occurred_at: Timestamp,
    pub available_at: Option<Timestamp>,
}

impl Event {
    /// Starts an event of the given type.
    pub fn builder(event_type: impl EventType) -> EventBuilder {
        EventBuilder::new(event_type.name())
    }

    /// An event of the given type with `payload` as JSON and every other field at its default.
    ///
    /// **A string becomes a JSON string**, with quotes and escapes: for text that is JSON already, use
    /// [`json_text`](Self::json_text).
    ///
    /// ```
    /// use posthaste::Event;
    /// let event = Event::json("UserCreated", &serde_json::json!({ "name": "Ada" }))?;
    /// assert_eq!(event.aggregate_type(), posthaste::GLOBAL);
    /// # Ok::<(), posthaste::EventError>(())
    /// ```
    pub fn json<T: Serialize + ?Sized>(event_type: impl EventType, payload: &T) -> Result<Event, EventError> {
        Event::builder(event_type).json(payload).build()
    }

    /// An event of the given type with text that is JSON already. It is kept byte for byte.
    ///
    /// ```
    /// use posthaste::Event;
    /// let event = Event::json_text("UserCreated", r#"{"name":"Ada"}"#)?;
    /// assert_eq!(&event.payload()[..], br#"{"name":"Ada"}"#);
    /// assert!(Event::json_text("UserCreated", "Ada").is_err(), "no JSON");
    /// # Ok::<(), posthaste::EventError>(())
    /// ```
    pub fn json_text(event_type: impl EventType, json: impl Into<String>) -> Result<Event, EventError> {
        Event::builder(event_type).json_text(json).build()
    }

    /// An event with a binary payload, which needs a content type such as `application/protobuf`.
    pub fn bytes(
        event_type: impl EventType,
        content_type: &str,
        payload: impl Into<Bytes>,
    ) -> Result<Event, EventError> {
        Event::builder(event_type).bytes(content_type, payload).build()
    }

    /// The event of a value whose type has `#[derive(Event)]`.
    pub fn of<T: TypedEvent>(payload: &T) -> Result<Event, EventError> {
        EventBuilder::of(payload).build()
    }

    /// An event with exactly these fields, unchecked. For stores that read a row.
    pub fn from_parts(parts: EventParts) -> Event {
        Event(Arc::new(parts))
    }

    /// Every field.
    pub fn parts(&self) -> &EventParts {
        &self.0
    }

    /// A copy of every field, for changing some of them in a [`WriterHook`](crate::WriterHook).
    pub fn to_parts(&self) -> EventParts {
        EventParts::clone(&self.0)
    }

    /// The id: a UUIDv7 unless the builder got another.
    pub fn id(&self) -> &EventId {
        &self.0.id
    }

    /// The type, at most 128 characters.
    pub fn event_type(&self) -> &str {
        &self.0.event_type
    }

    /// The aggregate's type, at most 64 characters; [`GLOBAL`] unless set.
    pub fn aggregate_type(&self) -> &str {
        &self.0.aggregate_type
    }

    /// The aggregate's id, at most 128 characters; `None` unless set.
    pub fn aggregate_id(&self) -> Option<&str> {
        self.0.aggregate_id.as_deref()
    }

    /// The tenant, at most 64 characters; `None` unless set. It is stored and passed on, but it does not filter or
    /// isolate anything.
    pub fn tenant_id(&self) -> Option<&str> {
        self.0.tenant_id.as_deref()
    }

    /// The target in a broker (a Kafka topic, a NATS subject) instead of the route's own; `None` unless set.
    pub fn topic(&self) -> Option<&str> {
        self.0.topic.as_deref()
    }

    /// The media type of a binary payload; `None` for JSON.
    pub fn content_type(&self) -> Option<&str> {
        self.0.content_type.as_deref()
    }

    /// The version of the payload's schema; `None` unless set.
    pub fn schema_version(&self) -> Option<u32> {
        self.0.schema_version
    }

    /// The headers; empty unless set.
    pub fn headers(&self) -> &Headers {
        &self.0.headers
    }

    /// The bytes of the payload, serialised once.
    pub fn payload(&self) -> &Bytes {
        &self.0.payload
    }

    /// Decodes a JSON payload.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T, EventError> {
        serde_json::from_slice(self.payload()).map_err(|source| EventError::Deserialize {
            id: self.id().clone(),
            event_type: self.event_type().to_owned(),
            source,
        })
    }

    /// When the event happened, by the producer's clock. The time of building unless set.
    pub fn occurred_at(&self) -> Timestamp {
        self.0.occurred_at
    }

    /// When it may be delivered first. `None` if it was due immediately, and in every delivery, where the wait is over.
    pub fn available_at(&self) -> Option<Timestamp> {
        self.0.available_at
    }

    /// How long its delivery is delayed from now, by this host's clock; `None` if it is due immediately. The store gets
    /// this delay and adds it to its own clock, so that a wrong clock of the producer does not delay the event.
    pub fn delay(&self) -> Option<Duration> {
        let delay = self.0.available_at?.since(Timestamp::now());
        (!delay.is_zero()).then_some(delay)
    }

    /// Whether it was made to be delayed: `available_at` is set and after `occurred_at`.
    pub fn is_delayed(&self) -> bool {
        self.0.available_at.is_some_and(|at| at > self.0.occurred_at)
    }

    /// The event as a destination gets it, without `available_at`.
    pub(crate) fn delivered(&self) -> Event {
        match self.0.available_at {
            None => self.clone(),
            Some(_) => Event::from_parts(EventParts { available_at: None, ..self.to_parts() }),
        }
    }

    /// The headers, for changes before the event is written.
    pub(crate) fn headers_mut(&mut self) -> &mut Headers {
        &mut Arc::make_mut(&mut self.0).headers
    }

    /// The bytes of its payload and headers.
    pub(crate) fn size(&self) -> usize {
        let headers: usize = self.0.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        headers + self.0.payload.len()
    }

    /// The memory that this event needs in a queue, in bytes.
    pub(crate) fn weight(&self) -> usize {
        const FIXED_BYTES: usize = 256;
        FIXED_BYTES + self.size()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Debug for EventParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("id", &self.id)
            .field("event_type", &self.event_type)
            .field("aggregate_type", &self.aggregate_type)
            .field("aggregate_id", &self.aggregate_id)
            .field("tenant_id", &self.tenant_id)
            .field("topic", &self.topic)
            .field("content_type", &self.content_type)
            .field("schema_version", &self.schema_version)
            .field("headers", &self.headers.keys())
            .field("payload", &format_args!("{} bytes", self.payload.len()))
            .field("occurred_at", &self.occurred_at)
            .field("available_at", &self.available_at)
            .finish()
    }
}
