//! An exchange bound to a queue, and the messages that arrived in the queue.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicGetOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use posthaste::Headers;
use posthaste::conformance::destination::Received;
use posthaste_testkit::server::SERVER_TIMEOUT;
use tokio::time::{Duration, Instant, interval, timeout};

pub(super) struct Queue {
    /// The URL of the server.
    url: String,
    /// The name of both the exchange and the queue.
    pub(super) name: String,
    messages: Mutex<Vec<Received>>,
}

impl Queue {
    /// A queue with a unique name, not declared yet.
    pub(super) fn new(url: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("posthaste-test-{}-{count}", std::process::id());
        Self { url: url.to_owned(), name, messages: Mutex::default() }
    }

    /// A declared queue.
    pub(super) async fn declared(url: &str) -> Self {
        let queue = Self::new(url);
        queue.declare().await;
        queue
    }

    /// The URL of a publisher to the exchange.
    pub(super) fn publisher_url(&self) -> String {
        format!("{}?exchange={}", self.url, self.name)
    }

    /// The URL of a publisher to the queue, through the default exchange.
    pub(super) fn direct_url(&self) -> String {
        format!("{}?routing_key={}", self.url, self.name)
    }

    pub(super) async fn declare(&self) {
        self.declare_with(FieldTable::default(), "#").await;
    }

    /// Declares a queue with these arguments, bound with this routing pattern.
    pub(super) async fn declare_with(&self, arguments: FieldTable, pattern: &str) {
        self.declare_bound(ExchangeKind::Topic, arguments, pattern, FieldTable::default()).await;
    }

    /// Declares a queue bound by headers, for any routing key.
    pub(super) async fn declare_by_headers(&self, headers: FieldTable) {
        self.declare_bound(ExchangeKind::Headers, FieldTable::default(), "", headers).await;
    }

    async fn declare_bound(
        &self,
        kind: ExchangeKind,
        arguments: FieldTable,
        pattern: &str,
        headers: FieldTable,
    ) {
        let channel = self.channel().await;
        let name = || self.name.as_str().into();
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        channel.exchange_declare(name(), kind, durable, FieldTable::default()).await.expect("an exchange");
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(name(), durable, arguments).await.expect("a queue");
        let bind = QueueBindOptions::default();
        channel.queue_bind(name(), name(), pattern.into(), bind, headers).await.expect("a binding");
    }

    /// Declares an internal exchange, to which only other exchanges may publish, without a queue.
    pub(super) async fn declare_internal(&self) {
        let internal = ExchangeDeclareOptions { internal: true, ..ExchangeDeclareOptions::default() };
        let channel = self.channel().await;
        let name = self.name.as_str().into();
        channel
            .exchange_declare(name, ExchangeKind::Topic, internal, FieldTable::default())
            .await
            .expect("an exchange");
    }

    pub(super) async fn delete_exchange(&self) {
        let options = ExchangeDeleteOptions::default();
        self.channel().await.exchange_delete(self.name.as_str().into(), options).await.expect("deleted");
    }

    pub(super) async fn delete(&self) {
        self.delete_exchange().await;
        let options = QueueDeleteOptions::default();
        self.channel().await.queue_delete(self.name.as_str().into(), options).await.expect("deleted");
    }

    /// All messages that have arrived, in order, once at least `n` distinct ones have.
    pub(super) async fn received(&self, n: usize) -> Vec<Received> {
        let channel = self.channel().await;
        let started = Instant::now();
        let mut ticks = interval(Duration::from_millis(20));
        loop {
            while let Some(message) = get(&channel, &self.name).await {
                self.messages.lock().expect("no panic").push(received(&message));
            }
            let messages = self.messages.lock().expect("no panic").clone();
            if count_distinct(&messages) >= n {
                return messages;
            }
            assert!(started.elapsed() < SERVER_TIMEOUT, "{} of {n} arrived", messages.len());
            ticks.tick().await;
        }
    }

    /// Connects, with one retry: the client would wait forever for a server that accepts a connection and does not
    /// reply.
    async fn channel(&self) -> Channel {
        let connect = async || {
            let connection = Connection::connect(&self.url, ConnectionProperties::default()).await;
            connection.expect("a connection").create_channel().await.expect("a channel")
        };
        let first = timeout(Duration::from_secs(10), connect()).await;
        match first {
            Ok(channel) => channel,
            Err(_) => timeout(SERVER_TIMEOUT, connect()).await.expect("a channel in time"),
        }
    }
}

async fn get(channel: &Channel, name: &str) -> Option<BasicGetMessage> {
    let message = channel.basic_get(name.into(), BasicGetOptions { no_ack: true });
    timeout(SERVER_TIMEOUT, message).await.expect("a reply in time").expect("a reply")
}

fn count_distinct(messages: &[Received]) -> usize {
    let all = messages.iter().map(|message| (&message.id, &message.payload));
    all.collect::<std::collections::HashSet<_>>().len()
}

fn received(message: &BasicGetMessage) -> Received {
    let properties = &message.delivery.properties;
    let id = properties.message_id().as_ref().expect("an id");
    let text = |value: &AMQPValue| match value {
        AMQPValue::LongString(text) => String::from_utf8(text.as_bytes().to_vec()).expect("text"),
        other => panic!("not a text: {other:?}"),
    };
    let table = properties.headers().clone().unwrap_or_default();
    let headers: Headers =
        table.inner().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let key = headers.get("outbox-aggregate-id").cloned();
    Received::new(id.as_str(), message.delivery.data.clone()).with_key(key).with_headers(headers)
}
