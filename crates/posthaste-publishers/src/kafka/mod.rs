//! Apache Kafka destination, with an idempotent producer of librdkafka.
//!
//! - `builder` reads and checks the settings, and refuses those that would break order or durability.
//! - `secrets` keeps secret settings out of every text.
//! - `producer` holds the producer in use and the in-flight batches that its delivery reports complete.
//! - `outcome` turns a delivery report into an outcome.
//! - `check` implements the check of the brokers, `diagnose` the diagnosis of the topic's durability.

mod builder;
mod check;
mod diagnose;
mod outcome;
mod producer;
mod secrets;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Delivery, Destination, Outcome, Profile};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::Instant;

use crate::error::PublisherError;
use crate::format::Message;
use crate::settings::{Broker, CommonSettings};
use crate::template::Template;
use crate::unsendable::Unsendable;

pub use builder::KafkaBuilder;
use outcome::ReportContext;
use producer::{CurrentProducer, InFlightBatch, PURGE_TIMEOUT, Producer};

const BROKER: Broker = Broker { name: "Kafka", scheme: "kafka", tls_scheme: "kafka" };

/// The prefix of CloudEvents attributes in headers, from the Kafka binding of CloudEvents.
const CLOUD_EVENTS_HEADER_PREFIX: &str = "ce_";

/// Writes events to topics of Apache Kafka: `kafka://host:9092,host:9092/topic?format=raw`.
///
/// The key of a message is the event's aggregate id; it maps to the same partition as with Java clients. The
/// producer is idempotent and waits for all replicas in sync. An event is delivered when its delivery report says
/// so. The topic is the event's own, or else the configured template, or else the default of the format.
///
/// Clones share the producer.
///
/// ```
/// use posthaste_publishers::Format;
/// use posthaste_publishers::kafka::KafkaPublisher;
///
/// let kafka = KafkaPublisher::builder("localhost:9092")
///     .topic("shop.{aggregate_type}")
///     .format(Format::CloudEvents)
///     .set("compression.type", "lz4")
///     .build()?;
/// # let _ = kafka;
/// # Ok::<(), posthaste_publishers::PublisherError>(())
/// ```
#[derive(Clone)]
pub struct KafkaPublisher {
    inner: Arc<Inner>,
}

struct Inner {
    topic: Template,
    common: CommonSettings,
    /// The largest number of events per call.
    batch: usize,
    /// Whether fetching a topic's metadata may create it (`allow.auto.create.topics`).
    may_create_topics: bool,
    producer: CurrentProducer,
    /// Sends each message in a request of its own, for messages that failed because a broker refused their whole
    /// request.
    single_message_producer: CurrentProducer,
}

/// The deadlines of one call, shared by the two batches that it may send. The call must end by itself: when the
/// route ends it, the outcomes of delivered events are lost and the remaining events stay in librdkafka's queues.
#[derive(Clone, Copy)]
struct CallDeadlines {
    /// The deadline for delivery reports.
    reports: Instant,
    /// When the call ends. Between `reports` and `end`, events without a report are purged from the queues.
    end: Instant,
}

impl CallDeadlines {
    fn of(timeout: Duration) -> Self {
        let end = Instant::now() + timeout;
        Self { reports: end - PURGE_TIMEOUT.min(timeout / 5), end }
    }
}

impl KafkaPublisher {
    /// Starts a builder for the brokers at `host:port,host:port`.
    pub fn builder(hosts: impl Into<String>) -> KafkaBuilder {
        KafkaBuilder::new(hosts.into())
    }

    /// Builds a publisher from `kafka://user:password@host:9092,host:9092/topic?format=…`.
    ///
    /// User and password are for SASL. With them, the connection uses TLS and the mechanism PLAIN unless set
    /// otherwise. The parameters are `format`, `timeout` in seconds, `batch`, `ca` (a file of certificates), and
    /// every setting of librdkafka by its name; see [`KafkaBuilder`].
    ///
    /// # Errors
    ///
    /// A [`PublisherError`] that names the wrong setting.
    pub fn from_url(url: &str) -> Result<Self, PublisherError> {
        KafkaBuilder::from_url(url)?.build()
    }

    /// Sends the events with the indexes `which` and waits for their delivery reports. Writes their outcomes, and
    /// returns the indexes of the events that must be sent again with one message per request.
    async fn send_batch(
        &self,
        current: &CurrentProducer,
        batch: &[Delivery],
        which: &[usize],
        outcomes: &mut [Option<Outcome>],
        deadlines: CallDeadlines,
    ) -> Vec<usize> {
        let producer = match current.get() {
            Ok(producer) => producer,
            Err(why) => {
                for &at in which {
                    outcomes[at] = Some(Outcome::no_connection(why.clone()));
                }
                return Vec::new();
            }
        };
        let in_flight = Arc::new(InFlightBatch::new(batch.len(), which.len()));
        for &at in which {
            if let Err(unsendable) = self.send(&producer, &in_flight, at, &batch[at], deadlines.reports).await
            {
                outcomes[at] = Some(unsendable.into());
                in_flight.complete(at, Code::NoError);
            }
        }
        if !producer.wait_for_reports(&in_flight, deadlines.reports).await {
            current.give_up(&producer).await;
            producer.wait_for_purge(&in_flight, deadlines.end).await;
        }
        self.record_outcomes(&producer, &in_flight, batch, which, outcomes)
    }

