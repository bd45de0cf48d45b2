//! Builder: reads and checks the settings of a Kafka publisher, including those of librdkafka.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, DeliveryResult, ProducerContext};

use super::producer::CurrentProducer;
use super::secrets::Secrets;
use super::{BROKER, Inner, KafkaPublisher, check_topic};
use crate::error::PublisherError;
use crate::format::Format;
use crate::redacted::Redacted;
use crate::settings::{CommonSettings, DEFAULT_TIMEOUT};
use crate::template::Template;
use crate::url::PublisherUrl;

/// Defaults that differ from those of librdkafka. Users can override them.
const DEFAULT_SETTINGS: &[(&str, &str)] = &[
    ("client.id", "posthaste"),
    // Send immediately: a batch is queued as a whole, and a single event must not wait.
    ("linger.ms", "0"),
    // A payload may have 1 MiB, and base64 adds a third.
    ("message.max.bytes", "2097152"),
    // The partitioner of the Java clients, so that a key maps to the same partition for every client.
    ("partitioner", "murmur2_random"),
    ("reconnect.backoff.max.ms", "1000"),
    ("socket.connection.setup.timeout.ms", "5000"),
    ("socket.keepalive.enable", "true"),
    // How long an unknown topic is retried before its events fail. librdkafka's default is 30 s.
    ("topic.metadata.propagation.max.ms", "1000"),
];

/// Partitioners that choose the partition by the key. The variants with `_random` place events without a key
/// randomly.
const KEYED_PARTITIONERS: &[&str] =
    &["consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"];

/// Settings that users cannot change.
const FIXED_SETTINGS: &[(&str, &str)] = &[("acks", "all"), ("enable.idempotence", "true")];

/// Settings of a [`KafkaPublisher`]. Nothing is checked before [`build`](Self::build).
#[derive(Clone, Debug)]
pub struct KafkaBuilder {
    common: CommonSettings,
    hosts: String,
    topic: Option<String>,
    batch: usize,
    /// Settings of librdkafka by name, in the order in which they were set.
    settings: Redacted<Vec<(String, String)>>,
    /// If set, errors do not show names of settings: in a URL, a name may be a part of a password.
    is_from_url: bool,
}

impl KafkaBuilder {
    pub(super) fn new(hosts: String) -> Self {
        Self {
            common: CommonSettings::new(DEFAULT_TIMEOUT, None),
            hosts,
            topic: None,
            batch: 1_000,
            settings: Redacted::default(),
            is_from_url: false,
        }
    }

    pub(super) fn from_url(url: &str) -> Result<Self, PublisherError> {
        let mut url = PublisherUrl::parse(BROKER.name, url)?;
        if url.scheme != BROKER.scheme {
            return Err(url.wrong("write kafka://host:port/topic"));
        }
        let mut builder = Self { is_from_url: true, ..Self::new(url.hosts.join(",")) };
        builder.common.take_limits(&mut url)?;
        builder.topic = Some(std::mem::take(&mut url.path)).filter(|topic| !topic.is_empty());
        builder.batch = url.take_as("batch", "a number of events")?.unwrap_or(builder.batch);
        builder.settings.extend(url.take("ca").map(|file| ("ssl.ca.location".to_owned(), file)));
        if let Some(user) = url.user.take() {
            builder = builder.login(user, url.password.take().unwrap_or_default());
        }
        builder.settings.extend(url.take_rest());
        Ok(builder)
    }

    /// The topic of events that have none of their own: a name, or a template such as `shop.{aggregate_type}`. The
    /// placeholders are `{event_type}`, `{aggregate_type}`, `{aggregate_id}`, `{tenant_id}` and `{header:NAME}`.
    /// Required, except with [`Format::Debezium`], whose default is `outbox.event.{aggregate_type}`.
    pub fn topic(mut self, template: impl Into<String>) -> Self {
        self.topic = Some(template.into());
        self
    }

    /// The message format. Default: [`Format::Raw`].
    pub fn format(mut self, format: Format) -> Self {
        self.common.format = format;
        self
    }

