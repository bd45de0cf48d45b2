//! Outcomes: replies, refusals and outages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::{Delivery, Destination as _, Event};
use posthaste_publishers::Publisher;
use posthaste_testkit::process::program;
use posthaste_testkit::proxy::LostResponses;
use posthaste_testkit::server::RedisServer;
use posthaste_testkit::variable;

use super::server::{command, received, url, url_at};
use crate::delivery::{
    assert_all_delivered, assert_delivered, changed, deliver_one, event_to, kinds, order, publisher, text_of,
};

async fn own_server(settings: &[&str]) -> (RedisServer, Arc<dyn Publisher>) {
    let server = RedisServer::durable(settings).started().await;
    let publisher = publisher(&url(&server));
    (server, publisher)
}

// F42
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test"]
async fn silent_connection_is_replaced() {
    let (server, _) = own_server(&[]).await;
    let proxy = LostResponses::to(server.port()).await;
    let publisher = publisher(&url_at(proxy.port()));
    assert_delivered(&publisher).await;
    proxy.lose_responses(true);
    let started = Instant::now();
    let address = format!("127.0.0.1:{}", proxy.port());
    let text = text_of("no answer", &deliver_one(&publisher, order()).await);
    assert_eq!(text, format!("Redis at {address} did not reply within 2s"));
    let text = text_of("no connection", &deliver_one(&publisher, order()).await);
    assert!(text.starts_with(&format!("no connection to Redis at {address}")), "{text}");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    proxy.lose_responses(false);
    let back = Instant::now();
    assert_delivered(&publisher).await;
    assert!(back.elapsed() < Duration::from_secs(5), "{:?}", back.elapsed());
}

// F17
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn full_server_is_unreachable_until_it_has_room() {
    let (server, publisher) = own_server(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]).await;
    let text = text_of("no answer", &deliver_one(&publisher, order()).await);
    assert_eq!(text, "Redis is full (OOM): give it more maxmemory, or trim streams");
    command(&server, &["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_delivered(&publisher).await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn key_of_another_type_is_an_attempt_and_the_others_are_delivered() {
    let (server, publisher) = own_server(&[]).await;
    command(&server, &["SET", "text", "1", "PX", "600000"]).await;
    let outcomes = publisher.deliver(&[order(), event_to("text"), order()]).await;
    assert_eq!(kinds(&outcomes), ["done", "retry", "done"]);
    let expected = "the key text exists in Redis and is not a stream: rename one of the two";
    assert_eq!(text_of("retry", &outcomes[1]), expected);
    command(&server, &["DEL", "text"]).await;
    assert_eq!(received(server.port(), 2).await.len(), 2);
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn cluster_node_is_unreachable_and_the_text_says_why() {
    let (_server, publisher) = own_server(&["--cluster-enabled", "yes"]).await;
    let text = text_of("no answer", &deliver_one(&publisher, order()).await);
    assert!(text.contains("clusters are not supported here"), "{text}");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn replica_is_unreachable_and_the_text_says_why() {
    let (server, publisher) = own_server(&[]).await;
    command(&server, &["REPLICAOF", "127.0.0.1", "1"]).await;
    let text = text_of("no answer", &deliver_one(&publisher, order()).await);
    assert_eq!(text, "this Redis is a replica, which refuses writes: name the primary");
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn stream_is_trimmed_to_its_maximum_length() {
    let (server, _) = own_server(&[]).await;
    let url = format!("{}&maxlen=10", url(&server));
    let batch: Vec<Delivery> = (0..30).map(|_| order()).collect();
    assert_all_delivered(&publisher(&format!("{url}&approximate=false")), &batch).await;
    let kept: Vec<_> = received(server.port(), 10).await.into_iter().map(|message| message.id).collect();
    let last: Vec<_> = batch[20..].iter().map(|delivery| delivery.id().clone()).collect();
    assert_eq!(kept, last, "the oldest are dropped");
    assert_all_delivered(&publisher(&url), &batch).await;
    let kept = received(server.port(), 10).await.len();
    assert!((11..=40).contains(&kept), "approximately ten: {kept}");
}

/// More than one pipeline may hold, so the batch is sent in several.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn large_batch_is_sent_in_several_pipelines_in_order() {
    let (server, publisher) = own_server(&[]).await;
    let large = |n: usize| {
        let text = format!("\"{n}{}\"", "x".repeat(900_000));
        changed(&order(), |parts| parts.payload = text.into())
    };
    let batch: Vec<Delivery> = (0..25).map(large).collect();
    assert_all_delivered(&publisher, &batch).await;
    let got: Vec<_> = received(server.port(), 25).await.into_iter().map(|message| message.id).collect();
    assert_eq!(got, batch.iter().map(|delivery| delivery.id().clone()).collect::<Vec<_>>());
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn redis_cli_reads_every_field_of_an_entry() {
    let shared = variable("POSTHASTE_TEST_REDIS_URL");
    let host = shared.trim_start_matches("redis://").trim_end_matches('/');
    let stream = format!("posthaste-test-{}", std::process::id());
    let event = Event::builder("OrderPlaced")
        .aggregate("Order", "o-17")
        .header("payload", "not the payload")
        .header("region", "eu")
        .json_text(r#"{"größe": 42.10}"#)
        .build();
    let event = Delivery::first(event.expect("a good event"));
    let publisher = publisher(&format!("redis-stream://{host}/0?stream={stream}"));
    assert_all_delivered(&publisher, std::slice::from_ref(&event)).await;

    let cli = std::env::var("POSTHASTE_TEST_REDIS_CLI").unwrap_or_else(|_| "redis-cli".to_owned());
    let redis_cli = |words: &[&str]| {
        let output =
            program(&cli).args(["-u", &shared, "--raw"]).args(words).output().expect("redis-cli runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let text = redis_cli(&["XRANGE", &stream, "-", "+"]);
    redis_cli(&["DEL", &stream]);
    let lines: Vec<&str> = text.lines().collect();
    let field = |name: &str| {
        let at = lines[1..].iter().step_by(2).position(|line| *line == name);
        lines[2 + 2 * at.unwrap_or_else(|| panic!("{name} in {text}"))]
    };
    assert_eq!(field("id"), event.id().as_str());
    assert_eq!(field("type"), "OrderPlaced");
    assert_eq!(field("key"), "o-17");
    assert_eq!(field("content-type"), "application/json");
    assert_eq!(field("payload"), r#"{"größe": 42.10}"#);
    assert_eq!(field("header:payload"), "not the payload");
    assert_eq!(field("header:region"), "eu");
    assert_eq!(field("header:outbox-aggregate-type"), event.aggregate_type());
}
