//! Logins, vhosts and hosts that are wrong, and what is shown of them.

use posthaste_publishers::amqp::AmqpPublisher;
use posthaste_testkit::process::free_port;

use super::queue::Queue;
use super::shared;
use crate::broker_faults::{is_out_of_reach, lets_nobody_in, one_line_that_advises};
use crate::delivery::{is_delivered, publisher, urls_are_refused};
use crate::secrets::SENTINEL;

/// The address of the shared server.
fn address() -> String {
    let url = shared();
    let after_login = url.split('@').nth(1).expect("a login");
    after_login.split('/').next().expect("an address").to_owned()
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn login_or_vhost_that_is_refused_is_an_outage() {
    let address = address();
    let text = lets_nobody_in(&format!("amqp://guest:{SENTINEL}@{address}/%2f?exchange=e")).await;
    let why = "the broker refused the login of this user: check the user and the password";
    assert_eq!(text, format!("no connection to RabbitMQ: {address}: {why}"));
    let text = lets_nobody_in(&format!("amqp://nobody:{SENTINEL}@{address}/%2f?exchange=e")).await;
    assert!(text.contains("refused the login"), "{text}");
    let text = lets_nobody_in(&format!("amqp://guest:guest@{address}/elsewhere?exchange=e")).await;
    assert!(text.contains("the broker refused the vhost") && text.contains("elsewhere"), "{text}");
}

#[tokio::test]
async fn host_that_is_not_there_is_an_outage() {
    let text = lets_nobody_in(&format!("amqp://me:{SENTINEL}@127.0.0.1:{}/?exchange=e", free_port())).await;
    assert!(text.contains("Connection refused"), "{text}");
    let text = lets_nobody_in(&format!("amqp://me:{SENTINEL}@no-such-host.invalid/?exchange=e")).await;
    assert!(text.contains("no-such-host.invalid:5672: its name is not known"), "{text}");
}

/// The answer "no" closes its channel, and no other.
#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn check_sees_an_exchange_that_is_made_and_deleted() {
    let queue = Queue::new(&shared());
    let text = is_out_of_reach(&queue.publisher_url()).await;
    assert!(text.contains(&queue.name), "{text}");
    let exchange = publisher(&queue.publisher_url());
    one_line_that_advises(exchange.check().await.expect_err("it is not there yet"));
    queue.declare().await;
    assert_eq!(exchange.check().await, Ok(()));
    is_delivered(&exchange).await;
    queue.delete().await;
    one_line_that_advises(exchange.check().await.expect_err("it is deleted"));
    // Where an event chooses the exchange, there is none to look for.
    let chosen = publisher(&format!("{}?exchange={{event_type}}", shared()));
    assert_eq!(chosen.check().await, Ok(()));
}

/// A port on which somebody listens and never says a word.
#[tokio::test(flavor = "multi_thread")]
async fn host_that_says_nothing_is_an_outage_when_the_timeout_ends() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let text = lets_nobody_in(&format!("amqp://me:{SENTINEL}@{address}/?exchange=e&timeout=1")).await;
    assert!(text.starts_with("no host of RabbitMQ let us in before the timeout ended: check "), "{text}");
    let (mut ended, _) = silent.accept().expect("it connected");
    let read = tokio::task::spawn_blocking(move || std::io::Read::read_to_end(&mut ended, &mut Vec::new()));
    let read = tokio::time::timeout(posthaste_testkit::server::SERVER_TIMEOUT, read)
        .await
        .expect("the connection was ended");
    assert!(read.is_ok());
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn next_host_is_asked_when_one_is_not_there() {
    let queue = Queue::declared(&shared()).await;
    let url = queue.publisher_url().replace('@', &format!("@127.0.0.1:{},", free_port()));
    is_delivered(&publisher(&url)).await;
    queue.delete().await;
}

#[test]
fn urls_that_are_wrong_say_what_to_write() {
    urls_are_refused(
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
                "the exchange cannot be read: `{type}` is not known: write {event_type}, {aggregate_type}, {aggregate_id}, {tenant_id} or {header:NAME}",
            ),
            ("amqp://h/?exchange=e&routing_key=", "the routing key cannot be read: it is empty"),
            (
                "amqp://h/?exchange=e&format=xml",
                "`format` of the URL must be raw, envelope, cloudevents, cloudevents-structured or debezium",
            ),
            ("amqp://h/?exchange=e&timeout=0", "the timeout must be longer than nothing"),
            ("amqp://h/?exchange=e&max_message_bytes=0", "the largest message must have a byte at least"),
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
                "`management` is no URL of the management plugin: write http://host:15672",
            ),
            (
                "amqp://h/?exchange=e&mandatory=false",
                "the URL has a parameter that is not known: known are format, timeout, max_message_bytes, ca, exchange, routing_key, management",
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
