//! Settings that were checked, for everything that connects or sends.

use std::fmt;
use std::time::Duration;

use lapin::tcp::RustlsConnector;

use super::NAME;
use super::management::Management;
use crate::error::PublisherError;
use crate::format::Format;
use crate::template::Template;

/// The most bytes of what AMQP calls a short string.
pub(super) const MAX_SHORT_STRING_BYTES: usize = 255;

/// Settings that were checked.
pub(super) struct Settings {
    pub(super) hosts: Vec<Host>,
    pub(super) user: String,
    pub(super) password: String,
    pub(super) vhost: String,
    pub(super) tls: Option<RustlsConnector>,
    pub(super) exchange: Option<Template>,
    pub(super) routing_key: Template,
    pub(super) format: Format,
    pub(super) timeout: Duration,
    pub(super) max_message_bytes: usize,
    pub(super) management: Option<Management>,
}

/// Without the login.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("hosts", &self.hosts)
            .field("vhost", &self.vhost)
            .field("tls", &self.tls.is_some())
            .field("exchange", &self.exchange)
            .field("routing_key", &self.routing_key)
            .field("format", &self.format)
            .field("timeout", &self.timeout)
            .field("max_message_bytes", &self.max_message_bytes)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) port: u16,
}

impl Host {
    /// `host`, `host:port`, `[::1]` or `[::1]:port`.
    pub(super) fn parse(text: &str, default_port: u16) -> Result<Self, PublisherError> {
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, "")) => (name, None),
            Some((name, port)) => (name, Some(port.strip_prefix(':').unwrap_or("?"))),
            None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
        };
        // What was typed is not shown: it may be a part of a password.
        let bad = || wrong("a host is not written as host:port");
        let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control());
        let port = port.map_or(Ok(default_port), str::parse).map_err(|_| bad())?;
        if is_name { Ok(Self { name: name.to_owned(), port }) } else { Err(bad()) }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

pub(super) fn wrong(problem: impl Into<String>) -> PublisherError {
    PublisherError::new(NAME, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_a_port_by_the_scheme() {
        for (text, name, port) in [
            ("rabbit", "rabbit", 5672),
            ("rabbit:1", "rabbit", 1),
            ("[::1]", "::1", 5672),
            ("[::1]:2", "::1", 2),
        ] {
            assert_eq!(Host::parse(text, 5672).ok(), Some(Host { name: name.to_owned(), port }), "{text}");
        }
        for text in ["", ":5672", "host:", "host:many", "host:70000", "[::1]x", "a b", "::1"] {
            assert!(Host::parse(text, 5672).is_err(), "{text}");
        }
    }
}
