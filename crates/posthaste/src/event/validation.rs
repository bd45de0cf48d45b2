//! The rules of an event. They are checked when it is built and again when it is written.

use super::{EventError, EventId, EventParts, Limits};

impl Limits {
    /// Checks whether an event may be written: every rule except those that only the builder can check.
    pub fn check(&self, event: &EventParts) -> Result<(), EventError> {
        check_id(&event.id)?;
        if event.event_type.trim().is_empty() {
            return Err(EventError::MissingType);
        }
        check_name("event_type", Some(&event.event_type), Self::EVENT_TYPE)?;
        check_name("aggregate_type", Some(&event.aggregate_type), Self::AGGREGATE_TYPE)?;
        check_name("aggregate_id", event.aggregate_id.as_deref(), Self::AGGREGATE_ID)?;
        check_name("tenant_id", event.tenant_id.as_deref(), Self::TENANT_ID)?;
        check_name("topic", event.topic.as_deref(), Self::TOPIC)?;
        check_name("content_type", event.content_type.as_deref(), Self::CONTENT_TYPE)?;
        check_headers(event)?;
        self.check_payload(event.payload.len())
    }

    fn check_payload(&self, bytes: usize) -> Result<(), EventError> {
        if bytes > self.payload_bytes {
            return Err(EventError::PayloadTooLarge { bytes, max: self.payload_bytes });
        }
        Ok(())
    }
}

fn check_id(id: &EventId) -> Result<(), EventError> {
    let id = id.as_str();
    let visible = id.bytes().all(|byte| byte.is_ascii_graphic());
    if id.is_empty() || id.len() > EventId::MAX_CHARS || !visible {
        return Err(EventError::BadId { id: id.chars().take(80).collect() });
    }
    Ok(())
}

fn check_name(field: &'static str, name: Option<&str>, max: usize) -> Result<(), EventError> {
    let Some(name) = name else { return Ok(()) };
    if name.is_empty() {
        return Err(EventError::Empty { field });
    }
    // Counting characters is only needed if there are too many bytes.
    if name.len() > max {
        let chars = name.chars().count();
        if chars > max {
            return Err(EventError::TooLong { field, chars, max });
        }
    }
    match name.chars().find(|c| c.is_control()) {
        Some(character) => Err(EventError::ControlCharacter { field, character }),
        None => Ok(()),
    }
}

fn check_headers(event: &EventParts) -> Result<(), EventError> {
    let headers = &event.headers;
    if headers.len() > Limits::HEADERS {
        return Err(EventError::TooManyHeaders { count: headers.len() });
    }
    let mut bytes = 0;
    for (name, value) in headers {
        check_header(name, value)?;
        bytes += name.len() + value.len();
    }
    if bytes > Limits::HEADER_BYTES {
        return Err(EventError::HeadersTooLarge { bytes });
    }
    Ok(())
}

fn check_header(name: &str, value: &str) -> Result<(), EventError> {
    if name.is_empty() {
        return Err(EventError::EmptyHeaderName);
    }
    if !name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':') {
        return Err(EventError::BadHeaderName { name: name.chars().take(80).collect() });
    }
    if value.chars().any(char::is_control) {
        return Err(EventError::BadHeaderValue { name: name.to_owned() });
    }
    Ok(())
}
