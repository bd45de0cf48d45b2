//! The settings of a publisher: ours, and those of librdkafka but for what would break order or durability.

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
use crate::hidden::Hidden;
use crate::settings::{CommonSettings, DEFAULT_TIMEOUT};
use crate::template::Template;
use crate::url::PublisherUrl;

/// Unless set otherwise. What an operator need not know stands in the library's own defaults.
const DEFAULT_SETTINGS: &[(&str, &str)] = &[
    ("client.id", "posthaste"),
    // What is there goes out: a batch comes as a whole, and one event waits for nothing.
    ("linger.ms", "0"),
    // A payload may have 1 MiB, in base64 a third more.
    ("message.max.bytes", "2097152"),
    // As Java's clients do, so that a key stays in its partition.
    ("partitioner", "murmur2_random"),
    ("reconnect.backoff.max.ms", "1000"),
    ("socket.connection.setup.timeout.ms", "5000"),
    ("socket.keepalive.enable", "true"),
    // How long a topic may be unknown before its events fail. Half a minute by default.
    ("topic.metadata.propagation.max.ms", "1000"),
];

/// Those that choose by the key. `_random` is about events without one.
const KEYED_PARTITIONERS: &[&str] =
    &["consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"];

/// Never otherwise.
const FIXED_SETTINGS: &[(&str, &str)] = &[("acks", "all"), ("enable.idempotence", "true")];

/// Sets up a [`KafkaPublisher`].
#[derive(Clone, Debug)]
pub struct KafkaBuilder {
    common: CommonSettings,
    hosts: String,
    topic: Option<String>,
    batch: usize,
    settings: Hidden<Vec<(String, String)>>,
    /// Whether names of settings may be shown: in a URL, one may be a part of a password.
    is_from_url: bool,
}

impl KafkaBuilder {
    pub(super) fn new(hosts: String) -> Self {
        Self {
            common: CommonSettings::new(DEFAULT_TIMEOUT, None),
            hosts,
            topic: None,
            batch: 1_000,
            settings: Hidden::default(),
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

    /// The topic of events that name none themselves: a name, or a template such as `shop.{aggregate_type}`.
    /// Places are `{event_type}`, `{aggregate_type}`, `{aggregate_id}`, `{tenant_id}` and `{header:NAME}`.
    /// Default: none, but for [`Format::Debezium`] `outbox.event.{aggregate_type}`.
    pub fn topic(mut self, template: impl Into<String>) -> Self {
        self.topic = Some(template.into());
        self
    }

    /// What a message looks like. Default: [`Format::Raw`].
    pub fn format(mut self, format: Format) -> Self {
        self.common.format = format;
        self
    }

    /// How long a call may take. What the brokers have not acknowledged by then, less up to a second to take
    /// it out of the queues, is unreachable. Default: 9 s. Keep it below the route's timeout, which is 10 s
    /// unless set: a call that the route ends tells nothing, and what it delivered is sent again.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.common.timeout = timeout;
        self
    }

    /// The most events per call. Default: 1000.
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// User and password for SASL. Unless set otherwise, `security.protocol` is then `SASL_SSL` and
    /// `sasl.mechanism` is `PLAIN`. Default: none.
    pub fn login(self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.set("sasl.username", user).set("sasl.password", password)
    }

    /// The certificates, in PEM, of authorities that are trusted instead of the system's. Unless set otherwise,
    /// `security.protocol` is then `SSL`. Default: none.
    pub fn root_certificate(self, pem: impl Into<String>) -> Self {
        self.set("ssl.ca.pem", pem)
    }

    /// A setting of librdkafka by its name, see its CONFIGURATION.md. Those that would break order or
    /// durability are refused.
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Checks all of it. Connects nowhere.
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
        // The library looks for what is late once a second, and has to be done before we give it up.
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
        // Without brokers it connects nowhere, but it reads every setting and every file.
        config.create_with_context::<_, BaseProducer<_>>(SilentContext).map_err(|error| {
            BROKER.wrong(format!("the settings do not fit: {}", explain(&error, secrets)))
        })?;
        config.set("bootstrap.servers", &self.hosts);
        Ok(config)
    }

