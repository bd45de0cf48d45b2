//! Logins, permissions, certificates and URLs, and error texts without secrets.

use posthaste::Destination as _;
use posthaste_testkit::certificates::certificates;
use posthaste_testkit::server::RedisServer;

use super::server::command;
use crate::broker_faults::assert_no_connection;
use crate::delivery::{assert_delivered, assert_urls_refused, event_to, kinds, order, publisher, text_of};
use crate::secrets::SENTINEL;

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn wrong_password_is_unreachable_and_stays_secret() {
    let server = RedisServer::durable(&["--requirepass", SENTINEL]).started().await;
    let address = format!("127.0.0.1:{}", server.port());
    for login in [format!(":not-{SENTINEL}@"), format!("you:{SENTINEL}@"), String::new()] {
        let text = assert_no_connection(&format!("redis-stream://{login}{address}?stream=orders")).await;
        assert_eq!(text, format!("Redis at {address} refuses the login: check user and password"));
    }
    assert_delivered(&publisher(&format!("redis-stream://:{SENTINEL}@{address}?stream=orders"))).await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn denied_stream_is_an_attempt_and_the_others_are_delivered() {
    let server = RedisServer::durable(&[]).started().await;
    command(&server, &["ACL", "SETUSER", "some", "on", ">some", "~orders", "+@all", "-ping"]).await;
    let some = publisher(&format!("redis-stream://some:some@127.0.0.1:{}?stream=orders", server.port()));
    let outcomes = some.deliver(&[order(), event_to("secret"), order()]).await;
    assert_eq!(kinds(&outcomes), ["done", "retry", "done"]);
    let expected = "the user may not add to the stream secret: allow XADD and the key, or use another user";
    assert_eq!(text_of("retry", &outcomes[1]), expected);
    assert_eq!(some.check().await, Ok(()), "a server that denies PING is reachable");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn certificate_of_another_authority_is_unreachable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("other.pem"), certificates(folder.path())).expect("a file");
    std::fs::write(path("ca.pem"), certificates(folder.path())).expect("a file");
    let files = ["--tls-cert-file", &path("cert.pem"), "--tls-key-file", &path("key.pem")];
    let settings = ["--tls-port", "PORT", "--tls-auth-clients", "no", "--requirepass", SENTINEL];
    let server = RedisServer::durable(&[&settings[..], &files].concat()).started().await;
    let url = format!("rediss-stream://:{SENTINEL}@localhost:{}?stream=orders", server.port());
    assert_delivered(&publisher(&format!("{url}&ca={}", path("ca.pem")))).await;
    for url in [format!("{url}&ca={}", path("other.pem")), url] {
        let text = assert_no_connection(&format!("{url}&timeout=5")).await;
        assert!(text.contains("invalid peer certificate"), "{text}");
    }
}

#[tokio::test]
async fn missing_server_is_unreachable_and_the_text_contains_no_secret() {
    for url in [
        format!("redis-stream://me:{SENTINEL}@127.0.0.1:1/0?stream=orders"),
        format!("redis-stream://me:{SENTINEL}@no-such-host.invalid?stream=orders"),
    ] {
        let text = assert_no_connection(&url).await;
        assert!(text.starts_with("no connection to Redis at "), "{text}");
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
    assert_urls_refused(
        "Redis Streams",
        &[
            ("redis-stream://localhost", "a stream is missing: write redis-stream://host:6379/0?stream=…"),
            ("redis-stream://?stream=x", "write one server: redis-stream://host:6379/0?stream=…"),
            ("redis-stream://a,b?stream=x", "write one server: redis-stream://host:6379/0?stream=…"),
            ("redis-stream://localhost:x?stream=x", "write each host as host:port or host"),
            ("redis-stream://localhost/x?stream=x", "the path must be the number of a database"),
            (
                "redis-stream://localhost?stream=x&maxlen=0",
                "`maxlen` must be at least 1: with 0 the stream keeps no entries",
            ),
            ("redis-stream://localhost?stream=x&timeout=0", "the timeout must be longer than zero"),
            (
                "redis-stream://localhost?stream={",
                "the stream cannot be read: a brace is not closed: write {{ for a literal brace",
            ),
            (
                "redis-stream://me:s3ntinel-PW-9f@localhost?stream=x&ca=/dev/null",
                "a root certificate needs TLS: begin the URL with rediss-stream://, or write tls(true) in the builder",
            ),
            (
                "rediss-stream://localhost?stream=x&ca=/dev/null",
                "the root certificate cannot be read: it must be PEM, with BEGIN CERTIFICATE in it",
            ),
            (
                "redis-stream://localhost?stream=x&key=y",
                "the URL has an unknown parameter: it takes format, timeout, max_message_bytes, ca, stream, topics, maxlen, approximate",
            ),
        ],
    );
}
