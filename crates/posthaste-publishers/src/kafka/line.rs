//! One producer, and how its reports find the events that they are about.

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

use super::settings::Secrets;
use crate::format::Message;

/// How long all brokers may be away before the events on the way count as unreachable. The library connects
/// anew meanwhile, and a broker that is back by then has lost nobody's time.
const GRACE: Duration = Duration::from_secs(1);

/// What to do about brokers that do not answer.
pub(super) const ADVICE: &str = "check host and port, that they run, and whether they want TLS or a login";

const CONTENT_TYPE: &str = "content-type";

/// How long the reports of a purge may take.
pub(super) const PURGE: Duration = Duration::from_secs(1);

/// The producer in use. It is made with the first events, and made anew after it lost all brokers or failed
/// for good: what its predecessor still held is purged, so that nothing leaves late, and no gap in a
/// sequence matters to the next.
pub(super) struct Lines {
    config: ClientConfig,
    secrets: Secrets,
    is_alone: bool,
    current: Mutex<Option<Arc<Line>>>,
}

impl Lines {
    pub(super) fn new(config: ClientConfig, secrets: Secrets) -> Self {
        Self { config, secrets, is_alone: false, current: Mutex::default() }
    }

    /// With one message per request.
    pub(super) fn alone(mut config: ClientConfig, secrets: Secrets) -> Self {
        config.set("batch.num.messages", "1");
        Self { is_alone: true, ..Self::new(config, secrets) }
    }

    pub(super) fn hosts(&self) -> &str {
        self.config.get("bootstrap.servers").unwrap_or_default()
    }

    /// The line in use, or a new one; or why there is none.
    pub(super) fn get(&self) -> Result<Arc<Line>, String> {
        let mut current = self.current();
        if let Some(line) = current.as_ref().filter(|line| !line.trouble().is_over(Instant::now())) {
            return Ok(Arc::clone(line));
        }
        let line = Line::new(&self.config, self.secrets.clone(), self.is_alone);
        let line = Arc::new(line.map_err(|error| {
            format!("Kafka: no producer can be made: {}", self.secrets.clean(&error.to_string()))
        })?);
        *current = Some(Arc::clone(&line));
        Ok(line)
    }

    /// Takes a line out of use, and what it holds out of its queues.
    pub(super) async fn give_up(&self, line: &Arc<Line>) {
        {
            let mut current = self.current();
            if current.as_ref().is_some_and(|other| Arc::ptr_eq(other, line)) {
                *current = None;
            }
        }
        let line = Arc::clone(line);
        // It may wait for a thread that looks up a name.
        drop(tokio::task::spawn_blocking(move || line.purge()));
    }

    /// The topic's `min.insync.replicas`; none if the brokers do not tell this user.
    pub(super) async fn min_in_sync(&self, topic: &str, wait: Duration) -> Option<usize> {
        let state = Arc::new(State::new(self.secrets.clone()));
        let admin: AdminClient<Reports> = self.config.create_with_context(Reports(state)).ok()?;
        let options = AdminOptions::new().request_timeout(Some(wait));
        let asked = timeout(wait, admin.describe_configs([&ResourceSpecifier::Topic(topic)], &options)).await;
        end(admin);
        let settings = asked.ok()?.ok()?.pop()?.ok()?;
        settings.get("min.insync.replicas")?.value.as_ref()?.parse().ok()
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Line>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Line {
    /// There until the line is dropped.
    producer: Option<ThreadedProducer<Reports>>,
    state: Arc<State>,
    is_alone: bool,
}

struct State {
    trouble: watch::Sender<Trouble>,
    /// Whether something stands in `trouble`, to be asked for every report.
    is_troubled: AtomicBool,
    /// A report makes room in the queue.
    room: Notify,
    secrets: Secrets,
}

/// What a line suffers from.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble {
    /// Since when no broker is connected.
    down: Option<Instant>,
    /// The producer will never send again.
    fatal: bool,
    /// What the library said last.
    why: Option<String>,
}

impl Trouble {
    fn ends(&self) -> Option<Instant> {
        if self.fatal { Some(Instant::now()) } else { self.down.map(|since| since + GRACE) }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.fatal || self.down.is_some_and(|since| since + GRACE <= now)
    }

    /// Why nothing can be sent, if it is so.
    pub(super) fn no_connection(&self) -> Option<String> {
        let why = self.why.as_deref().unwrap_or("nobody said why");
        if self.fatal {
            return Some(format!("the producer failed, and another takes its place: {why}"));
        }
        // The advice comes first: what the library says is long, and cut.
        self.down.map(|_| format!("no broker can be reached ({ADVICE}): {why}"))
    }
}

impl Line {
    fn new(config: &ClientConfig, secrets: Secrets, is_alone: bool) -> Result<Self, KafkaError> {
        let state = Arc::new(State::new(secrets));
        let producer = config.create_with_context(Reports(Arc::clone(&state)))?;
        Ok(Self { producer: Some(producer), state, is_alone })
    }

    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    pub(super) fn trouble(&self) -> Trouble {
        let mut trouble = self.state.trouble.borrow().clone();
        // It is said to us later than the events are given back.
        if let Some((_, why)) = self.producer().client().fatal_error() {
            trouble.fatal = true;
            trouble.why = Some(self.state.secrets.clean(&why));
        }
        trouble
    }

