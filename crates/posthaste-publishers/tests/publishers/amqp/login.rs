//! Logins, vhosts and hosts that are wrong, and what is shown of them.

use posthaste_publishers::amqp::AmqpPublisher;
use posthaste_publishers::publisher;
use posthaste_testkit::process::free_port;

use super::queue::Queue;
use super::{event, outcome_of, shared, unconnected};
use crate::broker_faults::{is_out_of_reach, one_line_that_advises};

const SENTINEL: &str = "s3ntinel-PW-9f";

/// The address of the shared server.
fn address() -> String {
    let url = shared();
    let after_login = url.split('@').nth(1).expect("a login");
    after_login.split('/').next().expect("an address").to_owned()
}

/// Why there is no connection; the password is in nothing that is shown.
async fn connection_error(url: &str) -> String {
    let destination = AmqpPublisher::from_url(url).expect(url);
    assert!(!format!("{destination:?}").contains(SENTINEL));
    let outcome = outcome_of(&destination, event("Made")).await;
    let shown = format!("{outcome:?}");
    assert!(!shown.contains(SENTINEL), "{shown}");
    unconnected(&outcome)
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn login_that_is_refused_is_an_outage() {
    let text = connection_error(&format!("amqp://guest:{SENTINEL}@{}/%2f?exchange=e", address())).await;
    assert_eq!(
        text,
        format!(
            "no connection to RabbitMQ: {}: the broker refused the login of this user: check the user and the password",
            address()
        )
    );
    let text = connection_error(&format!("amqp://nobody:{SENTINEL}@{}/%2f?exchange=e", address())).await;
    assert!(text.contains("refused the login"), "{text}");
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn vhost_that_is_not_there_is_an_outage() {
    let text = connection_error(&format!("amqp://guest:guest@{}/elsewhere?exchange=e", address())).await;
    assert!(text.contains("the broker refused the vhost") && text.contains("elsewhere"), "{text}");
}

#[tokio::test]
async fn host_that_is_not_there_is_an_outage() {
    let text = connection_error(&format!("amqp://me:{SENTINEL}@127.0.0.1:{}/?exchange=e", free_port())).await;
    assert!(text.contains("Connection refused"), "{text}");
    let text = connection_error(&format!("amqp://me:{SENTINEL}@no-such-host.invalid/?exchange=e")).await;
    assert!(text.contains("no-such-host.invalid:5672: its name is not known"), "{text}");
}

#[tokio::test]
async fn check_says_that_a_host_has_no_address() {
    let text = is_out_of_reach(&format!("amqp://me:{SENTINEL}@no-such-host.invalid/?exchange=e")).await;
    assert!(text.contains("no-such-host.invalid:5672: its name is not known"), "{text}");
}

#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn check_says_what_is_wrong_with_login_vhost_and_exchange() {
    for (url, expected) in [
        (format!("amqp://guest:{SENTINEL}@{}/%2f?exchange=e", address()), "check the user and the password"),
        (format!("amqp://guest:guest@{}/elsewhere?exchange=e", address()), "elsewhere"),
        (format!("amqp://guest:guest@{}/%2f?exchange=no-such-exchange", address()), "no-such-exchange"),
    ] {
        let text = is_out_of_reach(&url).await;
        assert!(text.contains(expected), "{text}");
    }
}

/// The answer "no" closes its channel, and no other.
#[tokio::test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn check_sees_an_exchange_that_is_made_and_deleted() {
    let queue = Queue::new(&shared());
    let publisher = publisher(&queue.publisher_url()).expect("a good URL");
    one_line_that_advises(publisher.check().await.expect_err("it is not there yet"));
    queue.declare().await;
    assert_eq!(publisher.check().await, Ok(()));
    assert!(outcome_of(&*publisher, event("Made")).await.is_done());
    queue.delete().await;
    one_line_that_advises(publisher.check().await.expect_err("it is deleted"));
    // Where an event chooses the exchange, there is none to look for.
    let chosen = format!("{}?exchange={{event_type}}", shared());
    assert_eq!(posthaste_publishers::publisher(&chosen).expect("a good URL").check().await, Ok(()));
}

/// A port on which somebody listens and never says a word.
#[tokio::test(flavor = "multi_thread")]
async fn host_that_says_nothing_is_an_outage_when_the_timeout_ends() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let text = connection_error(&format!("amqp://me:{SENTINEL}@{address}/?exchange=e&timeout=1")).await;
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
    let outcome = outcome_of(&*publisher(&url).expect("a good URL"), event("Made")).await;
    assert!(outcome.is_done(), "{outcome:?}");
    queue.delete().await;
}

#[test]
fn urls_that_are_wrong_say_what_to_write() {
    for (url, text) in [
        ("amqp:///?exchange=e", "no host is given: write amqp://host:5672/"),
        ("amqp://h:x/?exchange=e", "a host is not written as host:port"),
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
        ("amqp://h/?exchange=e&timeout=0", "the timeout and the largest message are more than nothing"),
        ("amqp://h/?exchange=e&ca=/dev/null", "`ca` is for TLS: begin the URL with amqps://"),
        (
            "amqps://h/?exchange=e&ca=/nowhere",
            "the file that `ca` of the URL names cannot be read: entity not found",
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
            "the URL has a parameter that is not known: known are exchange, routing_key, format, timeout, max_message_bytes, management, ca",
        ),
    ] {
        let error = publisher(url).expect_err(url);
        assert_eq!(error.to_string(), format!("RabbitMQ: {text}"), "{url}");
    }
    for url in [
        format!("amqp://me:{SENTINEL}/x@h/?exchange=e"),
        format!("amqp://me:{SENTINEL}:1@h:{SENTINEL}/?exchange=e"),
        format!("amqp://me:x@h/?exchange=e&{SENTINEL}=1"),
    ] {
        let error = publisher(&url).expect_err("a bad URL");
        assert!(!format!("{error} {error:?}").contains(SENTINEL), "{error}");
    }
    let builder = AmqpPublisher::builder(["h"]).login("me", SENTINEL).exchange("e");
    assert!(!format!("{builder:?}").contains(SENTINEL));
}