    /// How long a call may take, 1 to 900 s. Events without an acknowledgement by then are unreachable; the last
    /// second is reserved for removing them from librdkafka's queues. Keep it below the route's timeout, which is
    /// 10 s by default: when the route ends a call, all its outcomes are lost and delivered events are sent again.
    /// Default: 9 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.common.timeout = timeout;
        self
    }

    /// The largest number of events per call. Default: 1000.
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// User and password for SASL. With them, `security.protocol` defaults to `SASL_SSL` and `sasl.mechanism` to
    /// `PLAIN`. Default: no login.
    pub fn login(self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.set("sasl.username", user).set("sasl.password", password)
    }

    /// Trusts these certificate authorities (PEM) instead of the system's. With them, `security.protocol` defaults
    /// to `SSL`, or to `SASL_SSL` with a login. Default: the system's authorities.
    pub fn root_certificate(self, pem: impl Into<String>) -> Self {
        self.set("ssl.ca.pem", pem)
    }

    /// Sets a librdkafka setting by name; see its CONFIGURATION.md. [`build`](Self::build) refuses settings that
    /// would break order or durability.
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Checks every setting, including files that settings name, and returns the publisher, which connects on first
    /// use.
    ///
    /// # Errors
    ///
    /// A [`PublisherError`] that names the first wrong setting and how to write it.
    pub fn build(mut self) -> Result<KafkaPublisher, PublisherError> {
        let secrets = Secrets::of(&self.settings);
        let topic = self.template()?;
        let config = self.config(&secrets)?;
        self.common.max_message_bytes = config.get("message.max.bytes").and_then(|bytes| bytes.parse().ok());
        let inner = Inner {
            may_create_topics: config.get("allow.auto.create.topics") != Some("false"),
            topic,
            common: self.common,
            batch: self.batch,
            producer: CurrentProducer::new(config.clone(), secrets.clone()),
            single_message_producer: CurrentProducer::single_message(config, secrets),
        };
        Ok(KafkaPublisher { inner: Arc::new(inner) })
    }

    fn template(&self) -> Result<Template, PublisherError> {
        let topic = self.topic.as_deref().or(self.common.format.default_target());
        let topic = topic.ok_or_else(|| BROKER.wrong("a topic is missing: write kafka://host:port/topic"))?;
        BROKER.template("topic", topic, check_topic)
    }

    fn config(&self, secrets: &Secrets) -> Result<ClientConfig, PublisherError> {
        if self.hosts.split(',').all(|host| host.trim().is_empty()) {
            return Err(BROKER.wrong("a broker is missing: write kafka://host:port/topic"));
        }
        let timeout = self.common.timeout;
        if timeout < Duration::from_secs(1) || timeout > Duration::from_secs(900) {
            return Err(BROKER.wrong("`timeout` must be between 1 and 900 seconds"));
        }
        if self.batch == 0 {
            return Err(BROKER.wrong("`batch` must be at least 1"));
        }
        let mut config = ClientConfig::new();
        config.set_log_level(RDKafkaLogLevel::Info);
        for (name, value) in DEFAULT_SETTINGS {
            config.set(*name, *value);
        }
        // librdkafka looks for expired messages once per second, and must report them before the call's own
        // deadline.
        let wait = (timeout * 3 / 4).as_millis().to_string();
        config.set("message.timeout.ms", &wait).set("request.timeout.ms", &wait);
        for (name, value) in self.settings.iter() {
            self.check(name, value)?;
            config.set(name, value);
        }
        for (name, value) in FIXED_SETTINGS {
            config.set(*name, *value);
        }
        self.secure(&mut config);
        // A producer without brokers connects nowhere, but reads every setting and every file.
        config.create_with_context::<_, BaseProducer<_>>(SilentContext).map_err(|error| {
            BROKER.wrong(format!("the settings do not work together: {}", explain(&error, secrets)))
        })?;
        config.set("bootstrap.servers", &self.hosts);
        Ok(config)
    }

    /// Turns SASL and TLS on if a login or a certificate is set, so that neither is silently ignored.
    fn secure(&self, config: &mut ClientConfig) {
        let has = |name: &str| config.get(name).is_some();
        let (sasl, tls) = (has("sasl.username"), has("ssl.ca.location") || has("ssl.ca.pem"));
        let (protocol, mechanism) =
            (has("security.protocol"), has("sasl.mechanism") || has("sasl.mechanisms"));
        if !protocol && (sasl || tls) {
            config.set("security.protocol", if sasl { "SASL_SSL" } else { "SSL" });
        }
        if sasl && !mechanism {
            config.set("sasl.mechanism", "PLAIN");
        }
    }

    fn check(&self, name: &str, value: &str) -> Result<(), PublisherError> {
        if let Some(why) = why_refused(name, value) {
            return Err(BROKER.wrong(format!("`{name}` cannot have this value: {why}")));
        }
        match ClientConfig::new().set(name, value).create_native_config() {
            Ok(_) => Ok(()),
            Err(KafkaError::ClientConfig(..)) if is_known(name) => {
                Err(BROKER.wrong(format!("`{name}` does not accept this value: see librdkafka's CONFIGURATION.md")))
            }
            Err(_) if self.is_from_url => Err(BROKER.wrong(
                "the URL has an unknown parameter: it takes format, timeout, batch, ca and the settings of librdkafka",
            )),
            Err(_) => Err(BROKER.wrong(format!("`{name}` is not a setting of librdkafka in this build"))),
        }
    }
}