    /// Puts a message into the queue. What is wrong with it lands at once, but for a full queue.
    pub(super) fn send(
        &self,
        topic: &str,
        key: Option<&str>,
        message: &Message<'_>,
        flight: &Arc<Flight>,
        at: usize,
    ) -> Result<(), Code> {
        let ticket = Box::new(Ticket { flight: Arc::clone(flight), at });
        let mut record = BaseRecord::<str, [u8], Box<Ticket>>::with_opaque_to(topic, ticket)
            .payload(&*message.body)
            .headers(headers(message));
        record.key = key;
        let Err((error, record)) = self.producer().send(record) else { return Ok(()) };
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        if code != Code::QueueFull {
            self.state.note(code, None);
            record.delivery_opaque.land(code);
        }
        Err(code)
    }

    /// Waits for room in the queue, for a while; no, and at once, if there is no hope for it any more: each
    /// of the events that are left asks.
    pub(super) async fn room(&self, deadline: Instant) -> bool {
        let now = Instant::now();
        if now >= deadline || self.trouble().is_over(now) {
            return false;
        }
        // A report between the look at the queue and here is missed, but not for long.
        let _ = timeout(Duration::from_millis(20), self.state.room.notified()).await;
        true
    }

    /// Waits until every event has its report; no if there is no hope for that any more.
    pub(super) async fn landed(&self, flight: &Flight, deadline: Instant) -> bool {
        self.hope_for(flight.landed(), deadline).await.is_some()
    }

    /// Waits for this until the deadline, or until the line's trouble says that it will not come.
    async fn hope_for<T>(&self, wanted: impl Future<Output = T>, deadline: Instant) -> Option<T> {
        let mut trouble = self.state.trouble.subscribe();
        let mut wanted = std::pin::pin!(wanted);
        loop {
            let ends = trouble.borrow_and_update().ends().map_or(deadline, |ends| ends.min(deadline));
            tokio::select! {
                biased;
                wanted = &mut wanted => return Some(wanted),
                _ = trouble.changed() => {}
                () = tokio::time::sleep_until(ends) => return None,
            }
        }
    }

    /// Asks the brokers for this topic, or for all there are; none if they do not answer.
    pub(super) async fn look(self: &Arc<Self>, topic: Option<&str>, wait: Duration) -> Option<Code> {
        let topic = topic.map(str::to_owned);
        let look = move |line: &Self| line.fetch(topic.as_deref(), wait, |_| Code::NoError);
        self.ask(look, wait).await.map(|code| code.unwrap_or_else(|code| code))
    }

    /// How many replicas a topic has, in the partition that has the fewest; none if the brokers do not answer, and
    /// zero if there is no such topic. All topics are asked for: a question for one may make it.
    pub(super) async fn replicas(self: &Arc<Self>, topic: &str, wait: Duration) -> Option<usize> {
        let topic = topic.to_owned();
        let fewest = move |metadata: &Metadata| {
            let topic = metadata.topics().iter().find(|known| known.name() == topic);
            let partitions = topic.into_iter().flat_map(MetadataTopic::partitions);
            partitions.map(|partition| partition.replicas().len()).min().unwrap_or_default()
        };
        self.ask(move |line| line.fetch(None, wait, fewest), wait).await?.ok()
    }

    /// The library holds a thread until it knows. It is none of the runtime's, which would wait for it at its own
    /// end.
    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Self) -> T + Send + 'static,
        wait: Duration,
    ) -> Option<T> {
        let (tell, told) = oneshot::channel();
        let line = Arc::clone(self);
        let ask = move || {
            let _ = tell.send(question(&line));
        };
        std::thread::Builder::new().name("kafka check".to_owned()).spawn(ask).ok()?;
        self.hope_for(told, Instant::now() + wait).await?.ok()
    }

    fn fetch<T>(
        &self,
        topic: Option<&str>,
        wait: Duration,
        read: impl FnOnce(&Metadata) -> T,
    ) -> Result<T, Code> {
        let metadata = self.producer().client().fetch_metadata(topic, wait);
        let metadata = metadata.map_err(|error| error.rdkafka_error_code().unwrap_or(Code::Fail))?;
        // Who answers is there, whatever the line has been through.
        self.state.report(Code::NoError);
        let of_topic = metadata.topics().first().filter(|_| topic.is_some());
        match of_topic.and_then(MetadataTopic::error) {
            Some(error) => Err(Code::from(error)),
            None => Ok(read(&metadata)),
        }
    }

    /// Waits for the reports of what was purged.
    pub(super) async fn purged(&self, flight: &Flight, deadline: Instant) {
        let _ = timeout_at(deadline.min(Instant::now() + PURGE), flight.landed()).await;
    }

    fn purge(&self) {
        self.producer().purge(PurgeConfig::default().queue().inflight());
    }

    fn producer(&self) -> &ThreadedProducer<Reports> {
        self.producer.as_ref().expect("it is taken when the line is dropped")
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        end(self.producer.take());
    }
}

