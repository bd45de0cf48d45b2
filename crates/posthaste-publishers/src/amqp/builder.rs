//! The settings, from a URL or one by one.

use std::fmt;
use std::time::Duration;

use lapin::tcp::RustlsConnector;

use super::management::Management;
use super::settings::{Host, MAX_SHORT_STRING_BYTES, Settings, wrong};
use super::{AmqpPublisher, NAME};
use crate::error::PublisherError;
use crate::format::Format;
use crate::template::Template;
use crate::tls;
use crate::url::PublisherUrl;

const PLAIN_PORT: u16 = 5672;
const TLS_PORT: u16 = 5671;
/// Below the 10 s of the engine, which throws away the outcomes of a call that it ends.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(9);
/// What RabbitMQ 4 takes unless it is told otherwise; RabbitMQ 3 takes 128 MiB.
const DEFAULT_MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Where events go in an exchange when no setting says so.
const DEFAULT_ROUTING_KEY: &str = "{aggregate_type}.{event_type}";

/// Settings of an [`AmqpPublisher`].
#[derive(Clone)]
pub struct AmqpBuilder {
    hosts: Vec<String>,
    user: String,
    password: String,
    vhost: String,
    tls: bool,
    root_certificates: Option<Vec<u8>>,
    exchange: String,
    routing_key: Option<String>,
    format: Format,
    timeout: Duration,
    max_message_bytes: usize,
    management: Option<String>,
}

impl AmqpBuilder {
    pub(super) fn new(hosts: Vec<String>) -> Self {
        Self {
            hosts,
            user: "guest".to_owned(),
            password: "guest".to_owned(),
            vhost: "/".to_owned(),
            tls: false,
            root_certificates: None,
            exchange: String::new(),
            routing_key: None,
            format: Format::default(),
            timeout: DEFAULT_TIMEOUT,
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            management: None,
        }
    }

    pub(super) fn from_url(url: &str) -> Result<Self, PublisherError> {
        let mut url = PublisherUrl::parse(NAME, url)?;
        let mut builder = Self::new(std::mem::take(&mut url.hosts));
        match url.scheme.as_str() {
            "amqp" => {}
            "amqps" => builder.tls = true,
            _ => return Err(url.wrong("the URL begins with amqp:// or amqps://")),
        }
        if let Some(user) = url.user.take() {
            builder.user = user;
            builder.password = url.password.take().unwrap_or_default();
        }
        if !url.path.is_empty() {
            builder.vhost = std::mem::take(&mut url.path);
        }
        builder.exchange = url.take("exchange").unwrap_or_default();
        builder.routing_key = url.take("routing_key");
        if let Some(format) = url.take_format()? {
            builder.format = format;
        }
        if let Some(seconds) = url.take_as("timeout", "a number of seconds")? {
            builder.timeout = Duration::from_secs(seconds);
        }
        if let Some(bytes) = url.take_as("max_message_bytes", "a number of bytes")? {
            builder.max_message_bytes = bytes;
        }
        builder.management = url.take("management");
        if let Some(path) = url.take("ca") {
            let unread = |error: std::io::Error| {
                url.wrong(format!("the file that `ca` of the URL names cannot be read: {}", error.kind()))
            };
            builder.root_certificates = Some(std::fs::read(path).map_err(unread)?);
            if !builder.tls {
                return Err(url.wrong("`ca` is for TLS: begin the URL with amqps://"));
            }
        }
        url.finish()?;
        Ok(builder)
    }

