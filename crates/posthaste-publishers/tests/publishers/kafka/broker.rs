//! Helpers: brokers, mock clusters, topics, and a consumer that reads from the beginning.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use posthaste::EventId;
use posthaste::conformance::destination::Received;
use posthaste_testkit::process::{free_port, program};
use posthaste_testkit::server::{OwnServer, SERVER_TIMEOUT};
use posthaste_testkit::variable;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, DefaultProducerContext, Producer as _};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, interval};

/// The partitions of topics that tests create. Topics that a mock cluster creates by itself always have four.
pub(super) const PARTITIONS: i32 = 3;

/// `host:port` of the broker that all tests share.
pub(super) fn shared() -> String {
    let url = variable("POSTHASTE_TEST_KAFKA_URL");
    url.trim_start_matches("kafka://").trim_end_matches('/').to_owned()
}

/// A unique name.
pub(super) fn unique(name: &str) -> String {
    format!("{name}-{}", EventId::uuid_v7())
}

fn client(hosts: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", hosts).set("log_level", "0");
    config
}

/// Creates a topic, and waits until it exists. A mock ignores settings, so tests that depend on them are skipped
/// there.
pub(super) async fn create_topic(hosts: &str, topic: &str, settings: &[(&'static str, &'static str)]) {
    let (hosts, topic, settings) = (hosts.to_owned(), topic.to_owned(), settings.to_vec());
    let created = tokio::task::spawn_blocking(move || {
        if is_mock() {
            create_by_lookup(&hosts, &topic);
        } else {
            tokio::runtime::Handle::current().block_on(create(&hosts, &topic, 1, &settings));
        }
        // The leaders of its partitions are elected a little later.
        while ends(&consumer(&hosts), &topic).is_none() {}
    });
    created.await.expect("a topic with leaders");
}

async fn create(hosts: &str, topic: &str, replicas: i32, settings: &[(&'static str, &'static str)]) {
    let created = try_create(hosts, topic, replicas, settings).await;
    let is_there = matches!(created, Ok(()) | Err(Code::TopicAlreadyExists));
    assert!(is_there, "{created:?}");
}

/// Creates a topic with this number of replicas. Fails if there are fewer brokers.
pub(super) async fn try_create(
    hosts: &str,
    topic: &str,
    replicas: i32,
    settings: &[(&'static str, &'static str)],
) -> Result<(), Code> {
    let admin: AdminClient<DefaultClientContext> = client(hosts).create().expect("a client");
    let mut topic = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(replicas));
    for (name, value) in settings {
        topic = topic.set(name, value);
    }
    let options =
        AdminOptions::new().operation_timeout(Some(SERVER_TIMEOUT)).request_timeout(Some(SERVER_TIMEOUT));
    let created = admin.create_topics([&topic], &options).await.expect("a reply").remove(0);
    created.map(drop).map_err(|(_, code)| code)
}

/// Creates a topic on a mock cluster, which has no request for it but creates topics that producers look up.
fn create_by_lookup(hosts: &str, topic: &str) {
    let producer: BaseProducer = client(hosts).create().expect("a client");
    producer.client().fetch_metadata(Some(topic), SERVER_TIMEOUT).expect("a reply");
}

fn consumer(hosts: &str) -> BaseConsumer {
    client(hosts)
        .set("group.id", "tests")
        .set("enable.auto.commit", "false")
        .set("fetch.message.max.bytes", "8388608")
        .create()
        .expect("a consumer")
}

/// The number of messages in each partition; `None` if not all partitions reply.
fn ends(consumer: &BaseConsumer, topic: &str) -> Option<Vec<i64>> {
    let wait = Duration::from_secs(10);
    let end = |partition| consumer.fetch_watermarks(topic, partition, wait).ok().map(|(_, high)| high);
    (0..partitions(consumer, topic)?).map(end).collect()
}

/// The number of partitions of a topic; `None` if it does not exist.
fn partitions(consumer: &BaseConsumer, topic: &str) -> Option<i32> {
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(10)).ok()?;
    let count = metadata.topics().first()?.partitions().len();
    i32::try_from(count).ok().filter(|count| *count > 0)
}

/// The number of partitions of an existing topic.
pub(super) async fn count_partitions(hosts: &str, topic: &str) -> i32 {
    let (hosts, topic) = (hosts.to_owned(), topic.to_owned());
    let counted = tokio::task::spawn_blocking(move || partitions(&consumer(&hosts), &topic));
    counted.await.expect("a consumer").expect("a topic")
}

/// A message as a consumer sees it.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) partition: i32,
    pub(super) key: Option<String>,
    pub(super) payload: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, String)>,
}