/// Ending a client takes some tenths of a second.
fn end(client: impl Send + 'static) {
    let _ = std::thread::Builder::new().name("kafka end".to_owned()).spawn(move || drop(client));
}

fn headers(message: &Message<'_>) -> OwnedHeaders {
    let mut headers = OwnedHeaders::new_with_capacity(message.headers.len() + 1);
    // The format says what it is, not the event.
    let is_kept = |name: &str| !name.eq_ignore_ascii_case(CONTENT_TYPE);
    for (name, value) in message.headers.iter().filter(|(name, _)| is_kept(name)) {
        headers = headers.insert(Header { key: name, value: Some(value.as_bytes()) });
    }
    headers.insert(Header { key: CONTENT_TYPE, value: Some(message.content_type.as_bytes()) })
}

/// The events of one call, and what was reported about each.
pub(super) struct Flight {
    codes: Mutex<Landed>,
    all: Notify,
}

struct Landed {
    codes: Vec<Option<Code>>,
    left: usize,
}

impl Flight {
    /// With places for `places` events, of which `count` are sent.
    pub(super) fn new(places: usize, count: usize) -> Self {
        let codes = Landed { codes: vec![None; places], left: count };
        Self { codes: Mutex::new(codes), all: Notify::new() }
    }

    pub(super) fn land(&self, at: usize, code: Code) {
        let mut landed = self.lock();
        if landed.codes[at].replace(code).is_none() {
            landed.left -= 1;
            if landed.left == 0 {
                self.all.notify_one();
            }
        }
    }

    pub(super) fn codes(&self) -> Vec<Option<Code>> {
        self.lock().codes.clone()
    }

    async fn landed(&self) {
        while self.lock().left > 0 {
            self.all.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Landed> {
        self.codes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Goes with a message, and comes back with its report.
struct Ticket {
    flight: Arc<Flight>,
    at: usize,
}

impl Ticket {
    fn land(&self, code: Code) {
        self.flight.land(self.at, code);
    }
}

/// What the library calls on its own thread.
struct Reports(Arc<State>);

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<Ticket>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Box<Ticket>) {
        let code = match result {
            Ok(_) => Code::NoError,
            Err((error, _)) => error.rdkafka_error_code().unwrap_or(Code::Fail),
        };
        self.0.report(code);
        ticket.land(code);
    }
}

impl ClientContext for Reports {
    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        self.0.note(code, Some(reason));
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        let text = self.0.secrets.clean(text);
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => tracing::warn!(facility, "librdkafka: {text}"),
            _ => tracing::debug!(facility, "librdkafka: {text}"),
        }
    }

    /// Whoever asks for statistics finds them where the library's lines are.
    fn stats_raw(&self, statistics: &[u8]) {
        tracing::debug!("librdkafka: {}", String::from_utf8_lossy(statistics));
    }
}

impl State {
    fn new(secrets: Secrets) -> Self {
        Self {
            trouble: watch::Sender::default(),
            is_troubled: AtomicBool::new(false),
            room: Notify::new(),
            secrets,
        }
    }

    /// A broker that answers is there.
    fn report(&self, code: Code) {
        self.room.notify_waiters();
        if code == Code::NoError && self.is_troubled.load(Ordering::Acquire) {
            self.is_troubled.store(false, Ordering::Release);
            self.trouble.send_if_modified(|trouble| {
                if !trouble.fatal {
                    *trouble = Trouble::default();
                }
                !trouble.fatal
            });
        }
    }

    fn note(&self, code: Code, reason: Option<&str>) {
        let why = reason.map(|reason| self.secrets.clean(reason));
        self.trouble.send_modify(|trouble| match code {
            Code::AllBrokersDown => {
                trouble.down.get_or_insert_with(Instant::now);
            }
            Code::Fatal => {
                trouble.fatal = true;
                trouble.why = why.or(trouble.why.take());
            }
            _ => trouble.why = why.or(trouble.why.take()),
        });
        self.is_troubled.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use posthaste::{Delivery, Event};
    use rdkafka::message::Headers as _;

    use super::*;
    use crate::format::Format;

    #[test]
    fn content_type_of_the_format_stands() {
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
