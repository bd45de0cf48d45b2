//! The settings of a publisher: where Redis is, who we are there, and what goes where.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use redis::{Client, ConnectionAddr, IntoConnectionInfo as _, RedisConnectionInfo, TlsCertificates};

use super::allowed_topics::{AllowedTopics, is_outbox_key};
use super::{NAME, RedisStreamPublisher};
use crate::error::PublisherError;
use crate::format::Format;
use crate::template::Template;
use crate::tls;
use crate::url::PublisherUrl;

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);
/// Shorter than the engine's: where that ends a call, what Redis has answered so far is lost.
const CALL_TIMEOUT: Duration = Duration::from_secs(9);
const DEFAULT_MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Builds a [`RedisStreamPublisher`].
#[derive(Clone)]
pub struct RedisStreamBuilder {
    host: String,
    tls: bool,
    database: i64,
    user: Option<String>,
    password: Option<String>,
    authorities: Option<Vec<u8>>,
    authorities_file: Option<PathBuf>,
    stream: Option<String>,
    topics: AllowedTopics,
    max_length: Option<usize>,
    approximate: bool,
    format: Format,
    max_message_bytes: usize,
    timeout: Duration,
}

/// What a publisher is built of; everything in it was checked.
pub(super) struct Settings {
    pub(super) client: Client,
    /// `host:port`, for operators.
    pub(super) server: String,
    pub(super) stream: Template,
    pub(super) topics: AllowedTopics,
    pub(super) max_length: Option<usize>,
    pub(super) approximate: bool,
    pub(super) format: Format,
    pub(super) max_message_bytes: usize,
    pub(super) timeout: Duration,
}

impl RedisStreamBuilder {
    pub(super) fn new(host: String) -> Self {
        Self {
            host,
            tls: false,
            database: 0,
            user: None,
            password: None,
            authorities: None,
            authorities_file: None,
            stream: None,
            topics: AllowedTopics::Any,
            max_length: None,
            approximate: true,
            format: Format::default(),
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            timeout: DEFAULT_TIMEOUT,
        }
    }

    pub(super) fn from_url(url: &str) -> Result<Self, PublisherError> {
        let mut url = PublisherUrl::parse(NAME, url)?;
        let [host] = url.hosts.as_slice() else {
            return Err(url.wrong("write one server: redis-stream://host:6379/0?stream=…"));
        };
        let mut builder = Self::new(host.clone());
        builder.tls = match url.scheme.as_str() {
            "redis-stream" => false,
            "rediss-stream" => true,
            _ => return Err(url.wrong("write redis-stream://host:6379, or rediss-stream://… for TLS")),
        };
        if !url.path.is_empty() {
            let database = url.path.parse();
            builder.database =
                database.map_err(|_| url.wrong("behind the host stands the number of a database"))?;
        }
        builder.user = url.user.take();
        builder.password = url.password.take();
        builder.stream = url.take("stream");
        builder.topics = url.take("topics").map_or(AllowedTopics::Any, |text| AllowedTopics::parse(&text));
        builder.max_length = url.take_as("maxlen", "a number of entries")?;
        builder.approximate = url.take_as("approximate", "true or false")?.unwrap_or(true);
        builder.format = url.take_format()?.unwrap_or_default();
        let bytes = url.take_as("max_message_bytes", "a number of bytes")?;
        builder.max_message_bytes = bytes.unwrap_or(DEFAULT_MAX_MESSAGE_BYTES);
        builder.authorities_file = url.take("ca").map(PathBuf::from);
        let seconds = url.take_as("timeout", "a number of seconds")?;
        builder.timeout = seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        url.finish()?;
        Ok(builder)
    }

    /// The stream of events that name no topic: a text with places such as `{aggregate_type}`. Default: none,
    /// but `outbox.event.{aggregate_type}` with [`Format::Debezium`].
    pub fn stream(mut self, template: impl Into<String>) -> Self {
        self.stream = Some(template.into());
        self
    }