/// Whether the library knows a setting of this name.
fn is_known(name: &str) -> bool {
    let config = ClientConfig::new().create_native_config();
    config.is_ok_and(|config| config.get(name).is_ok())
}

/// The library's error text about settings, without secret values.
fn explain(error: &KafkaError, secrets: &Secrets) -> String {
    let text = match error {
        KafkaError::ClientConfig(_, _, name, _) => format!("`{name}` does not accept its value"),
        KafkaError::ClientCreation(text) => text.clone(),
        error => error.to_string(),
    };
    let text = secrets.redact(&text);
    if cfg!(feature = "kafka-tls") || !text.to_ascii_lowercase().contains("ssl") {
        text
    } else {
        format!("{text} (TLS and SCRAM need the feature kafka-tls)")
    }
}

/// The reason why a setting is refused: its value would break order, durability or delivery reports. `None`
/// if it is accepted.
fn why_refused(name: &str, value: &str) -> Option<&'static str> {
    let number = || value.parse::<i64>().ok();
    Some(match name {
        "enable.idempotence" if value != "true" => "without an idempotent producer, retries change the order",
        "acks" | "request.required.acks" if !matches!(value, "all" | "-1") => {
            "all replicas in sync must acknowledge, or an event can be lost with a broker"
        }
        "max.in.flight.requests.per.connection" | "max.in.flight"
            if !number().is_some_and(|n| (1..=5).contains(&n)) =>
        {
            "an idempotent producer may have 1 to 5 requests in flight"
        }
        "partitioner" if !KEYED_PARTITIONERS.contains(&value) => {
            "a key must stay in its partition: use consistent, murmur2 or fnv1a, with or without _random"
        }
        "plugin.library.paths" => "plugins are not loaded into this process",
        "queuing.strategy" if value != "fifo" => "the order of events must be kept: use fifo",
        "retries" | "message.send.max.retries" => "retries are limited by `timeout` and not by number",
        "message.timeout.ms" | "delivery.timeout.ms" => "it is derived from `timeout`",
        "bootstrap.servers" | "metadata.broker.list" => "the brokers are the hosts of the URL",
        "transactional.id" => "events are sent without Kafka's transactions",
        "delivery.report.only.error" => "every event needs its delivery report",
        "test.mock.num.brokers" => "no event would leave this process",
        "opaque" | "default_topic_conf" | "interceptors" | "log.queue" => "it is set by this publisher",
        _ if name.ends_with("_cb") => "callbacks are set by this publisher",
        _ => return None,
    })
}

/// A context that logs nothing, for a producer that only validates settings.
struct SilentContext;

impl ClientContext for SilentContext {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}
    fn error(&self, _: KafkaError, _: &str) {}
}

impl ProducerContext for SilentContext {
    type DeliveryOpaque = ();
    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(builder: KafkaBuilder) -> String {
        builder.build().expect_err("an error").to_string()
    }

    fn kafka() -> KafkaBuilder {
        KafkaBuilder::new("127.0.0.1:1".to_owned()).topic("orders")
    }