impl Message {
    fn of(message: &BorrowedMessage<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        Self {
            partition: message.partition(),
            key: message.key().map(text),
            payload: message.payload().map(<[u8]>::to_vec),
            headers: headers.map(|h| (h.key.to_owned(), text(h.value.unwrap_or_default()))).collect(),
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn id(&self) -> EventId {
        EventId::from(self.header("outbox-event-id").expect("an id"))
    }
}

impl From<Message> for Received {
    fn from(message: Message) -> Self {
        let id = message.id();
        Self::new(id, message.payload.expect("a payload, if an empty one"))
            .with_key(message.key)
            .with_headers(message.headers.into_iter().collect())
    }
}

/// All messages that a topic has now.
pub(super) async fn read(hosts: &str, topic: &str) -> Vec<Message> {
    let (hosts, topic) = (hosts.to_owned(), topic.to_owned());
    tokio::task::spawn_blocking(move || read_now(&hosts, &topic)).await.expect("a consumer")
}

fn read_now(hosts: &str, topic: &str) -> Vec<Message> {
    let consumer = consumer(hosts);
    let ends = ends(&consumer, topic).expect("all partitions reply");
    let mut messages = Vec::new();
    for (partition, end) in (0..).zip(ends) {
        if end == 0 {
            continue;
        }
        let mut from = TopicPartitionList::new();
        from.add_partition_offset(topic, partition, Offset::Beginning).expect("a partition");
        consumer.assign(&from).expect("assigned");
        loop {
            let message = consumer.poll(SERVER_TIMEOUT).expect("a message in time").expect("a message");
            messages.push(Message::of(&message));
            if message.offset() + 1 >= end {
                break;
            }
        }
    }
    messages
}

/// All messages of a topic, once there are at least `n` distinct ones.
pub(super) async fn read_at_least(hosts: &str, topic: &str, n: usize) -> Vec<Message> {
    let deadline = Instant::now() + SERVER_TIMEOUT;
    let mut ticks = interval(Duration::from_millis(50));
    loop {
        let messages = read(hosts, topic).await;
        let different: HashSet<_> = messages.iter().map(|message| (message.id(), &message.payload)).collect();
        if different.len() >= n {
            return messages;
        }
        assert!(Instant::now() < deadline, "{} of {n} messages", different.len());
        ticks.tick().await;
    }
}

/// Whether the tests run on a mock cluster instead of Apache Kafka.
pub(super) fn is_mock() -> bool {
    std::env::var("POSTHASTE_TEST_KAFKA_MOCK").is_ok_and(|mock| mock == "1")
}

/// Whether tests that need more than a mock cluster are skipped, because there is no Apache Kafka. Reports it on
/// standard error directly, because the test harness shows no output of tests that pass.
pub(super) fn is_skipped() -> bool {
    if is_mock() {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let _ = writeln!(std::io::stderr(), "LEFT OUT: {test} needs Apache Kafka, and there is only a mock");
    }
    is_mock()
}

/// A private mock cluster with these topics.
pub(super) fn mock(topics: &[&str]) -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(1).expect("a cluster");
    for topic in topics {
        cluster.create_topic(topic, PARTITIONS, 1).expect("a topic");
    }
    cluster
}

/// A private broker. Only two run at a time, because each is a Java process.
pub(super) struct OwnKafka {
    pub(super) server: OwnServer,
    /// The port of its controller.
    controller: u16,
    pub(super) topic: String,
    _turn: SemaphorePermit<'static>,
}

static BROKER_PERMITS: Semaphore = Semaphore::const_new(2);

impl OwnKafka {
    /// Returns `None` if the test is skipped.
    pub(super) async fn new() -> Option<Self> {
        Self::with("", "").await
    }

    /// A broker with additional listeners (`,SSL://127.0.0.1:1234`) and settings, in which `DIR` stands for its
    /// folder and `PORT` for its port.
    pub(super) async fn with(listeners: &str, settings: &str) -> Option<Self> {
        if is_skipped() {
            return None;
        }
        let turn = BROKER_PERMITS.acquire().await.expect("open");
        let server = OwnServer::new(|dir, _| java(dir, "kafka.Kafka", &["server.properties"]));
        let (port, controller) = (server.port(), free_port());
        let mut text = format!(
            "process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{listeners}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,CUT:PLAINTEXT
auto.create.topics.enable=false
offsets.topic.replication.factor=1
num.network.threads=2
num.io.threads=2
num.recovery.threads.per.data.dir=1
background.threads=1
log.dirs=DIR/data
"
        );
        let _ = writeln!(text, "{settings}");
        let text =
            text.replace("DIR", &server.dir().display().to_string()).replace("PORT", &port.to_string());
        std::fs::write(server.dir().join("server.properties"), text).expect("a file");
        format_folder(server.dir(), &["--standalone"]);
        Some(Self { server, controller, topic: "events".to_owned(), _turn: turn })
    }

    /// A second broker of its cluster, not started yet.
    pub(super) fn peer(&self) -> OwnServer {
        let server = OwnServer::new(|dir, _| java(dir, "kafka.Kafka", &["server.properties"]));
        let (port, controller, dir) = (server.port(), self.controller, server.dir().display());
        let text = format!(
            "process.roles=broker
node.id=2
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
num.network.threads=2
num.io.threads=2
log.dirs={dir}/data
"
        );
        std::fs::write(server.dir().join("server.properties"), text).expect("a file");
        format_folder(server.dir(), &[]);
        server
    }

    /// Starts the broker and creates its topic.
    pub(super) async fn start(&mut self) {
        self.server.listen().await;
        create_topic(&self.hosts(), &self.topic, &[]).await;
    }

    pub(super) fn hosts(&self) -> String {
        format!("127.0.0.1:{}", self.server.port())
    }

    pub(super) fn dir(&self) -> &Path {
        self.server.dir()
    }
}

fn format_folder(dir: &Path, options: &[&str]) {
    let format = ["format", "-t", "cG9zdGhhc3RlLXRlc3Rzcw", "-c", "server.properties"];
    let mut format = java(dir, "kafka.tools.StorageTool", &[&format, options].concat());
    let formatted = format.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(formatted.is_ok_and(|status| status.success()), "a formatted folder");
}

fn java(dir: &Path, main: &str, args: &[&str]) -> Command {
    let mut command = program("java");
    command
        .args(["-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp"])
        .arg(format!("{}/*", variable("POSTHASTE_TEST_KAFKA_LIB")))
        .arg(main)
        .args(args)
        .current_dir(dir);
    command
}
