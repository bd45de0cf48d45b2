//! The builder of an event. Checks every rule at the end.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::{
    AggregateType, Event, EventError, EventId, EventParts, GLOBAL, Headers, IdPolicy, Limits, TypedEvent,
};
use crate::Timestamp;

/// Builds an [`Event`]. [`Event::builder`] makes it. `build` returns the first rule that the event breaks.
///
/// Its `Debug` shows neither payload nor header values, like the event's own.
#[must_use = "an event exists only after `build`"]
pub struct EventBuilder {
    id: Option<EventId>,
    ids: IdPolicy,
    event_type: Box<str>,
    aggregate_type: Box<str>,
    aggregate_id: Option<Box<str>>,
    tenant_id: Option<Box<str>>,
    topic: Option<Box<str>>,
    content_type: Option<Box<str>>,
    schema_version: Option<u32>,
    headers: Headers,
    payload: Option<Result<Bytes, PayloadError>>,
    two_payloads: bool,
    occurred_at: Option<Timestamp>,
    available_at: Option<Timestamp>,
    deliver_after: Option<Duration>,
    limits: Limits,
}

enum PayloadError {
    Serialize(serde_json::Error),
    NotJson(serde_json::Error),
}

impl EventBuilder {
    pub(super) fn new(event_type: &str) -> Self {
        Self {
            id: None,
            ids: IdPolicy::default(),
            event_type: event_type.into(),
            aggregate_type: GLOBAL.into(),
            aggregate_id: None,
            tenant_id: None,
            topic: None,
            content_type: None,
            schema_version: None,
            headers: Headers::new(),
            payload: None,
            two_payloads: false,
            occurred_at: None,
            available_at: None,
            deliver_after: None,
            limits: Limits::default(),
        }
    }

    /// Starts from a value of a type with `#[derive(Event)]`, to add headers or a delay.
    pub fn of<T: TypedEvent>(payload: &T) -> Self {
        let mut builder = Self::new(T::TYPE).json(payload);
        builder.aggregate_type = T::AGGREGATE.into();
        builder.aggregate_id = payload.aggregate_id().map(Into::into);
        builder.tenant_id = payload.tenant_id().map(Into::into);
        builder.topic = T::TOPIC.map(Into::into);
        builder.schema_version = T::SCHEMA_VERSION;
        builder
    }

