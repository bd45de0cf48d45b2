//! The Kafka producer: sends messages, tracks the health of its brokers, and completes in-flight batches from
//! delivery reports.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, PurgeConfig, ThreadedProducer,
};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::secrets::Secrets;
use crate::format::Message;

/// A producer counts as down when all of its brokers have been down for this long. librdkafka reconnects in the
/// meantime, so a broker that is back within this time causes no failure.
const BROKERS_DOWN_GRACE: Duration = Duration::from_secs(1);

/// The next step for an operator when brokers do not reply.
pub(super) const BROKERS_DOWN_ADVICE: &str =
    "check host and port, that the brokers run, and whether they require TLS or a login";

const CONTENT_TYPE: &str = "content-type";

/// How long the delivery reports of purged messages may take.
pub(super) const PURGE_TIMEOUT: Duration = Duration::from_secs(1);

/// The producer in use. Created on first use, and replaced after it lost all brokers or failed permanently. The
/// messages that the old producer still holds are purged, so that none is sent late. The new producer starts a new
/// sequence, so a gap in the old one does not matter.
pub(super) struct CurrentProducer {
    config: ClientConfig,
    secrets: Secrets,
    is_single_message: bool,
    /// `None` before the first use and after a producer was given up. Locked only to read or replace it.
    current: Mutex<Option<Arc<Producer>>>,
}

impl CurrentProducer {
    pub(super) fn new(config: ClientConfig, secrets: Secrets) -> Self {
        Self { config, secrets, is_single_message: false, current: Mutex::default() }
    }

    /// A producer that sends one message per request.
    pub(super) fn single_message(mut config: ClientConfig, secrets: Secrets) -> Self {
        config.set("batch.num.messages", "1");
        Self { is_single_message: true, ..Self::new(config, secrets) }
    }

    pub(super) fn hosts(&self) -> &str {
        self.config.get("bootstrap.servers").unwrap_or_default()
    }

    /// Returns the producer in use, or creates one. Returns the error text if none can be created.
    pub(super) fn get(&self) -> Result<Arc<Producer>, String> {
        let mut current = self.current();
        if let Some(producer) = current.as_ref().filter(|producer| !producer.health().is_down(Instant::now()))
        {
            return Ok(Arc::clone(producer));
        }
        let producer = Producer::new(&self.config, self.secrets.clone(), self.is_single_message);
        let producer = Arc::new(producer.map_err(|error| {
            format!("Kafka: the producer cannot be created: {}", self.secrets.redact(&error.to_string()))
        })?);
        *current = Some(Arc::clone(&producer));
        Ok(producer)
    }

    /// Takes a producer out of use and purges its queues.
    pub(super) async fn give_up(&self, producer: &Arc<Producer>) {
        {
            let mut current = self.current();
            if current.as_ref().is_some_and(|other| Arc::ptr_eq(other, producer)) {
                *current = None;
            }
        }
        let producer = Arc::clone(producer);
        // `purge` blocks while librdkafka's own thread resolves a host name.
        drop(tokio::task::spawn_blocking(move || producer.purge()));
    }

