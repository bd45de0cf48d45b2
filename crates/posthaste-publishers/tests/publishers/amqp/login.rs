//! Wrong logins, vhosts, hosts and URLs, and their error texts.

use posthaste_publishers::amqp::AmqpPublisher;
use posthaste_testkit::process::free_port;

use super::queue::Queue;
use super::shared;
use crate::broker_faults::{assert_advice, assert_no_connection, assert_unreachable};
use crate::delivery::{assert_delivered, assert_urls_refused, publisher};
use crate::secrets::SENTINEL;

/// The address of the shared server.
fn address() -> String {
    let url = shared();
    let after_login = url.split('@').nth(1).expect("a login");
    after_login.split('/').next().expect("an address").to_owned()
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn refused_login_or_vhost_is_an_outage() {
    let address = address();
    let text = assert_no_connection(&format!("amqp://guest:{SENTINEL}@{address}/%2f?exchange=e")).await;
    let why = "the broker refused the login of this user: check the user and the password";
    assert_eq!(text, format!("no connection to RabbitMQ: {address}: {why}"));
    let text = assert_no_connection(&format!("amqp://unknown:{SENTINEL}@{address}/%2f?exchange=e")).await;
    assert!(text.contains("refused the login"), "{text}");
    let text = assert_no_connection(&format!("amqp://guest:guest@{address}/elsewhere?exchange=e")).await;
    assert!(text.contains("the broker refused the vhost") && text.contains("elsewhere"), "{text}");
}

#[tokio::test]
async fn unreachable_host_is_an_outage() {
    let text =
        assert_no_connection(&format!("amqp://me:{SENTINEL}@127.0.0.1:{}/?exchange=e", free_port())).await;
    assert!(text.contains("Connection refused"), "{text}");
    let text = assert_no_connection(&format!("amqp://me:{SENTINEL}@no-such-host.invalid/?exchange=e")).await;
    assert!(text.contains("no-such-host.invalid:5672: its name cannot be resolved"), "{text}");
}

/// A refused lookup closes its own channel and no other.
#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn check_notices_that_an_exchange_is_created_and_deleted() {
    let queue = Queue::new(&shared());
    let text = assert_unreachable(&queue.publisher_url()).await;
    assert!(text.contains(&queue.name), "{text}");
    let exchange = publisher(&queue.publisher_url());
    assert_advice(exchange.check().await.expect_err("it does not exist yet"));
    queue.declare().await;
    assert_eq!(exchange.check().await, Ok(()));
    assert_delivered(&exchange).await;
    queue.delete().await;
    assert_advice(exchange.check().await.expect_err("it is deleted"));
    // If an event chooses the exchange, there is none to look up.
    let chosen = publisher(&format!("{}?exchange={{event_type}}", shared()));
    assert_eq!(chosen.check().await, Ok(()));
}

/// The port accepts connections and never sends a byte.
#[tokio::test(flavor = "multi_thread")]
async fn silent_host_is_an_outage_after_the_timeout() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let text = assert_no_connection(&format!("amqp://me:{SENTINEL}@{address}/?exchange=e&timeout=1")).await;
    assert!(text.starts_with("no RabbitMQ host completed the login before the timeout: check "), "{text}");
    let (mut ended, _) = silent.accept().expect("it connected");
    let read = tokio::task::spawn_blocking(move || std::io::Read::read_to_end(&mut ended, &mut Vec::new()));
    let read = tokio::time::timeout(posthaste_testkit::server::SERVER_TIMEOUT, read)
        .await
        .expect("the connection was ended");
    assert!(read.is_ok());
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn next_host_is_tried_after_an_unreachable_one() {
    let queue = Queue::declared(&shared()).await;
    let url = queue.publisher_url().replace('@', &format!("@127.0.0.1:{},", free_port()));
    assert_delivered(&publisher(&url)).await;
    queue.delete().await;
}

#[test]
fn errors_say_how_to_write_the_url() {
    assert_urls_refused(
        "RabbitMQ",
        &[
            ("amqp:///?exchange=e", "no host is given: write amqp://host:5672/"),
            ("amqp://h:x/?exchange=e", "write each host as host:port or host"),
            (
                "amqp://h/",
                "neither exchange nor routing key is set: name an exchange, or a queue as the routing key",
            ),
            (
                "amqp://h/?exchange={type}",
                "the exchange cannot be read: `{type}` is not a placeholder: write {event_type}, {aggregate_type}, {aggregate_id}, {tenant_id} or {header:NAME}",
            ),
            ("amqp://h/?exchange=e&routing_key=", "the routing key cannot be read: it is empty"),
            (
                "amqp://h/?exchange=e&format=xml",
                "`format` of the URL must be raw, envelope, cloudevents, cloudevents-structured or debezium",
            ),
            ("amqp://h/?exchange=e&timeout=0", "the timeout must be longer than zero"),
            ("amqp://h/?exchange=e&max_message_bytes=0", "the largest message must be at least 1 byte"),
            (
                "amqp://h/?exchange=e&ca=/dev/null",
                "a root certificate needs TLS: begin the URL with amqps://, or write tls(true) in the builder",
            ),
            (
                "amqps://h/?exchange=e&ca=/nowhere",
                "the root certificate cannot be read: No such file or directory (os error 2)",
            ),
            (
                "amqps://h/?exchange=e&ca=/dev/null",
                "the root certificate cannot be read: it must be PEM, with BEGIN CERTIFICATE in it",
            ),
            (
                "amqp://h/?exchange=e&management=rabbit:15672",
                "`management` is not a URL of the management plugin: write http://host:15672",
            ),
            (
                "amqp://h/?exchange=e&mandatory=false",
                "the URL has an unknown parameter: it takes format, timeout, max_message_bytes, ca, exchange, routing_key, management",
            ),
        ],
    );
    for url in [
        format!("amqp://me:{SENTINEL}/x@h/?exchange=e"),
        format!("amqp://me:{SENTINEL}:1@h:{SENTINEL}/?exchange=e"),
        format!("amqp://me:x@h/?exchange=e&{SENTINEL}=1"),
    ] {
        let error = posthaste_publishers::publisher(&url).expect_err("a bad URL");
        assert!(!format!("{error} {error:?}").contains(SENTINEL), "{error}");
    }
    let builder = AmqpPublisher::builder(["h"]).login("me", SENTINEL).exchange("e");
    assert!(!format!("{builder:?}").contains(SENTINEL));
}