    /// Who we are to RabbitMQ. Default: `guest`, whom it lets in from its own host only.
    pub fn login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        (self.user, self.password) = (user.into(), password.into());
        self
    }

    /// The virtual host. Default: `/`.
    pub fn vhost(mut self, vhost: impl Into<String>) -> Self {
        self.vhost = vhost.into();
        self
    }

    /// Whether to connect by TLS; the certificate must be good for the name of the host. Default: no.
    pub fn tls(mut self, tls: bool) -> Self {
        self.tls = tls;
        self
    }

    /// Trusts these certificate authorities (PEM, one or more) instead of those that browsers trust, and
    /// turns TLS on.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls = true;
        self.root_certificates = Some(pem.into());
        self
    }

    /// The exchange, a template: `events`, `shop.{aggregate_type}`. Default: the default exchange, in which the
    /// routing key is the name of a queue; the routing key has to be set then.
    ///
    /// It has to be there: none is declared. A topic of the event changes the routing key, never the exchange.
    pub fn exchange(mut self, exchange: impl Into<String>) -> Self {
        self.exchange = exchange.into();
        self
    }

    /// The routing key, a template; a topic of the event comes first. Default in an exchange:
    /// `{aggregate_type}.{event_type}`, with [`Format::Debezium`] `outbox.event.{aggregate_type}`.
    pub fn routing_key(mut self, routing_key: impl Into<String>) -> Self {
        self.routing_key = Some(routing_key.into());
        self
    }

    /// What a message looks like. Default: [`Format::Raw`].
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// How long a batch may take until it is confirmed, connecting included. Keep it below the route's timeout,
    /// which is 10 s unless set. Default: 9 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The largest message; larger ones are dead. Default: 16 MiB, as RabbitMQ 4 has it.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// The URL of the management plugin, such as `http://rabbit-1:15672`, with a user and a password where those
    /// of the broker are not let in. It is asked by [`Publisher::diagnose`](crate::Publisher::diagnose) alone, for
    /// the queues behind the exchange. Default: nobody is asked.
    pub fn management(mut self, url: impl Into<String>) -> Self {
        self.management = Some(url.into());
        self
    }

    /// Checks every setting. Nothing is connected yet.
    pub fn build(self) -> Result<AmqpPublisher, PublisherError> {
        let port = if self.tls { TLS_PORT } else { PLAIN_PORT };
        let hosts: Vec<Host> =
            self.hosts.iter().map(|host| Host::parse(host, port)).collect::<Result<_, _>>()?;
        if hosts.is_empty() {
            return Err(wrong("no host is given: write amqp://host:5672/"));
        }
        if [&self.user, &self.password, &self.vhost]
            .into_iter()
            .any(|text| text.len() > MAX_SHORT_STRING_BYTES)
        {
            return Err(wrong("user, password and vhost have at most 255 bytes each"));
        }
        if self.timeout.is_zero() || self.max_message_bytes == 0 {
            return Err(wrong("the timeout and the largest message are more than nothing"));
        }
        let exchange =
            (!self.exchange.is_empty()).then(|| template("exchange", &self.exchange)).transpose()?;
        let default_key = || match (&exchange, self.format.default_target()) {
            (_, Some(target)) => Ok(target),
            (Some(_), None) => Ok(DEFAULT_ROUTING_KEY),
            (None, None) => Err(wrong(
                "neither exchange nor routing key is set: name an exchange, or a queue as the routing key",
            )),
        };
        let routing_key = match &self.routing_key {
            Some(key) => template("routing key", key)?,
            None => template("routing key", default_key()?)?,
        };
        let management = self.management.as_ref().map(|url| self.management_at(url)).transpose()?;
        let tls = self.tls.then(|| tls::client_config(self.root_certificates.as_deref())).transpose();
        Ok(AmqpPublisher::new(Settings {
            hosts,
            user: self.user,
            password: self.password,
            vhost: self.vhost,
            tls: tls.map_err(wrong)?.map(RustlsConnector::from),
            exchange,
            routing_key,
            format: self.format,
            timeout: self.timeout,
            max_message_bytes: self.max_message_bytes,
            management,
        }))
    }

    fn management_at(&self, url: &str) -> Result<Management, PublisherError> {
        let tls = tls::client_config(self.root_certificates.as_deref()).map_err(wrong)?;
        Management::new(url, (&self.user, &self.password), tls, self.timeout).map_err(wrong)
    }
}

fn template(what: &str, text: &str) -> Result<Template, PublisherError> {
    text.parse().map_err(|error| wrong(format!("the {what} cannot be read: {error}")))
}

/// Without the login.
impl fmt::Debug for AmqpBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmqpBuilder")
            .field("hosts", &self.hosts)
            .field("vhost", &self.vhost)
            .field("exchange", &self.exchange)
            .field("routing_key", &self.routing_key)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_of_debezium_has_its_own_routing_key() {
        let text = |url: &str| {
            AmqpPublisher::from_url(url).map(|publisher| publisher.settings.routing_key.to_string())
        };
        assert_eq!(text("amqp://h/?exchange=e").ok().as_deref(), Some("{aggregate_type}.{event_type}"));
        assert_eq!(
            text("amqp://h/?exchange=e&format=debezium").ok().as_deref(),
            Some("outbox.event.{aggregate_type}")
        );
        assert_eq!(text("amqp://h/?routing_key=queue").ok().as_deref(), Some("queue"));
    }
}
