//! Builder: reads the settings of an AMQP publisher from a URL or from setters, and checks them.

use std::time::Duration;

use lapin::tcp::RustlsConnector;

use super::login::Login;
use super::management::Management;
use super::settings::{MAX_SHORT_STRING_BYTES, Settings};
use super::{AmqpPublisher, BROKER};
use crate::error::PublisherError;
use crate::format::Format;
use crate::redacted::Redacted;
use crate::settings::{CommonSettings, DEFAULT_TIMEOUT};
use crate::template::Template;
use crate::url::PublisherUrl;

const PLAIN_PORT: u16 = 5672;
const TLS_PORT: u16 = 5671;
/// The default `max_message_size` of RabbitMQ 4. RabbitMQ 3 accepts 128 MiB by default.
const DEFAULT_MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// The routing key of events that are sent to an exchange when no routing key is set.
const DEFAULT_ROUTING_KEY: &str = "{aggregate_type}.{event_type}";

/// Settings of an [`AmqpPublisher`]. Create one with [`AmqpPublisher::builder`].
#[derive(Clone, Debug)]
pub struct AmqpBuilder {
    common: CommonSettings,
    hosts: Vec<String>,
    login: Redacted<Login>,
    vhost: String,
    exchange: String,
    routing_key: Option<String>,
    management: Option<Redacted<String>>,
}

impl AmqpBuilder {
    pub(super) fn new(hosts: Vec<String>) -> Self {
        Self {
            common: CommonSettings::new(DEFAULT_TIMEOUT, Some(DEFAULT_MAX_MESSAGE_BYTES)),
            hosts,
            login: Redacted(Login { user: "guest".to_owned(), password: "guest".to_owned() }),
            vhost: "/".to_owned(),
            exchange: String::new(),
            routing_key: None,
            management: None,
        }
    }

    pub(super) fn from_url(url: &str) -> Result<Self, PublisherError> {
        let mut url = PublisherUrl::parse(BROKER.name, url)?;
        let mut builder = Self::new(std::mem::take(&mut url.hosts));
        builder.common.take(&BROKER, &mut url)?;
        if let Some(user) = url.user.take() {
            builder = builder.login(user, url.password.take().unwrap_or_default());
        }
        if !url.path.is_empty() {
            builder.vhost = std::mem::take(&mut url.path);
        }
        builder.exchange = url.take("exchange").unwrap_or_default();
        builder.routing_key = url.take("routing_key");
        builder.management = url.take("management").map(Redacted);
        url.finish()?;
        Ok(builder)
    }

    /// The user and password. Default: `guest` and `guest`, which RabbitMQ accepts only from its own host.
    pub fn login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Redacted(Login { user: user.into(), password: password.into() });
        self
    }

    /// The virtual host. Default: `/`.
    pub fn vhost(mut self, vhost: impl Into<String>) -> Self {
        self.vhost = vhost.into();
        self
    }

    /// Whether to connect with TLS. The server's certificate must be valid for the host name. Default: `false`.
    pub fn tls(mut self, tls: bool) -> Self {
        self.common.tls = tls;
        self
    }

    /// Trusts these certificate authorities (PEM, one or more) instead of the public ones, and turns TLS on.
    /// Default: the authorities that browsers trust.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.common.tls = true;
        self.common.root_certificate = Some(Redacted(pem.into()));
        self
    }

    /// The exchange, a template: `events`, `shop.{aggregate_type}`. Default: the default exchange, in which the
    /// routing key is the name of a queue. The routing key must be set in that case, unless the format is
    /// [`Format::Debezium`].
    ///
    /// The exchange must exist; the publisher declares none. An event's topic changes the routing key, never the
    /// exchange.
    pub fn exchange(mut self, exchange: impl Into<String>) -> Self {
        self.exchange = exchange.into();
        self
    }

    /// The routing key, a template. An event's own topic takes precedence over it. Default with an exchange:
    /// `{aggregate_type}.{event_type}`, or `outbox.event.{aggregate_type}` with [`Format::Debezium`].
    pub fn routing_key(mut self, routing_key: impl Into<String>) -> Self {
        self.routing_key = Some(routing_key.into());
        self
    }

    /// The message format. Default: [`Format::Raw`].
    pub fn format(mut self, format: Format) -> Self {
        self.common.format = format;
        self
    }

    /// How long a batch may take until it is confirmed, including the time to connect. Keep it below the route's
    /// timeout, which is 10 s by default. Default: 9 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.common.timeout = timeout;
        self
    }

    /// The largest message in bytes. An event with a larger message is DEAD. Default: 16 MiB, as in RabbitMQ 4.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.common.max_message_bytes = Some(bytes);
        self
    }

    /// The URL of the management plugin, such as `http://rabbit-1:15672`. Include a user and a password if the
    /// plugin does not accept those of the broker. Only [`Publisher::diagnose`](crate::Publisher::diagnose) uses
    /// it, to find the queues behind the exchange. Default: not set.
    pub fn management(mut self, url: impl Into<String>) -> Self {
        self.management = Some(Redacted(url.into()));
        self
    }

    /// Checks every setting and returns the publisher, which connects on first use.
    ///
    /// # Errors
    ///
    /// A [`PublisherError`] that names the first wrong setting and how to write it.
    pub fn build(self) -> Result<AmqpPublisher, PublisherError> {
        self.common.check(&BROKER)?;
        let port = if self.common.tls { TLS_PORT } else { PLAIN_PORT };
        let hosts = BROKER.addresses(&self.hosts, port)?;
        let short_strings = [&self.login.user, &self.login.password, &self.vhost];
        if short_strings.iter().any(|text| text.len() > MAX_SHORT_STRING_BYTES) {
            return Err(BROKER.wrong("user, password and vhost have at most 255 bytes each"));
        }
        let management = self.management.as_ref().map(|url| self.management_at(url)).transpose()?;
        let tls = self.common.tls.then(|| self.common.tls_client()).transpose().map_err(wrong)?;
        Ok(AmqpPublisher::new(Settings {
            hosts,
            tls: tls.map(|tls| Redacted(RustlsConnector::from(tls))),
            exchange: self.exchange_template()?,
            routing_key: self.routing_key_template()?,
            management,
            login: self.login,
            vhost: self.vhost,
            common: self.common,
        }))
    }

    fn exchange_template(&self) -> Result<Option<Template>, PublisherError> {
        let read = || BROKER.template("exchange", &self.exchange, |_| Ok(()));
        (!self.exchange.is_empty()).then(read).transpose()
    }

    fn routing_key_template(&self) -> Result<Template, PublisherError> {
        let default = || (!self.exchange.is_empty()).then_some(DEFAULT_ROUTING_KEY);
        let key = self.routing_key.as_deref().or(self.common.format.default_target()).or_else(default);
        let key = key.ok_or_else(|| {
            BROKER.wrong(
                "neither exchange nor routing key is set: name an exchange, or a queue as the routing key",
            )
        })?;
        BROKER.template("routing key", key, |_| Ok(()))
    }

    fn management_at(&self, url: &str) -> Result<Redacted<Management>, PublisherError> {
        let tls = self.common.tls_client().map_err(wrong)?;
        Management::new(url, &self.login, tls, self.common.timeout).map(Redacted).map_err(wrong)
    }
}

fn wrong(problem: String) -> PublisherError {
    BROKER.wrong(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debezium_format_has_its_own_default_routing_key() {
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