    /// Returns the topic's `min.insync.replicas`; `None` if the brokers do not reveal it to this user.
    pub(super) async fn min_in_sync(&self, topic: &str, wait: Duration) -> Option<usize> {
        let state = Arc::new(ProducerState::new(self.secrets.clone()));
        let admin: AdminClient<ProducerCallbacks> =
            self.config.create_with_context(ProducerCallbacks(state)).ok()?;
        let options = AdminOptions::new().request_timeout(Some(wait));
        let described =
            timeout(wait, admin.describe_configs([&ResourceSpecifier::Topic(topic)], &options)).await;
        drop_on_thread(admin);
        let settings = described.ok()?.ok()?.pop()?.ok()?;
        settings.get("min.insync.replicas")?.value.as_ref()?.parse().ok()
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Producer>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A librdkafka producer and the state that its callbacks report.
pub(super) struct Producer {
    /// librdkafka's producer. `None` only while this value is dropped.
    rdkafka: Option<ThreadedProducer<ProducerCallbacks>>,
    state: Arc<ProducerState>,
    is_single_message: bool,
}

/// State that the callbacks write, on rdkafka's polling thread, and the publisher reads.
struct ProducerState {
    health: watch::Sender<ProducerHealth>,
    /// Whether `health` differs from its default. An atomic, because it is read for every delivery report.
    is_unhealthy: AtomicBool,
    /// Notified by every delivery report, which frees room in the queue.
    queue_room: Notify,
    secrets: Secrets,
}

/// What a producer has reported about its brokers and itself. The default is healthy.
#[derive(Clone, Debug, Default)]
pub(super) struct ProducerHealth {
    /// Since when all brokers are down, by the error callback. `None` before the first connection fails. Stays set
    /// until a message is delivered or a broker replies with metadata.
    down_since: Option<Instant>,
    /// Set once the producer has failed permanently. It never sends again.
    fatal: bool,
    /// The last error text of librdkafka, without secrets.
    why: Option<String>,
}

impl ProducerHealth {
    /// When the producer will count as down if its health stays as it is. `None` while it is healthy.
    fn down_at(&self) -> Option<Instant> {
        if self.fatal {
            Some(Instant::now())
        } else {
            self.down_since.map(|since| since + BROKERS_DOWN_GRACE)
        }
    }

    fn is_down(&self, now: Instant) -> bool {
        self.fatal || self.down_since.is_some_and(|since| since + BROKERS_DOWN_GRACE <= now)
    }

    /// The reason why nothing can be sent; `None` if the producer is healthy.
    pub(super) fn no_connection(&self) -> Option<String> {
        let why = self.why.as_deref().unwrap_or("no reason was given");
        if self.fatal {
            return Some(format!("the producer failed and is replaced: {why}"));
        }
        // The advice comes first, because the library's text is long and may be cut.
        self.down_since.map(|_| format!("no broker can be reached ({BROKERS_DOWN_ADVICE}): {why}"))
    }
}

impl Producer {
    fn new(config: &ClientConfig, secrets: Secrets, is_single_message: bool) -> Result<Self, KafkaError> {
        let state = Arc::new(ProducerState::new(secrets));
        let rdkafka = config.create_with_context(ProducerCallbacks(Arc::clone(&state)))?;
        Ok(Self { rdkafka: Some(rdkafka), state, is_single_message })
    }

    pub(super) fn is_single_message(&self) -> bool {
        self.is_single_message
    }

    pub(super) fn health(&self) -> ProducerHealth {
        let mut health = self.state.health.borrow().clone();
        // After a fatal error librdkafka first returns the messages and calls the error callback later, so `fatal` may
        // not be set yet.
        if let Some((_, why)) = self.rdkafka().client().fatal_error() {
            health.fatal = true;
            health.why = Some(self.state.secrets.redact(&why));
        }
        health
    }

    /// Queues a message. If that fails because the queue is full, the caller may try again. Any other error is the
    /// report of the event.
    pub(super) fn send(
        &self,
        topic: &str,
        key: Option<&str>,
        message: &Message<'_>,
        batch: &Arc<InFlightBatch>,
        at: usize,
    ) -> Result<(), Code> {
        let report = Box::new(DeliveryReport { batch: Arc::clone(batch), at });
        let mut record = BaseRecord::<str, [u8], Box<DeliveryReport>>::with_opaque_to(topic, report)
            .payload(&*message.body)
            .headers(headers(message));
        record.key = key;
        let Err((error, record)) = self.rdkafka().send(record) else { return Ok(()) };
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        if code != Code::QueueFull {
            self.state.note_error(code, None);
            record.delivery_opaque.complete(code);
        }
        Err(code)
    }

    /// Waits until the producer's queue may have room. Returns `false` without waiting if the deadline has passed or
    /// the producer is down: the caller asks for each remaining event, and would otherwise wait for each of them.
    pub(super) async fn wait_for_room(&self, deadline: Instant) -> bool {
        let now = Instant::now();
        if now >= deadline || self.health().is_down(now) {
            return false;
        }
        // A report that arrived since the queue was found full is missed, so the wait is short.
        let _ = timeout(Duration::from_millis(20), self.state.queue_room.notified()).await;
        true
    }

    /// Waits until every event has its report. Returns `false` at the deadline, or once the producer is down.
    pub(super) async fn wait_for_reports(&self, batch: &InFlightBatch, deadline: Instant) -> bool {
        self.wait_unless_down(batch.wait_for_all(), deadline).await.is_some()
    }

    /// Awaits a future. Returns `None` at the deadline, or once the producer is down.
    async fn wait_unless_down<T>(&self, wanted: impl Future<Output = T>, deadline: Instant) -> Option<T> {
        let mut health = self.state.health.subscribe();
        let mut wanted = std::pin::pin!(wanted);
        loop {
            let until = health.borrow_and_update().down_at().map_or(deadline, |until| until.min(deadline));
            tokio::select! {
                biased;
                wanted = &mut wanted => return Some(wanted),
                _ = health.changed() => {}
                () = tokio::time::sleep_until(until) => return None,
            }
        }
    }

    /// Fetches the metadata of this topic, or of all topics. Returns `NoError`, or the error of the topic or of the
    /// request; `None` if no broker replies in time.
    pub(super) async fn probe(self: &Arc<Self>, topic: Option<&str>, wait: Duration) -> Option<Code> {
        let topic = topic.map(str::to_owned);
        let probe = move |producer: &Self| producer.fetch_metadata(topic.as_deref(), wait, |_| Code::NoError);
        self.call_blocking(probe, wait).await.map(|code| code.unwrap_or_else(|code| code))
    }

    /// Returns the number of replicas of the topic's partition that has the fewest: zero if the topic does not
    /// exist, `None` if no broker replies. Fetches all topics, because fetching a single one may create it.
    pub(super) async fn replicas(self: &Arc<Self>, topic: &str, wait: Duration) -> Option<usize> {
        let topic = topic.to_owned();
        let fewest = move |metadata: &Metadata| {
            let topic = metadata.topics().iter().find(|known| known.name() == topic);
            let partitions = topic.into_iter().flat_map(MetadataTopic::partitions);
            partitions.map(|partition| partition.replicas().len()).min().unwrap_or_default()
        };
        self.call_blocking(move |producer| producer.fetch_metadata(None, wait, fewest), wait).await?.ok()
    }

    /// Runs a blocking librdkafka call on a thread of its own. A thread of the runtime would delay the runtime's
    /// shutdown until the call returns.
    async fn call_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        call: impl FnOnce(&Self) -> T + Send + 'static,
        wait: Duration,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        let producer = Arc::clone(self);
        let call = move || {
            let _ = sender.send(call(&producer));
        };
        std::thread::Builder::new().name("kafka check".to_owned()).spawn(call).ok()?;
        self.wait_unless_down(receiver, Instant::now() + wait).await?.ok()
    }

    fn fetch_metadata<T>(
        &self,
        topic: Option<&str>,
        wait: Duration,
        read: impl FnOnce(&Metadata) -> T,
    ) -> Result<T, Code> {
        let metadata = self.rdkafka().client().fetch_metadata(topic, wait);
        let metadata = metadata.map_err(|error| error.rdkafka_error_code().unwrap_or(Code::Fail))?;
        // A reply proves that a broker is reachable, so earlier connection errors are cleared.
        self.state.note_report(Code::NoError);
        let of_topic = metadata.topics().first().filter(|_| topic.is_some());
        match of_topic.and_then(MetadataTopic::error) {
            Some(error) => Err(Code::from(error)),
            None => Ok(read(&metadata)),
        }
    }

    /// Waits for the delivery reports of the purged messages.
    pub(super) async fn wait_for_purge(&self, batch: &InFlightBatch, deadline: Instant) {
        let _ = timeout_at(deadline.min(Instant::now() + PURGE_TIMEOUT), batch.wait_for_all()).await;
    }

    fn purge(&self) {
        self.rdkafka().purge(PurgeConfig::default().queue().inflight());
    }

    fn rdkafka(&self) -> &ThreadedProducer<ProducerCallbacks> {
        self.rdkafka.as_ref().expect("it is taken when the producer is dropped")
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        drop_on_thread(self.rdkafka.take());
    }
}

/// Drops a librdkafka client on a thread of its own, because that blocks for some tenths of a second.
fn drop_on_thread(client: impl Send + 'static) {
    let _ = std::thread::Builder::new().name("kafka end".to_owned()).spawn(move || drop(client));
}

fn headers(message: &Message<'_>) -> OwnedHeaders {
    let mut headers = OwnedHeaders::new_with_capacity(message.headers.len() + 1);
    // The format determines the content type, so a header of the event with this name is left out.
    let is_kept = |name: &str| !name.eq_ignore_ascii_case(CONTENT_TYPE);
    for (name, value) in message.headers.iter().filter(|(name, _)| is_kept(name)) {
        headers = headers.insert(Header { key: name, value: Some(value.as_bytes()) });
    }
    headers.insert(Header { key: CONTENT_TYPE, value: Some(message.content_type.as_bytes()) })
}

/// The in-flight events of one call and their delivery reports.
pub(super) struct InFlightBatch {
    codes: Mutex<ReportedCodes>,
    /// Notified when the last report has arrived.
    all_reported: Notify,
}

struct ReportedCodes {
    /// One entry per event of the batch; `None` until its report arrives. Written by the delivery callback, and by the
    /// publisher for events that could not be queued.
    codes: Vec<Option<Code>>,
    /// How many reports are outstanding.
    left: usize,
}

impl InFlightBatch {
    /// For a batch of `batch_len` events, of which `count` are sent.
    pub(super) fn new(batch_len: usize, count: usize) -> Self {
        let codes = ReportedCodes { codes: vec![None; batch_len], left: count };
        Self { codes: Mutex::new(codes), all_reported: Notify::new() }
    }