    /// A password or a certificate is not there to go unused.
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
            return Err(BROKER.wrong(format!("`{name}` cannot be set so: {why}")));
        }
        match ClientConfig::new().set(name, value).create_native_config() {
            Ok(_) => Ok(()),
            Err(KafkaError::ClientConfig(..)) if is_known(name) => {
                Err(BROKER.wrong(format!("`{name}` does not take this value: see librdkafka's CONFIGURATION.md")))
            }
            Err(_) if self.is_from_url => Err(BROKER.wrong(
                "the URL has a parameter that is not known: known are format, timeout, batch, ca and the settings of librdkafka",
            )),
            Err(_) => Err(BROKER.wrong(format!("`{name}` is no setting of librdkafka in this build"))),
        }
    }
}

/// Whether the library knows a setting of this name.
fn is_known(name: &str) -> bool {
    let config = ClientConfig::new().create_native_config();
    config.is_ok_and(|config| config.get(name).is_ok())
}

/// The library's text about settings, without their values.
fn explain(error: &KafkaError, secrets: &Secrets) -> String {
    let text = match error {
        KafkaError::ClientConfig(_, _, name, _) => format!("`{name}` does not take its value"),
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

/// Why a value of a setting would break order, durability or the reports; none if it would not.
fn why_refused(name: &str, value: &str) -> Option<&'static str> {
    let number = || value.parse::<i64>().ok();
    Some(match name {
        "enable.idempotence" if value != "true" => "the producer is idempotent, or retries change the order",
        "acks" | "request.required.acks" if !matches!(value, "all" | "-1") => {
            "all replicas in sync acknowledge, or an event is lost with a broker"
        }
        "max.in.flight.requests.per.connection" | "max.in.flight"
            if !number().is_some_and(|n| (1..=5).contains(&n)) =>
        {
            "an idempotent producer has 1 to 5 requests on the way"
        }
        "partitioner" if !KEYED_PARTITIONERS.contains(&value) => {
            "a key stays in its partition: take consistent, murmur2 or fnv1a, with or without _random"
        }
        "plugin.library.paths" => "no other library is loaded into this process",
        "queuing.strategy" if value != "fifo" => "the order of events is kept: it is fifo",
        "retries" | "message.send.max.retries" => "`timeout` ends retries, not their number",
        "message.timeout.ms" | "delivery.timeout.ms" => "it follows from `timeout`",
        "bootstrap.servers" | "metadata.broker.list" => "brokers are the hosts of the URL",
        "transactional.id" => "events are sent without Kafka's transactions",
        "delivery.report.only.error" => "every event needs its report",
        "test.mock.num.brokers" => "nothing would leave this process",
        "opaque" | "default_topic_conf" | "interceptors" | "log.queue" => "it is set by this publisher",
        _ if name.ends_with("_cb") => "callbacks are this publisher's own",
        _ => return None,
    })
}

/// Says nothing: it is only there for a moment.
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
    fn what_breaks_order_or_durability_is_refused_by_name() {
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
            assert!(text.starts_with(&format!("Kafka: `{name}` cannot be set so: ")), "{text}");
        }
    }

    #[test]
    fn what_keeps_them_is_taken() {
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
    fn mistakes_say_what_to_write() {
        for (builder, expected) in [
            (
                KafkaBuilder::new(String::new()).topic("x"),
                "a broker is missing: write kafka://host:port/topic",
            ),
            (KafkaBuilder::new("h".to_owned()), "a topic is missing: write kafka://host:port/topic"),
            (
                kafka().topic("a b"),
                "the name of a topic may hold letters, digits, dots, underscores and hyphens only: `a b`",
            ),
            (kafka().timeout(Duration::ZERO), "`timeout` must be between 1 and 900 seconds"),
            (kafka().batch(0), "`batch` must be at least 1"),
            (kafka().set("linger", "5"), "`linger` is no setting of librdkafka in this build"),
            (
                kafka().set("linger.ms", "soon"),
                "`linger.ms` does not take this value: see librdkafka's CONFIGURATION.md",
            ),
        ] {
            assert_eq!(text(builder), format!("Kafka: {expected}"));
        }
        assert!(text(kafka().topic("{type}")).contains("{event_type}"));
        assert!(KafkaBuilder::new("h".to_owned()).format(Format::Debezium).build().is_ok());
    }

    #[cfg(feature = "kafka-tls")]
    #[test]
    fn file_of_certificates_that_is_not_there_is_found_out_at_once() {
        let text = text(kafka().set("ssl.ca.location", "/nowhere/ca.pem"));
        assert!(text.starts_with("Kafka: the settings do not fit: "), "{text}");
        assert!(text.contains("ssl.ca.location"), "{text}");
    }

    #[test]
    fn no_text_tells_a_secret() {
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
