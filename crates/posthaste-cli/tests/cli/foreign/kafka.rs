//! The Kafka of the test run: topics and their messages.

use std::process::Command;
use std::time::Duration;

use posthaste_testkit::{unique_name, variable};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;

use crate::relay::process::retry_until_ok;
use crate::shop::block_on;

/// A message, as kcat prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) key: String,
    /// The id in the payload.
    pub(super) id: String,
}

/// Whether a mock replaces Kafka: it creates every requested topic. Prints what is skipped because of that.
pub(super) fn is_mock() -> bool {
    let is = std::env::var("POSTHASTE_TEST_KAFKA_MOCK").is_ok_and(|mock| mock == "1");
    if is {
        eprintln!("SKIPPED: topics that do not exist, because there is no real Kafka");
    }
    is
}

fn hosts() -> String {
    let url = variable("POSTHASTE_TEST_KAFKA_URL");
    url.trim_start_matches("kafka://").trim_end_matches('/').to_owned()
}

/// The URL of a publisher to this topic, or to the topics of this template.
pub(super) fn url(topic: &str) -> String {
    format!("kafka://{}/{topic}", hosts())
}

/// The name of a topic that does not exist.
pub(super) fn missing_topic() -> String {
    unique_name("layout-")
}

/// Creates a topic.
pub(super) fn create(topic: &str) {
    if is_mock() {
        return;
    }
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", hosts()).create().expect("a client");
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
    let new = NewTopic::new(topic, 3, TopicReplication::Fixed(1));
    let created =
        block_on(async { admin.create_topics([&new], &options).await.expect("a response").remove(0) });
    created.expect("the topic is made");
    // Its partitions have leaders a little later.
    retry_until_ok("the topic has leaders", || kcat(topic).map(|_| ()));
}

pub(super) fn topic() -> String {
    let topic = missing_topic();
    create(&topic);
    topic
}

/// Reads all messages of a topic.
pub(super) fn read(topic: &str) -> Vec<Message> {
    retry_until_ok("kcat reads", || kcat(topic))
}

fn kcat(topic: &str) -> Result<Vec<Message>, String> {
    let program = std::env::var("POSTHASTE_TEST_KCAT_BIN").unwrap_or_else(|_| "kcat".to_owned());
    let arguments = ["-C", "-q", "-e", "-b", &hosts(), "-t", topic, "-o", "beginning", "-f", "%k|%s\n"];
    let output = Command::new(program).args(arguments).output().expect("kcat runs");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).lines().map(message).collect()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn message(line: &str) -> Message {
    let (key, payload) = line.split_once('|').expect("a key and a payload");
    let payload: serde_json::Value = serde_json::from_str(payload).expect("a payload");
    Message { key: key.to_owned(), id: payload["eventId"].as_str().expect("an id").to_owned() }
}
