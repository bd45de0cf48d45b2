//! Apache Kafka, by an idempotent producer of librdkafka.
//!
//! - `builder` checks what was set, and refuses what would break order or durability.
//! - `secrets` keeps secret settings out of every text.
//! - `producer` is the producer in use, the events in flight, and the delivery reports that complete them.
//! - `outcome` says what a report means for its event.
//! - `check` asks whether the brokers are there, `diagnose` whether they keep what they take.

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

/// What the names of CloudEvents' headers begin with, by its binding for Kafka.
const CLOUD_EVENTS_HEADER_PREFIX: &str = "ce_";

/// Writes events to topics of Apache Kafka: `kafka://host:9092,host:9092/topic?format=raw`.
///
/// The key of a message is the event's aggregate id, and its partition the one that Java clients choose. The
/// producer is idempotent and waits for all replicas in sync; an event is delivered when the report about it
/// says so. The topic is that of the event if it names one, else the template's, else the format's.
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
    batch: usize,
    /// Whether a question for a topic may make it, by `allow.auto.create.topics`.
    may_create_topics: bool,
    producer: CurrentProducer,
    /// Sends each message in a request of its own, for those that came to nothing because of their neighbours.
    single_message_producer: CurrentProducer,
}

/// The deadlines of one call, for both of the batches that it may send. It answers itself: whoever ends it from outside
/// gets no outcome of what was delivered, and leaves the rest in the queues.
#[derive(Clone, Copy)]
struct CallDeadlines {
    /// Reports are waited for until then.
    reports: Instant,
    /// The call is over, and what had no report is purged.
    end: Instant,
}

impl CallDeadlines {
    fn of(timeout: Duration) -> Self {
        let end = Instant::now() + timeout;
        Self { reports: end - PURGE_TIMEOUT.min(timeout / 5), end }
    }
}

impl KafkaPublisher {
    /// For the brokers at `host:port,host:port`.
    pub fn builder(hosts: impl Into<String>) -> KafkaBuilder {
        KafkaBuilder::new(hosts.into())
    }

    /// From `kafka://user:password@host:9092,host:9092/topic?format=…`.
    ///
    /// User and password are those of SASL; with them the connection is TLS and the mechanism PLAIN unless
    /// set otherwise. Parameters are `format`, `timeout` in seconds, `batch`, `ca` (a file of certificates),
    /// and every setting of librdkafka by its name.
    pub fn from_url(url: &str) -> Result<Self, PublisherError> {
        KafkaBuilder::from_url(url)?.build()
    }

    /// Sends these events of a batch with one producer and waits for the reports. Answers those that have to be
    /// sent again alone; the others have an outcome then.
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

    /// Hands one event to the producer; waits while its queue is full.
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
            return Err(Unsendable::new(format!("the name of a header cannot hold a NUL: `{name}`")));
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
        let unknown = || Outcome::no_answer("Kafka: nothing was reported");
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(unknown)).collect()
    }

    fn profile(&self) -> Profile {
        Profile::publisher(self.inner.batch)
    }
}

/// No settings: each may be a secret.
impl fmt::Debug for KafkaPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaPublisher")
            .field("hosts", &self.inner.producer.hosts())
            .field("topic", &self.inner.topic)
            .field("common", &self.inner.common)
            .finish_non_exhaustive()
    }
}

/// What brokers take for a name. Those that begin with two underscores are Kafka's own.
fn check_topic(topic: &str) -> Result<(), Unsendable> {
    const MAX_TOPIC_BYTES: usize = 249;
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let problem = match topic {
        "" => "is empty",
        "." | ".." => "cannot be only dots",
        _ if topic.len() > MAX_TOPIC_BYTES => "has more than 249 bytes",
        _ if !topic.chars().all(legal) => "may hold letters, digits, dots, underscores and hyphens only",
        _ if topic.starts_with("__") => "is one of Kafka's own",
        _ => return Ok(()),
    };
    Err(Unsendable::new(format!("the name of a topic {problem}: `{topic}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_those_that_brokers_take() {
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
