//! Who may do what: logins, permissions, certificates, and that no secret is told.

use std::time::Duration;

use posthaste::{Delivery, Destination as _, Event, Outcome};
use posthaste_publishers::Publisher as _;
use posthaste_publishers::redis_streams::RedisStreamPublisher;
use posthaste_testkit::certificates::certificates;
use posthaste_testkit::server::RedisServer;

use super::server::command;
use super::{deliver_one, order, publisher_of, unreachable_reason};
use crate::broker_faults::is_out_of_reach;

const SECRET: &str = "s3ntinel-PW-9f";

fn is_secret(outcome: &Outcome, publisher: &RedisStreamPublisher) -> bool {
    !format!("{outcome:?} {publisher:?}").contains(SECRET)
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn wrong_password_is_out_of_reach_and_stays_secret() {
    let mut server = RedisServer::durable(&["--requirepass", SECRET]);
    server.start().await;
    let address = format!("127.0.0.1:{}", server.port());
    for login in [format!(":not-{SECRET}@"), format!("you:{SECRET}@")] {
        let publisher = publisher_of(&format!("redis-stream://{login}{address}?stream=orders"));
        let outcome = deliver_one(&publisher, order()).await;
        let text = unreachable_reason(&outcome);
        assert_eq!(text, format!("Redis at {address} refuses the login: check user and password"));
        assert!(is_secret(&outcome, &publisher), "{outcome:?}");
        let checked = is_out_of_reach(&format!("redis-stream://{login}{address}?stream=orders")).await;
        assert_eq!(checked, text);
    }
    let text = unreachable_reason(
        &deliver_one(&publisher_of(&format!("redis-stream://{address}?stream=orders")), order()).await,
    );
    assert!(text.contains("refuses the login: check user and password"), "{text}");
    let outcome =
        deliver_one(&publisher_of(&format!("redis-stream://:{SECRET}@{address}?stream=orders")), order())
            .await;
    assert!(outcome.is_done(), "{outcome:?}");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn stream_that_is_denied_is_an_attempt_and_the_others_are_delivered() {
    let mut server = RedisServer::durable(&[]);
    server.start().await;
    command(&server, &["ACL", "SETUSER", "some", "on", ">some", "~orders", "+@all", "-ping"]).await;
    let publisher =
        publisher_of(&format!("redis-stream://some:some@127.0.0.1:{}?stream=orders", server.port()));
    let denied = Event::builder("Secret").topic("secret").json_text("{}").build().expect("a good event");
    let outcomes = publisher.deliver(&[order(), denied, order()].map(Delivery::first)).await;
    let [Outcome::Done { .. }, Outcome::Retry(why), Outcome::Done { .. }] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    let expected = "the user may not add to the stream secret: allow XADD and the key, or use another user";
    assert_eq!(why.to_string(), expected);
    assert_eq!(publisher.check().await, Ok(()), "a server that forbids the question is there");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn certificate_of_another_authority_is_out_of_reach() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = certificates(folder.path());
    let other = certificates(tempfile::tempdir().expect("a folder").path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("ca.pem"), &authority).expect("a file");
    let mut server = RedisServer::durable(&[
        "--tls-port",
        "PORT",
        "--tls-cert-file",
        &path("cert.pem"),
        "--tls-key-file",
        &path("key.pem"),
        "--tls-auth-clients",
        "no",
        "--requirepass",
        SECRET,
    ]);
    server.start().await;
    let port = server.port();

    let url = format!("rediss-stream://:{SECRET}@localhost:{port}?stream=orders&ca={}", path("ca.pem"));
    let outcome = deliver_one(&publisher_of(&url), order()).await;
    assert!(outcome.is_done(), "{outcome:?}");

    let builder = RedisStreamPublisher::builder(format!("localhost:{port}")).stream("orders").tls(true);
    let builder = builder.password(SECRET).timeout(Duration::from_secs(5));
    for builder in [builder.clone().root_certificate(other), builder.clone()] {
        let publisher = builder.build().expect("good settings");
        let outcome = deliver_one(&publisher, order()).await;
        assert!(unreachable_reason(&outcome).contains("invalid peer certificate"), "{outcome:?}");
        assert!(is_secret(&outcome, &publisher), "{outcome:?}");
    }
}

#[tokio::test]
async fn nobody_there_is_out_of_reach_and_no_secret_is_told() {
    for url in [
        format!("redis-stream://me:{SECRET}@127.0.0.1:1/0?stream=orders"),
        format!("redis-stream://me:{SECRET}@no-such-host.invalid?stream=orders"),
    ] {
        let publisher = publisher_of(&url);
        let outcome = deliver_one(&publisher, order()).await;
        let text = unreachable_reason(&outcome);
        assert!(text.starts_with("no connection to Redis at "), "{text}");
        assert_eq!(is_out_of_reach(&url).await, text);
        assert!(is_secret(&outcome, &publisher), "{outcome:?}");
    }
}

#[test]
fn urls_are_checked_before_anything_is_connected() {
    for url in [
        "redis-stream://localhost?stream=orders",
        "redis-stream://me:x@[::1]:6379/3?stream=shop:{aggregate_type}&maxlen=1000&approximate=false",
        "rediss-stream://localhost/?stream=orders&timeout=5&max_message_bytes=1000&format=envelope",
        "redis-stream://localhost?format=debezium",
    ] {
        assert!(posthaste_publishers::publisher(url).is_ok(), "{url}");
    }
    for (url, text) in [
        ("redis-stream://localhost", "Redis Streams: write the stream: redis-stream://host:6379/0?stream=…"),
        ("redis-stream://?stream=x", "Redis Streams: write one server: redis-stream://host:6379/0?stream=…"),
        (
            "redis-stream://a,b?stream=x",
            "Redis Streams: write one server: redis-stream://host:6379/0?stream=…",
        ),
        ("redis-stream://localhost:x?stream=x", "Redis Streams: write the server as host:port or host"),
        (
            "redis-stream://localhost/x?stream=x",
            "Redis Streams: behind the host stands the number of a database",
        ),
        (
            "redis-stream://localhost?stream=x&maxlen=0",
            "Redis Streams: with maxlen=0 no stream would keep anything",
        ),
        (
            "redis-stream://localhost?stream=x&timeout=0",
            "Redis Streams: the timeout must be longer than nothing",
        ),
        (
            "redis-stream://localhost?stream={",
            "Redis Streams: the stream cannot be read: a brace is not closed: write {{ for one that stands for itself",
        ),
        (
            "redis-stream://me:s3ntinel-PW-9f@localhost?stream=x&ca=/dev/null",
            "Redis Streams: a root certificate needs TLS: write rediss-stream://host:6379, or tls(true) in the builder",
        ),
        (
            "rediss-stream://localhost?stream=x&ca=/dev/null",
            "Redis Streams: the root certificate cannot be read: it must be PEM, with BEGIN CERTIFICATE in it",
        ),
        (
            "redis-stream://localhost?stream=x&key=y",
            "Redis Streams: the URL has a parameter that is not known: known are stream, topics, maxlen, approximate, format, max_message_bytes, ca, timeout",
        ),
    ] {
        let error = posthaste_publishers::publisher(url).expect_err(url);
        assert_eq!(error.to_string(), text, "{url}");
    }
}
