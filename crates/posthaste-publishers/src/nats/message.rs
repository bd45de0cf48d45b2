//! Conversion of an event into a NATS message. Values that NATS cannot carry or would interpret are refused.

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use posthaste::Delivery;

use super::settings::Settings;
use crate::format::Format;
use crate::message_id::{message_id, with_replays};
use crate::unsendable::Unsendable;

/// The largest subject, in bytes. Servers read the subject together with the reply subject and two numbers as one
/// line of at most 4,096 bytes, and close the connection on a longer one.
const MAX_SUBJECT_BYTES: usize = 1_024;

/// The largest header block that a stream stores, in bytes.
const MAX_HEADER_BYTES: usize = 65_535;

/// The characters that CloudEvents percent-encodes, as in its HTTP binding.
const ENCODED_CHARS: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// A message that is ready to be sent.
pub(super) struct NatsMessage {
    pub(super) subject: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The size of headers and body in bytes, as the server counts it.
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
            // The format determines the content type, so a header of the event with this name is left out.
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

/// Checks that a subject is valid for publishing and not one of the server's own.
pub(super) fn check_subject(subject: &str) -> Result<(), Unsendable> {
    let refuse =
        |why: &str| Err(Unsendable::new(format!("this is not a valid NATS subject: {why}: {subject}")));
    if subject.len() > MAX_SUBJECT_BYTES {
        return refuse(&format!(
            "it has {} bytes, and at most {MAX_SUBJECT_BYTES} are allowed",
            subject.len()
        ));
    }
    if subject.split('.').any(str::is_empty) {
        return refuse("a part of it is empty");
    }
    if subject.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return refuse("it contains a space or a control character");
    }
    if subject.contains(['*', '>']) {
        return refuse("it contains a wildcard");
    }
    if subject.starts_with('$') || subject.starts_with("_INBOX") {
        return refuse("it is reserved for the server");
    }
    Ok(())
}

/// Refuses headers with a meaning: `Nats-…` controls the server, and clients read `Status` as a reply without a
/// message.
fn check_name(name: &str) -> Result<(), Unsendable> {
    let is_command = name.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("nats-"));
    if is_command || name.eq_ignore_ascii_case("status") {
        return Err(Unsendable::new(format!("the header {name} has a meaning for NATS: rename it")));
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
        let wrong_name = || Unsendable::new(format!("this is not a valid NATS header name: {name}"));
        // The library accepts an empty name.
        let key: HeaderName =
            if name.is_empty() { Err(wrong_name()) } else { name.parse().map_err(|_| wrong_name()) }?;
        let wrong_value = |why: &str| Unsendable::new(format!("NATS cannot carry the header {name}: {why}"));
        if value.contains(|c: char| c.is_control() && c != '\t') {
            return Err(wrong_value("its value contains a control character"));
        }
        if value.starts_with(char::is_whitespace) || value.ends_with(char::is_whitespace) {
            return Err(wrong_value("its value begins or ends with a space, which clients remove"));
        }
        let value: HeaderValue = value.parse().map_err(|_| wrong_value("its value contains a line break"))?;
        self.bytes += name.len() + value.as_str().len() + ": \r\n".len();
        self.map.append(key, value);
        Ok(())
    }

    /// The size of the header block in bytes, including its first line and the empty line at its end.
    fn bytes(&self) -> usize {
        self.bytes + "NATS/1.0\r\n\r\n".len()
    }

    fn finish(self) -> Result<HeaderMap, Unsendable> {
        if self.bytes() > MAX_HEADER_BYTES {
            return Err(Unsendable::new(format!(
                "too large: the headers would have {} bytes, and at most {MAX_HEADER_BYTES} are allowed",
                self.bytes()
            )));
        }
        Ok(self.map)
    }
}
