//! Request headers: converts the headers of a message. Headers that an event must not set are refused or replaced.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::format::Message;
use crate::unsendable::Unsendable;

pub(super) const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
pub(super) const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
pub(super) const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// How many headers the publisher adds to a request: the four above, the content type and the content length.
const PUBLISHER_HEADER_COUNT: usize = 6;

/// The characters that the HTTP binding of CloudEvents percent-encodes, besides all that are not ASCII.
const ENCODED_CHARS: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Headers that determine the target, the framing, the sender or the method of a request.
const FORBIDDEN_HEADERS: &[&str] = &[
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "cookie",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];

/// Returns the headers of a request. Headers in `ours` take precedence over those of the event.
pub(super) fn for_request(message: &Message<'_>, ours: &HeaderMap) -> Result<HeaderMap, Unsendable> {
    let mut headers = ours.clone();
    headers
        .try_reserve(message.headers.len() + PUBLISHER_HEADER_COUNT)
        .map_err(|_| Unsendable::new("the event has too many headers for HTTP"))?;
    headers.insert(header::CONTENT_TYPE, value("content-type", &message.content_type)?);
    for (text, content) in &message.headers {
        let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| {
            Unsendable::new(format!("`{text}` is not a valid HTTP header name: use letters, digits and -"))
        })?;
        if is_forbidden(&name) {
            return Err(Unsendable::new(format!(
                "an event must not set the header `{name}`, which controls the request: remove it from the event"
            )));
        }
        if is_set_by_publisher(&name) || ours.contains_key(&name) {
            continue;
        }
        let value = value(name.as_str(), content)?;
        headers
            .try_append(name, value)
            .map_err(|_| Unsendable::new("the event has too many headers for HTTP"))?;
    }
    Ok(headers)
}

/// Whether an event with this header is refused.
pub(super) fn is_forbidden(name: &HeaderName) -> bool {
    FORBIDDEN_HEADERS.contains(&name.as_str()) || name.as_str().starts_with("proxy-")
}

/// Whether only the publisher sets this header. An event may have such a header, for example if a service copied the
/// headers of an incoming request into the event, so the header is replaced and not refused.
pub(super) fn is_set_by_publisher(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("webhook-") || ["content-type", "idempotency-key", "user-agent"].contains(&name)
}

/// An id as a header value. It is refused rather than encoded, because the receiver compares ids literally.
pub(super) fn id_value(id: &str) -> Result<HeaderValue, Unsendable> {
    let is_plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic());
    let value = is_plain.then(|| HeaderValue::from_str(id).ok()).flatten();
    value.ok_or_else(|| Unsendable::new("the id of the event has characters that no header can carry"))
}

/// Values of the format's own headers can contain any text and are encoded. Values of the event's headers are sent
/// unchanged.
fn value(name: &str, content: &str) -> Result<HeaderValue, Unsendable> {
    if name.starts_with("ce-") || name.starts_with("outbox-") {
        let encoded = Cow::from(utf8_percent_encode(content, ENCODED_CHARS));
        return HeaderValue::from_str(&encoded).map_err(|_| cannot_carry(name));
    }
    // HTTP drops spaces at the ends of a value.
    if content.trim_matches([' ', '\t']).len() != content.len() {
        return Err(cannot_carry(name));
    }
    HeaderValue::from_bytes(content.as_bytes()).map_err(|_| cannot_carry(name))
}

fn cannot_carry(name: &str) -> Unsendable {
    Unsendable::new(format!(
        "HTTP cannot carry the value of `{name}`: it has control characters, or spaces at its ends"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::format::tests::order_with;

    fn with(name: &str, value: &str) -> Result<HeaderMap, Unsendable> {
        let delivery = order_with(|parts| parts.headers = [(name.to_owned(), value.to_owned())].into());
        let ours = HeaderMap::from_iter([(HeaderName::from_static("x-team"), HeaderValue::from_static("a"))]);
        for_request(&Format::Raw.message(&delivery, "ce-"), &ours)
    }

    fn sent(name: &str, value: &str) -> Option<Vec<u8>> {
        let headers = with(name, value).ok()?;
        headers.get(name).map(|value| value.as_bytes().to_vec())
    }

    // S2
    #[test]
    fn event_cannot_set_a_header_that_controls_the_request() {
        for name in FORBIDDEN_HEADERS.iter().copied().chain(["Host", "CONTENT-LENGTH", "Proxy-Authorization"])
        {
            let refused = with(name, "x").expect_err(name).to_string();
            assert!(refused.contains(&name.to_lowercase()), "{refused}");
        }
    }

    #[test]
    fn header_of_an_event_does_not_replace_one_of_the_publisher() {
        for name in ["Webhook-Id", "webhook-signature", "webhook-other", "Idempotency-Key", "User-Agent"] {
            assert_eq!(sent(name, "forged"), None, "{name}");
        }
        assert_eq!(sent("Content-Type", "forged").as_deref(), Some(&b"application/json"[..]));
        assert_eq!(sent("X-Team", "forged").as_deref(), Some(&b"a"[..]));
    }

    // S2
    #[test]
    fn values_are_sent_unchanged_or_refused() {
        for good in ["", "a b", "tab\tbed", "naïve 🚀", "%0d%0a", "\"q\""] {
            assert_eq!(sent("note", good).as_deref(), Some(good.as_bytes()), "{good:?}");
        }
        for bad in [" ", "a ", "\ta", "a\r\nx-injected: yes", "nul\0", "\u{7f}", "\u{1b}[31m"] {
            let refused = with("note", bad).expect_err(bad).to_string();
            assert!(!refused.contains("injected"), "{refused}");
        }
        for bad in ["", "a b", "a:", "é", "a\r\n"] {
            assert!(with(bad, "x").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn values_of_the_formats_headers_are_percent_encoded() {
        for (value, encoded) in [
            ("a b", "a%20b"),
            ("\"", "%22"),
            ("100%", "100%25"),
            ("é\r\n", "%C3%A9%0D%0A"),
            ("a/b:c", "a/b:c"),
        ] {
            let delivery = order_with(|parts| parts.event_type = value.into());
            for (format, name) in [(Format::Raw, "outbox-event-type"), (Format::CloudEvents, "ce-type")] {
                let headers =
                    for_request(&format.message(&delivery, "ce-"), &HeaderMap::new()).expect("good headers");
                assert_eq!(headers[name].as_bytes(), encoded.as_bytes(), "{value:?}");
            }
        }
    }

    #[test]
    fn more_headers_than_http_can_hold_are_refused() {
        let headers = (0..40_000).map(|n| (format!("h{n}"), String::new())).collect();
        let delivery = order_with(|parts| parts.headers = headers);
        assert!(for_request(&Format::Raw.message(&delivery, "ce-"), &HeaderMap::new()).is_err());
    }

    #[test]
    fn id_is_plain_text() {
        assert!(id_value("0190-id").is_ok());
        for bad in ["", "a b", "é", "a\n"] {
            assert!(id_value(bad).is_err(), "{bad:?}");
        }
    }
}
