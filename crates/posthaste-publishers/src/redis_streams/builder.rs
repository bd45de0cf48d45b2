//! Builder: reads the settings of a Redis Streams publisher from a URL or from setters, and checks them.

use std::time::Duration;

use redis::{Client, ConnectionAddr, IntoConnectionInfo as _, RedisConnectionInfo, TlsCertificates};

use super::allowed_topics::AllowedTopics;
use super::settings::Settings;
use super::{BROKER, RedisStreamPublisher};
use crate::error::PublisherError;
use crate::format::Format;
use crate::host_port::Address;
use crate::redacted::Redacted;
use crate::settings::CommonSettings;
use crate::tls;
use crate::url::PublisherUrl;

const PORT: u16 = 6379;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);
const DEFAULT_MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Settings of a [`RedisStreamPublisher`]. Create one with [`RedisStreamPublisher::builder`].
#[derive(Clone, Debug)]
pub struct RedisStreamBuilder {
    common: CommonSettings,
    host: String,
    database: i64,
    login: Redacted<Login>,
    stream: Option<String>,
    topics: AllowedTopics,
    max_length: Option<usize>,
    approximate: bool,
}

/// An ACL user and a password, or a password alone.
#[derive(Clone, Default)]
struct Login {
    user: Option<String>,
    password: Option<String>,
}

impl RedisStreamBuilder {
    pub(super) fn new(host: String) -> Self {
        Self {
            common: CommonSettings::new(DEFAULT_TIMEOUT, Some(DEFAULT_MAX_MESSAGE_BYTES)),
            host,
            database: 0,
            login: Redacted::default(),
            stream: None,
            topics: AllowedTopics::Any,
            max_length: None,
            approximate: true,
        }
    }

    pub(super) fn from_url(url: &str) -> Result<Self, PublisherError> {
        let mut url = PublisherUrl::parse(BROKER.name, url)?;
        let [host] = url.hosts.as_slice() else {
            return Err(url.wrong("write one server: redis-stream://host:6379/0?stream=…"));
        };
        let mut builder = Self::new(host.clone());
        builder.common.take(&BROKER, &mut url)?;
        if !url.path.is_empty() {
            let database = url.path.parse();
            builder.database =
                database.map_err(|_| url.wrong("the path must be the number of a database"))?;
        }
        builder.login = Redacted(Login { user: url.user.take(), password: url.password.take() });
        builder.stream = url.take("stream");
        builder.topics = url.take("topics").map_or(AllowedTopics::Any, |text| AllowedTopics::parse(&text));
        builder.max_length = url.take_as("maxlen", "a number of entries")?;
        builder.approximate = url.take_as("approximate", "true or false")?.unwrap_or(true);
        url.finish()?;
        Ok(builder)
    }

    /// The stream of events that have no topic: a name, or a template with placeholders such as `{aggregate_type}`.
    /// Required, except with [`Format::Debezium`], whose default is `outbox.event.{aggregate_type}`.
    pub fn stream(mut self, template: impl Into<String>) -> Self {
        self.stream = Some(template.into());
        self
    }

    /// The topics that events may have: names, and prefixes of names that end with `*`, such as `shop:*`. An event
    /// with another topic is DEAD. Default: any topic. The keys of an outbox in Redis are never allowed.
    pub fn topics<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.topics = AllowedTopics::These(names.into_iter().map(Into::into).collect());
        self
    }

    /// Logs in as an ACL user. Default: no login.
    pub fn login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Redacted(Login { user: Some(user.into()), password: Some(password.into()) });
        self
    }

    /// Logs in as the default user with this password. Default: no login.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.login.password = Some(password.into());
        self
    }

    /// The number of the database. Default: 0.
    pub fn database(mut self, number: u32) -> Self {
        self.database = number.into();
        self
    }

    /// Whether to connect with TLS. Default: `false`.
    pub fn tls(mut self, required: bool) -> Self {
        self.common.tls = required;
        self
    }

    /// Trusts these certificate authorities (PEM) instead of the public ones. Needs [`tls`](Self::tls), so that a
    /// plain connection is not mistaken for a verified one. Default: the authorities that browsers trust.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.common.root_certificate = Some(Redacted(pem.into()));
        self
    }

    /// How many entries a stream keeps. Redis drops the oldest ones, even if no consumer has read them. Default:
    /// unlimited.
    pub fn max_length(mut self, entries: usize) -> Self {
        self.max_length = Some(entries);
        self
    }

    /// Whether a stream may keep somewhat more entries than [`max_length`](Self::max_length), which is much cheaper
    /// for Redis. Default: `true`.
    pub fn approximate(mut self, approximate: bool) -> Self {
        self.approximate = approximate;
        self
    }

    /// The message format. Default: [`Format::Raw`].
    pub fn format(mut self, format: Format) -> Self {
        self.common.format = format;
        self
    }

    /// The largest entry in bytes, all fields included. An event with a larger entry is DEAD. Default: 16 MiB.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.common.max_message_bytes = Some(bytes);
        self
    }

    /// How long Redis may take to connect, and to reply to a pipeline. Events without a reply by then are sent
    /// again. A whole call takes at most 9 s, or this timeout if it is longer: keep it below the route's timeout.
    /// Default: 2 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.common.timeout = timeout;
        self
    }

    /// Checks every setting and returns the publisher, which connects on first use.
    ///
    /// # Errors
    ///
    /// A [`PublisherError`] that names the first wrong setting and how to write it.
    pub fn build(self) -> Result<RedisStreamPublisher, PublisherError> {
        self.common.check(&BROKER)?;
        if self.max_length == Some(0) {
            return Err(BROKER.wrong("`maxlen` must be at least 1: with 0 the stream keeps no entries"));
        }
        let Some(stream) = self.stream.as_deref().or(self.common.format.default_target()) else {
            return Err(BROKER.wrong("a stream is missing: write redis-stream://host:6379/0?stream=…"));
        };
        let address = BROKER.address(&self.host, PORT)?;
        Ok(RedisStreamPublisher::new(Settings {
            client: Redacted(self.client(&address)?),
            stream: BROKER.template("stream", stream, |name| AllowedTopics::Any.check(None, name))?,
            server: address.to_string(),
            topics: self.topics,
            max_length: self.max_length,
            approximate: self.approximate,
            common: self.common,
        }))
    }

    fn client(&self, address: &Address) -> Result<Client, PublisherError> {
        let (host, port) = (address.host.clone(), address.port);
        let server_address = if self.common.tls {
            tls::install_default_provider();
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        let mut login = RedisConnectionInfo::default().set_db(self.database);
        if let Some(user) = &self.login.user {
            login = login.set_username(user);
        }
        if let Some(password) = &self.login.password {
            login = login.set_password(password);
        }
        let refused = |_| BROKER.wrong("the client library refuses these settings");
        let connection = server_address.into_connection_info().map_err(refused)?.set_redis_settings(login);
        if !self.common.tls {
            return Client::open(connection).map_err(refused);
        }
        let root_cert = self.common.root_certificate.clone().map(|pem| pem.0);
        if let Some(pem) = &root_cert {
            tls::root_store(pem).map_err(|problem| BROKER.wrong(problem))?;
        }
        let certificates = TlsCertificates { client_tls: None, root_cert };
        Client::build_with_tls(connection, certificates).map_err(refused)
    }
}