    fn record_outcomes(
        &self,
        producer: &Producer,
        in_flight: &InFlightBatch,
        batch: &[Delivery],
        which: &[usize],
        outcomes: &mut [Option<Outcome>],
    ) -> Vec<usize> {
        let (codes, health) = (in_flight.codes(), producer.health());
        let mut again = Vec::new();
        for &at in which {
            match codes[at] {
                _ if outcomes[at].is_some() => {}
                Some(Code::NoError) => outcomes[at] = Some(Outcome::done()),
                Some(code)
                    if !producer.is_single_message() && outcome::may_be_about_another_message(code) =>
                {
                    again.push(at);
                }
                code => {
                    let context = ReportContext {
                        topic: &self.inner.topic.target(&batch[at]).unwrap_or_default(),
                        bytes: size(&batch[at], &self.message(&batch[at])),
                        timeout: self.inner.common.timeout,
                        health: &health,
                    };
                    outcomes[at] = Some(outcome::of_report(code, &context));
                }
            }
        }
        again
    }

    /// Hands one event to the producer. Waits while the producer's queue is full.
    async fn send(
        &self,
        producer: &Producer,
        in_flight: &Arc<InFlightBatch>,
        at: usize,
        delivery: &Delivery,
        deadline: Instant,
    ) -> Result<(), Unsendable> {
        let topic = self.inner.topic.target(delivery)?;
        check_topic(&topic)?;
        let message = self.message(delivery);
        self.inner.common.check_size(size(delivery, &message))?;
        if let Some((name, _)) = message.headers.iter().find(|(name, _)| name.contains('\0')) {
            return Err(Unsendable::new(format!(
                "the name of a header cannot contain a NUL character: `{name}`"
            )));
        }
        let key = delivery.aggregate_id();
        while producer.send(&topic, key, &message, in_flight, at) == Err(Code::QueueFull) {
            if !producer.wait_for_room(deadline).await {
                in_flight.complete(at, Code::QueueFull);
                return Ok(());
            }
        }
        Ok(())
    }

    fn message<'a>(&self, delivery: &'a Delivery) -> Message<'a> {
        self.inner.common.format.message(delivery, CLOUD_EVENTS_HEADER_PREFIX)
    }
}

fn size(delivery: &Delivery, message: &Message<'_>) -> usize {
    message.size() + delivery.aggregate_id().map_or(0, str::len)
}

#[async_trait]
impl Destination for KafkaPublisher {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let deadlines = CallDeadlines::of(self.inner.common.timeout);
        let mut outcomes: Vec<Option<Outcome>> = batch.iter().map(|_| None).collect();
        let all: Vec<usize> = (0..batch.len()).collect();
        let again = self.send_batch(&self.inner.producer, batch, &all, &mut outcomes, deadlines).await;
        if !again.is_empty() {
            self.send_batch(&self.inner.single_message_producer, batch, &again, &mut outcomes, deadlines)
                .await;
        }
        let unknown = || Outcome::no_answer("Kafka: there was no delivery report");
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(unknown)).collect()
    }

    fn profile(&self) -> Profile {
        Profile::publisher(self.inner.batch)
    }
}

/// Leaves out the settings of librdkafka: each may be a secret.
impl fmt::Debug for KafkaPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaPublisher")
            .field("hosts", &self.inner.producer.hosts())
            .field("topic", &self.inner.topic)
            .field("common", &self.inner.common)
            .finish_non_exhaustive()
    }
}

/// Checks a topic name by the rules of the brokers. Names that begin with two underscores are Kafka's internal
/// topics.
fn check_topic(topic: &str) -> Result<(), Unsendable> {
    const MAX_TOPIC_BYTES: usize = 249;
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let problem = match topic {
        "" => "is empty",
        "." | ".." => "cannot be only dots",
        _ if topic.len() > MAX_TOPIC_BYTES => "has more than 249 bytes",
        _ if !topic.chars().all(legal) => "may contain only letters, digits, dots, underscores and hyphens",
        _ if topic.starts_with("__") => "is reserved for Kafka's internal topics",
        _ => return Ok(()),
    };
    Err(Unsendable::new(format!("the name of a topic {problem}: `{topic}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names_follow_the_rules_of_the_brokers() {
        for topic in ["orders", "Shop.Order-1_x", "_private", "...", "-1", &"x".repeat(249)] {
            assert_eq!(check_topic(topic), Ok(()), "{topic}");
        }
        for topic in
            ["", ".", "..", "a b", "a/b", "größe", "a\0", "a\n", "__consumer_offsets", &"x".repeat(250)]
        {
            assert!(check_topic(topic).is_err(), "{topic}");
        }
    }
}