    #[test]
    fn setting_that_breaks_order_or_durability_is_refused_by_name() {
        for (name, value) in [
            ("enable.idempotence", "false"),
            ("acks", "1"),
            ("request.required.acks", "0"),
            ("max.in.flight.requests.per.connection", "6"),
            ("max.in.flight", "1000000"),
            ("queuing.strategy", "lifo"),
            ("partitioner", "random"),
            ("partitioner", "sticky"),
            ("plugin.library.paths", "monitoring-interceptor"),
            ("retries", "0"),
            ("message.send.max.retries", "1"),
            ("delivery.timeout.ms", "1"),
            ("transactional.id", "x"),
            ("delivery.report.only.error", "true"),
            ("dr_msg_cb", "x"),
            ("bootstrap.servers", "other:9092"),
            ("test.mock.num.brokers", "3"),
        ] {
            let text = text(kafka().set(name, value));
            assert!(text.starts_with(&format!("Kafka: `{name}` cannot have this value: ")), "{text}");
        }
    }

    #[test]
    fn setting_that_keeps_order_and_durability_is_accepted() {
        let builder = [
            ("enable.idempotence", "true"),
            ("acks", "-1"),
            ("max.in.flight", "1"),
            ("queuing.strategy", "fifo"),
            ("compression.type", "gzip"),
            ("linger.ms", "20"),
        ]
        .into_iter()
        .chain(KEYED_PARTITIONERS.iter().map(|name| ("partitioner", *name)))
        .fold(kafka(), |builder, (name, value)| builder.set(name, value));
        assert!(builder.build().is_ok());
    }

    #[test]
    fn errors_say_how_to_write_the_setting() {
        for (builder, expected) in [
            (
                KafkaBuilder::new(String::new()).topic("x"),
                "a broker is missing: write kafka://host:port/topic",
            ),
            (KafkaBuilder::new("h".to_owned()), "a topic is missing: write kafka://host:port/topic"),
            (
                kafka().topic("a b"),
                "the name of a topic may contain only letters, digits, dots, underscores and hyphens: `a b`",
            ),
            (kafka().timeout(Duration::ZERO), "`timeout` must be between 1 and 900 seconds"),
            (kafka().batch(0), "`batch` must be at least 1"),
            (kafka().set("linger", "5"), "`linger` is not a setting of librdkafka in this build"),
            (
                kafka().set("linger.ms", "soon"),
                "`linger.ms` does not accept this value: see librdkafka's CONFIGURATION.md",
            ),
        ] {
            assert_eq!(text(builder), format!("Kafka: {expected}"));
        }
        assert!(text(kafka().topic("{type}")).contains("{event_type}"));
        assert!(KafkaBuilder::new("h".to_owned()).format(Format::Debezium).build().is_ok());
    }

    #[cfg(feature = "kafka-tls")]
    #[test]
    fn missing_certificate_file_is_an_error_of_the_builder() {
        let text = text(kafka().set("ssl.ca.location", "/nowhere/ca.pem"));
        assert!(text.starts_with("Kafka: the settings do not work together: "), "{text}");
        assert!(text.contains("ssl.ca.location"), "{text}");
    }

    #[test]
    fn no_text_contains_a_secret() {
        const SECRET: &str = "s3ntinel-PW-9f";
        let with_password = || kafka().login("me", SECRET).set("security.protocol", "SASL_PLAINTEXT");
        assert!(!format!("{:?}", with_password()).contains(SECRET));
        assert!(!format!("{:?}", with_password().build().expect("a publisher")).contains(SECRET));
        for url in [
            "kafka://me:s3ntinel-PW-9f@host:1/orders?s3ntinel-PW-9f=1",
            "kafka://me:x@host:1/orders?linger.ms=s3ntinel-PW-9f",
            "kafka://me:s3ntinel-PW-9f@host:1/orders?sasl.mechanism=NONE",
            "kafka://me:x@host:1/orders?format=s3ntinel-PW-9f",
            "kafka://me:x@host:1/orders?ssl.key.pem=s3ntinel-PW-9f",
            "kafka://me:s3ntinel-PW-9f@host:1/a%20b",
        ] {
            let error = KafkaPublisher::from_url(url).expect_err(url);
            assert!(!format!("{error} {error:?}").contains(SECRET), "{error:?}");
        }
    }
}