    /// Sets the id instead of a generated one: 1 to 36 visible ASCII characters. Writing an id again has no effect
    /// while its row is kept.
    pub fn id(mut self, id: impl Into<EventId>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets how the id is generated. Default: UUIDv7.
    pub fn id_policy(mut self, ids: IdPolicy) -> Self {
        self.ids = ids;
        self
    }

    /// Sets the type and the id of the aggregate to which this event belongs. Default: [`GLOBAL`], and no id.
    pub fn aggregate(self, aggregate_type: impl AggregateType, id: impl ToString) -> Self {
        self.aggregate_type(aggregate_type).aggregate_id(id)
    }

    /// Sets the aggregate's type. Default: [`GLOBAL`].
    pub fn aggregate_type(mut self, aggregate_type: impl AggregateType) -> Self {
        self.aggregate_type = aggregate_type.name().into();
        self
    }

    /// Sets the aggregate's id. Default: none.
    pub fn aggregate_id(mut self, id: impl ToString) -> Self {
        self.aggregate_id = Some(id.to_string().into());
        self
    }

    /// Sets the tenant. Default: none.
    pub fn tenant_id(mut self, tenant: impl Into<Box<str>>) -> Self {
        self.tenant_id = Some(tenant.into());
        self
    }

    /// Sets the target in a broker instead of the publisher's own, such as a Kafka topic. Default: none.
    pub fn topic(mut self, topic: impl Into<Box<str>>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Sets the version of the payload's schema. Default: none.
    pub fn schema_version(mut self, version: u32) -> Self {
        self.schema_version = Some(version);
        self
    }

    /// Adds a header and replaces one of the same name.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Adds several headers.
    pub fn headers<N: Into<String>, V: Into<String>>(
        mut self,
        headers: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.headers.extend(headers.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Sets the payload as JSON, serialised now.
    pub fn json<T: Serialize + ?Sized>(self, payload: &T) -> Self {
        let bytes = serde_json::to_vec(payload).map(Bytes::from);
        self.payload(bytes.map_err(PayloadError::Serialize), None)
    }

    /// Sets the payload as text that is JSON already. It is kept byte for byte.
    pub fn json_text(self, json: impl Into<String>) -> Self {
        let json = json.into();
        let checked = serde_json::from_str::<serde::de::IgnoredAny>(&json);
        self.payload(checked.map(|_| json.into()).map_err(PayloadError::NotJson), None)
    }

    /// Sets a binary payload and its media type.
    pub fn bytes(self, content_type: impl Into<Box<str>>, payload: impl Into<Bytes>) -> Self {
        self.payload(Ok(payload.into()), Some(content_type.into()))
    }

    fn payload(mut self, payload: Result<Bytes, PayloadError>, content_type: Option<Box<str>>) -> Self {
        self.two_payloads = self.payload.is_some();
        self.payload = Some(payload);
        self.content_type = content_type;
        self
    }

    /// Sets when the event happened. Default: now, by this host's clock.
    pub fn occurred_at(mut self, at: impl Into<Timestamp>) -> Self {
        self.occurred_at = Some(at.into());
        self
    }

    /// Sets the earliest instant of its delivery, which must not be before `occurred_at`. Default: delivered
    /// immediately. Excludes [`deliver_after`](Self::deliver_after).
    ///
    /// When the event is written, the store gets the time that is left between this host's clock and that instant, and
    /// adds it to its own clock. So a clock of this host that is wrong by a minute delivers a minute early or late.
    pub fn available_at(mut self, at: impl Into<Timestamp>) -> Self {
        self.available_at = Some(at.into());
        self
    }

    /// Delays the delivery by this long, which must be more than zero. `available_at` becomes `occurred_at` plus the
    /// delay. When the event is written, the store gets the time that is left and adds it to its own clock, so that a
    /// wrong clock of the producer does not delay it. Excludes [`available_at`](Self::available_at).
    pub fn deliver_after(mut self, delay: Duration) -> Self {
        self.deliver_after = Some(delay);
        self
    }

    /// Sets other limits than the default ones. The Writer checks its own limits again.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Builds the event, or returns the first rule that it breaks.
    pub fn build(mut self) -> Result<Event, EventError> {
        if self.event_type.trim().is_empty() {
            return Err(EventError::MissingType);
        }
        let payload = self.take_payload()?;
        let occurred_at = self.occurred_at.unwrap_or_else(Timestamp::now);
        let available_at = self.resolve_delay(occurred_at)?;
        let parts = EventParts {
            id: self.id.unwrap_or_else(|| self.ids.generate()),
            event_type: self.event_type,
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_id,
            tenant_id: self.tenant_id,
            topic: self.topic,
            content_type: self.content_type,
            schema_version: self.schema_version,
            headers: self.headers,
            payload,
            occurred_at,
            available_at,
        };
        self.limits.check(&parts)?;
        Ok(Event::from_parts(parts))
    }

    fn take_payload(&mut self) -> Result<Bytes, EventError> {
        let event_type = || self.event_type.to_string();
        if self.two_payloads {
            return Err(EventError::TwoPayloads { event_type: event_type() });
        }
        match self.payload.take() {
            None => Err(EventError::MissingPayload { event_type: event_type() }),
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(PayloadError::Serialize(source))) => {
                Err(EventError::Serialize { event_type: event_type(), source })
            }
            Some(Err(PayloadError::NotJson(source))) => {
                Err(EventError::NotJson { event_type: event_type(), source })
            }
        }
    }

    fn resolve_delay(&self, occurred_at: Timestamp) -> Result<Option<Timestamp>, EventError> {
        match (self.available_at, self.deliver_after) {
            (Some(_), Some(_)) => Err(EventError::TwoDelays),
            (Some(at), None) if at < occurred_at => Err(EventError::AvailableBeforeOccurred),
            (at @ Some(_), None) => Ok(at),
            (None, Some(Duration::ZERO)) => Err(EventError::ZeroDelay),
            (None, Some(delay)) => Ok(Some(occurred_at + delay)),
            (None, None) => Ok(None),
        }
    }
}

impl fmt::Debug for EventBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBuilder")
            .field("id", &self.id)
            .field("event_type", &self.event_type)
            .field("aggregate_type", &self.aggregate_type)
            .field("aggregate_id", &self.aggregate_id)
            .field("tenant_id", &self.tenant_id)
            .field("topic", &self.topic)
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}