    /// Which topics events may name as their streams: names, and beginnings of names with a `*` behind them, such
    /// as `shop:*`. An event with another topic is dead. Default: any but the keys of an outbox in Redis, which
    /// nothing allows.
    pub fn topics<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.topics = AllowedTopics::These(names.into_iter().map(Into::into).collect());
        self
    }

    /// By user and password. Default: nobody.
    pub fn login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self.password = Some(password.into());
        self
    }

    /// By the password of the default user. Default: nobody.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// The number of the database. Default: 0.
    pub fn database(mut self, number: u32) -> Self {
        self.database = number.into();
        self
    }

    /// Whether to speak TLS. Default: no.
    pub fn tls(mut self, required: bool) -> Self {
        self.tls = required;
        self
    }

    /// The certificate authority to trust, as PEM, in place of those that browsers trust. It demands
    /// [`tls`](Self::tls), so that nobody takes a connection in the clear for one that is checked.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// How many entries a stream keeps: the oldest are dropped, read or not. Default: all.
    pub fn max_length(mut self, entries: usize) -> Self {
        self.max_length = Some(entries);
        self
    }

    /// Whether a stream may keep somewhat more entries than [`max_length`](Self::max_length), which costs
    /// Redis much less. Default: yes.
    pub fn approximate(mut self, approximate: bool) -> Self {
        self.approximate = approximate;
        self
    }

    /// What a message looks like. Default: [`Format::Raw`].
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// An event with more bytes, all fields counted, is dead. Default: 16 MiB.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// How long Redis may take to connect, and to answer. An answer that comes later finds nobody, and the
    /// events come again. A call takes 9 s at most, however many answers it waits for, or as long as this
    /// where this is longer: keep it below the route's timeout. Default: 2 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Checks the settings. Nothing is connected yet.
    pub fn build(self) -> Result<RedisStreamPublisher, PublisherError> {
        let wrong = |problem: String| PublisherError::new(NAME, problem);
        if self.timeout.is_zero() {
            return Err(wrong("the timeout must be longer than nothing".to_owned()));
        }
        if self.max_length == Some(0) {
            return Err(wrong("with maxlen=0 no stream would keep anything".to_owned()));
        }
        if !self.tls && (self.authorities.is_some() || self.authorities_file.is_some()) {
            return Err(wrong(
                "a root certificate needs TLS: write rediss-stream://host:6379, or tls(true) in the builder"
                    .to_owned(),
            ));
        }
        let Some(stream) = self.stream.as_deref().or(self.format.default_target()) else {
            return Err(wrong("write the stream: redis-stream://host:6379/0?stream=…".to_owned()));
        };
        let stream: Template =
            stream.parse().map_err(|error| wrong(format!("the stream cannot be read: {error}")))?;
        if stream.as_text().is_some_and(is_outbox_key) {
            return Err(wrong("the stream is a key of an outbox: write another one".to_owned()));
        }
        let client = self.client()?;
        Ok(RedisStreamPublisher::new(Settings {
            client,
            server: self.host,
            stream,
            topics: self.topics,
            max_length: self.max_length,
            approximate: self.approximate,
            format: self.format,
            max_message_bytes: self.max_message_bytes,
            timeout: self.timeout,
        }))
    }

    fn client(&self) -> Result<Client, PublisherError> {
        let wrong = |problem: &str| PublisherError::new(NAME, problem);
        let (host, port) =
            host_and_port(&self.host).ok_or_else(|| wrong("write the server as host:port or host"))?;
        let server_address = if self.tls {
            tls::install_default_provider();
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        let mut login = RedisConnectionInfo::default().set_db(self.database);
        if let Some(user) = &self.user {
            login = login.set_username(user);
        }
        if let Some(password) = &self.password {
            login = login.set_password(password);
        }
        let refused = |_| wrong("the client library refuses these settings");
        let connection = server_address.into_connection_info().map_err(refused)?.set_redis_settings(login);
        if !self.tls {
            return Client::open(connection).map_err(refused);
        }
        let certificates = TlsCertificates { client_tls: None, root_cert: self.authorities()? };
        Client::build_with_tls(connection, certificates).map_err(refused)
    }

    fn authorities(&self) -> Result<Option<Vec<u8>>, PublisherError> {
        let wrong = |problem: String| PublisherError::new(NAME, problem);
        let pem = match (&self.authorities, &self.authorities_file) {
            (Some(pem), _) => pem.clone(),
            (None, Some(path)) => std::fs::read(path)
                .map_err(|error| wrong(format!("the root certificate cannot be read: {error}")))?,
            (None, None) => return Ok(None),
        };
        tls::root_store(&pem).map_err(wrong)?;
        Ok(Some(pem))
    }
}

/// `host`, `host:port`, `[::1]` or `[::1]:port`.
fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, DEFAULT_PORT),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_host = !host.is_empty() && !host.contains(['/', '@', '?', '#', '[', ']']);
    is_host.then(|| (host.to_owned(), port))
}

impl Settings {
    /// How long a call may take in all.
    pub(super) fn call_timeout(&self) -> Duration {
        self.timeout.max(CALL_TIMEOUT)
    }
}

/// Without who we are.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("server", &self.server)
            .field("stream", &self.stream)
            .field("topics", &self.topics)
            .field("max_length", &self.max_length)
            .field("approximate", &self.approximate)
            .field("format", &self.format)
            .field("max_message_bytes", &self.max_message_bytes)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RedisStreamBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStreamBuilder").field("stream", &self.stream).finish_non_exhaustive()
    }
}