    pub(super) fn complete(&self, at: usize, code: Code) {
        let mut reported = self.lock();
        if reported.codes[at].replace(code).is_none() {
            reported.left -= 1;
            if reported.left == 0 {
                self.all_reported.notify_one();
            }
        }
    }

    pub(super) fn codes(&self) -> Vec<Option<Code>> {
        self.lock().codes.clone()
    }

    async fn wait_for_all(&self) {
        while self.lock().left > 0 {
            self.all_reported.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReportedCodes> {
        self.codes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The opaque value of a message: librdkafka hands it back with the delivery report.
struct DeliveryReport {
    batch: Arc<InFlightBatch>,
    at: usize,
}

impl DeliveryReport {
    fn complete(&self, code: Code) {
        self.batch.complete(self.at, code);
    }
}

/// The callbacks of a producer. They run on rdkafka's polling thread.
struct ProducerCallbacks(Arc<ProducerState>);

impl ProducerContext for ProducerCallbacks {
    type DeliveryOpaque = Box<DeliveryReport>;

    fn delivery(&self, result: &DeliveryResult<'_>, report: Box<DeliveryReport>) {
        let code = match result {
            Ok(_) => Code::NoError,
            Err((error, _)) => error.rdkafka_error_code().unwrap_or(Code::Fail),
        };
        self.0.note_report(code);
        report.complete(code);
    }
}

impl ClientContext for ProducerCallbacks {
    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        self.0.note_error(code, Some(reason));
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        let text = self.0.secrets.redact(text);
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => tracing::warn!(facility, "librdkafka: {text}"),
            _ => tracing::debug!(facility, "librdkafka: {text}"),
        }
    }

    /// Logs librdkafka's statistics like its log lines. They arrive only if `statistics.interval.ms` is set.
    fn stats_raw(&self, statistics: &[u8]) {
        tracing::debug!("librdkafka: {}", String::from_utf8_lossy(statistics));
    }
}

impl ProducerState {
    fn new(secrets: Secrets) -> Self {
        Self {
            health: watch::Sender::default(),
            is_unhealthy: AtomicBool::new(false),
            queue_room: Notify::new(),
            secrets,
        }
    }

    /// Records a delivery report or a reply with metadata. A success proves that a broker is reachable and resets the
    /// health.
    fn note_report(&self, code: Code) {
        self.queue_room.notify_waiters();
        if code == Code::NoError && self.is_unhealthy.load(Ordering::Acquire) {
            self.is_unhealthy.store(false, Ordering::Release);
            self.health.send_if_modified(|health| {
                if !health.fatal {
                    *health = ProducerHealth::default();
                }
                !health.fatal
            });
        }
    }

    /// Records an error of librdkafka.
    fn note_error(&self, code: Code, reason: Option<&str>) {
        let why = reason.map(|reason| self.secrets.redact(reason));
        self.health.send_modify(|health| match code {
            Code::AllBrokersDown => {
                health.down_since.get_or_insert_with(Instant::now);
            }
            Code::Fatal => {
                health.fatal = true;
                health.why = why.or(health.why.take());
            }
            _ => health.why = why.or(health.why.take()),
        });
        self.is_unhealthy.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use posthaste::{Delivery, Event};
    use rdkafka::message::Headers as _;

    use super::*;
    use crate::format::Format;

    #[test]
    fn content_type_header_of_an_event_does_not_replace_the_formats() {
        let event = Event::builder("Made").header("Content-Type", "text/forged").header("region", "eu");
        let delivery = Delivery::first(event.json_text("1").build().expect("a good event"));
        let headers = headers(&Format::CloudEventsStructured.message(&delivery, "ce_"));
        let values = |wanted: &str| -> Vec<String> {
            let of_name = headers.iter().filter(|header| header.key.eq_ignore_ascii_case(wanted));
            of_name.map(|header| String::from_utf8_lossy(header.value.unwrap_or_default()).into()).collect()
        };
        assert_eq!(values("region"), ["eu"]);
        let types = values("content-type");
        assert!(matches!(&types[..], [one] if one.starts_with("application/cloudevents+json")), "{types:?}");
    }
}
