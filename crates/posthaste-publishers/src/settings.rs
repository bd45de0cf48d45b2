//! Settings that all publishers share: reading, defaults and checks.

use std::time::Duration;

use crate::error::PublisherError;
use crate::format::Format;
use crate::host_port::Address;
use crate::redacted::Redacted;
use crate::template::Template;
use crate::unsendable::Unsendable;
use crate::url::PublisherUrl;

/// Below the route's default timeout of 10 s: when a route ends a call, the outcomes of all its events are lost.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(9);

/// A kind of broker: its name in errors and the schemes of its URLs.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) name: &'static str,
    pub(crate) scheme: &'static str,
    pub(crate) tls_scheme: &'static str,
}

impl Broker {
    /// Creates an error about a setting.
    pub(crate) fn wrong(&self, problem: impl Into<String>) -> PublisherError {
        PublisherError::new(self.name, problem)
    }

    /// Parses a list of hosts, which must not be empty.
    pub(crate) fn addresses(&self, hosts: &[String], port: u16) -> Result<Vec<Address>, PublisherError> {
        if hosts.is_empty() {
            return Err(self.wrong(format!("no host is given: write {}://host:{port}/", self.scheme)));
        }
        hosts.iter().map(|host| self.address(host, port)).collect()
    }

    /// Parses a host. The error does not repeat the input: it may be a part of a password.
    pub(crate) fn address(&self, host: &str, port: u16) -> Result<Address, PublisherError> {
        Address::parse(host, port).ok_or_else(|| self.wrong("write each host as host:port or host"))
    }

    /// Parses a template, and checks the name if the template has no placeholders.
    pub(crate) fn template(
        &self,
        what: &str,
        text: &str,
        check: impl Fn(&str) -> Result<(), Unsendable>,
    ) -> Result<Template, PublisherError> {
        let unread = |error| self.wrong(format!("the {what} cannot be read: {error}"));
        let template: Template = text.parse().map_err(unread)?;
        let checked = template.as_text().map_or(Ok(()), check);
        checked.map_err(|unsendable| self.wrong(unsendable.to_string()))?;
        Ok(template)
    }
}

/// Format, limits and TLS of a publisher.
#[derive(Clone, Debug)]
pub(crate) struct CommonSettings {
    pub(crate) format: Format,
    pub(crate) timeout: Duration,
    /// `None` if the publisher takes the limit from the server.
    pub(crate) max_message_bytes: Option<usize>,
    pub(crate) tls: bool,
    /// Certificate authorities, as PEM, that are trusted instead of the public ones.
    pub(crate) root_certificate: Option<Redacted<Vec<u8>>>,
}

impl CommonSettings {
    pub(crate) fn new(timeout: Duration, max_message_bytes: Option<usize>) -> Self {
        Self { format: Format::default(), timeout, max_message_bytes, tls: false, root_certificate: None }
    }

    /// Takes the format and the limits from a URL.
    pub(crate) fn take_limits(&mut self, url: &mut PublisherUrl) -> Result<(), PublisherError> {
        self.format = url.take_format()?.unwrap_or(self.format);
        let seconds = url.take_as("timeout", "a number of seconds")?;
        self.timeout = seconds.map_or(self.timeout, Duration::from_secs);
        if let Some(most) = self.max_message_bytes {
            let bytes = url.take_as("max_message_bytes", "a number of bytes")?;
            self.max_message_bytes = Some(bytes.unwrap_or(most));
        }
        Ok(())
    }

    /// Takes all common settings from a URL of this kind of broker.
    pub(crate) fn take(&mut self, broker: &Broker, url: &mut PublisherUrl) -> Result<(), PublisherError> {
        self.tls = url.scheme == broker.tls_scheme;
        if !self.tls && url.scheme != broker.scheme {
            let Broker { scheme, tls_scheme, .. } = broker;
            return Err(url.wrong(format!("begin the URL with {scheme}://, or with {tls_scheme}:// for TLS")));
        }
        self.take_limits(url)?;
        if let Some(path) = url.take("ca") {
            let unread = |error| url.wrong(format!("the root certificate cannot be read: {error}"));
            self.root_certificate = Some(Redacted(std::fs::read(path).map_err(unread)?));
        }
        Ok(())
    }

    /// Refuses values that work with no broker.
    pub(crate) fn check(&self, broker: &Broker) -> Result<(), PublisherError> {
        if self.timeout.is_zero() {
            return Err(broker.wrong("the timeout must be longer than zero"));
        }
        if self.max_message_bytes == Some(0) {
            return Err(broker.wrong("the largest message must be at least 1 byte"));
        }
        // Refused, because the user would otherwise believe that a plain connection is encrypted.
        if self.root_certificate.is_some() && !self.tls {
            let scheme = broker.tls_scheme;
            return Err(broker.wrong(format!(
                "a root certificate needs TLS: begin the URL with {scheme}://, or write tls(true) in the builder"
            )));
        }
        Ok(())
    }

    /// Refuses a message that is too large.
    pub(crate) fn check_size(&self, bytes: usize) -> Result<(), Unsendable> {
        match self.max_message_bytes {
            Some(most) if bytes > most => Err(Unsendable::too_large(bytes, most)),
            _ => Ok(()),
        }
    }

    /// A TLS client that trusts the authorities of these settings.
    #[cfg(any(feature = "amqp", feature = "http", feature = "nats"))]
    pub(crate) fn tls_client(&self) -> Result<rustls::ClientConfig, String> {
        crate::tls::client_config(self.root_certificate.as_ref().map(|pem| pem.as_slice()))
    }
}
