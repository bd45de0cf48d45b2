//! Events as messages of NATS: what it cannot carry, or would take for a command, is refused.

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use posthaste::Delivery;

use super::settings::Settings;
use crate::format::Format;
use crate::message_id::{message_id, with_replays};
use crate::unsendable::Unsendable;

/// Servers read it with the reply's subject and two numbers in a line of at most 4,096 bytes, and close the
/// connection when it is longer.
const MAX_SUBJECT_BYTES: usize = 1_024;

/// A stream takes no more.
const MAX_HEADER_BYTES: usize = 65_535;

/// What CloudEvents has us write with a percent sign, as on HTTP.
const ENCODED_CHARS: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// A message that NATS can carry.
pub(super) struct NatsMessage {
    pub(super) subject: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// With the headers, as the server counts it.
    pub(super) size: usize,
}

impl Settings {
    pub(super) fn message(&self, delivery: &Delivery) -> Result<NatsMessage, Unsendable> {
        let subject = self.subject.target(delivery)?.into_owned();
        check_subject(&subject)?;
        let message = self.common.format.message(delivery, "ce-");
        let mut headers = HeaderBuilder::default();
        if !self.core {
            let id = message_id(delivery, self.common.format, &subject);
            headers.add("Nats-Msg-Id", &with_replays(&id, delivery.replays))?;
            if let Some(stream) = &self.stream {
                headers.add("Nats-Expected-Stream", stream)?;
            }
        }
        headers.add("Content-Type", &message.content_type)?;
        for (name, value) in &message.headers {
            check_name(name)?;
            // The format says what it is, not the event.
            if name.eq_ignore_ascii_case("content-type") {
                continue;
            }
            if self.common.format == Format::CloudEvents && is_attribute(name) {
                headers.add(name, &utf8_percent_encode(value, ENCODED_CHARS).to_string())?;
            } else {
                headers.add(name, value)?;
            }
        }
        let size = headers.bytes() + message.body.len();
        Ok(NatsMessage { subject, headers: headers.finish()?, body: message.body, size })
    }
}

fn is_attribute(name: &str) -> bool {
    name.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case("ce-"))
}

/// Whether events can be published there, and reach no subject of the server's own.
pub(super) fn check_subject(subject: &str) -> Result<(), Unsendable> {
    let refuse = |why: &str| Err(Unsendable::new(format!("NATS has no such subject: {why}: {subject}")));
    if subject.len() > MAX_SUBJECT_BYTES {
        return refuse(&format!("it has {} bytes, and {MAX_SUBJECT_BYTES} is the most", subject.len()));
    }
    if subject.split('.').any(str::is_empty) {
        return refuse("a part of it is empty");
    }
    if subject.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return refuse("there is a blank or a control character in it");
    }
    if subject.contains(['*', '>']) {
        return refuse("there is a wildcard in it");
    }
    if subject.starts_with('$') || subject.starts_with("_INBOX") {
        return refuse("it belongs to the server");
    }
    Ok(())
}

/// `Nats-…` tells the server what to do, and `Status` tells consumers that there is no message.
fn check_name(name: &str) -> Result<(), Unsendable> {
    let is_command = name.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("nats-"));
    if is_command || name.eq_ignore_ascii_case("status") {
        return Err(Unsendable::new(format!("the header {name} is a command to NATS: rename it")));
    }
    Ok(())
}

#[derive(Default)]
struct HeaderBuilder {
    map: HeaderMap,
    bytes: usize,
}

impl HeaderBuilder {
    fn add(&mut self, name: &str, value: &str) -> Result<(), Unsendable> {
        let wrong_name = || Unsendable::new(format!("NATS has no header of this name: {name}"));
        // The library takes an empty one.
        let key: HeaderName =
            if name.is_empty() { Err(wrong_name()) } else { name.parse().map_err(|_| wrong_name()) }?;
        let wrong_value = |why: &str| Unsendable::new(format!("NATS cannot carry the header {name}: {why}"));
        if value.contains(|c: char| c.is_control() && c != '\t') {
            return Err(wrong_value("there is a control character in its value"));
        }
        if value.starts_with(char::is_whitespace) || value.ends_with(char::is_whitespace) {
            return Err(wrong_value("its value begins or ends with a blank, which clients cut off"));
        }
        let value: HeaderValue =
            value.parse().map_err(|_| wrong_value("its value has a line break in it"))?;
        self.bytes += name.len() + value.as_str().len() + ": \r\n".len();
        self.map.append(key, value);
        Ok(())
    }

    /// With the line that begins them and the one that ends them.
    fn bytes(&self) -> usize {
        self.bytes + "NATS/1.0\r\n\r\n".len()
    }

    fn finish(self) -> Result<HeaderMap, Unsendable> {
        if self.bytes() > MAX_HEADER_BYTES {
            return Err(Unsendable::new(format!(
                "too large: the headers would have {} bytes, and {MAX_HEADER_BYTES} is the most",
                self.bytes()
            )));
        }
        Ok(self.map)
    }
}
