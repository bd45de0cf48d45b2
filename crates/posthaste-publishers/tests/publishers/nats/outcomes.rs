//! Outcomes: acknowledgements, duplicates, refusals and outages.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use futures_util::StreamExt as _;
use posthaste::{Delivery, Destination as _, Event, Timestamp};
use posthaste_testkit::process::{free_port, program};
use posthaste_testkit::proxy::LostResponses;
use posthaste_testkit::variable;

use super::server::{NatsServer, Stream};
use super::shared;
use crate::delivery::{
    assert_all_delivered, assert_delivered, changed, deliver_one, event_to, event_with, kinds, of_size,
    order, publisher, text_of,
};

// F25
#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn retry_is_stored_once_and_each_replay_again() {
    let stream = Stream::shared_with(|config| config.duplicate_window = Duration::from_secs(2)).await;
    let publisher = publisher(&stream.subject("orders"));
    let first = order();
    let deliver = async |attempt: u32, replays: u32| {
        let mut delivery = first.clone();
        (delivery.attempt, delivery.replays) = (attempt, replays);
        assert_all_delivered(&publisher, &[delivery]).await;
    };
    deliver(1, 0).await;
    deliver(2, 0).await;
    assert_eq!(stream.received(1).await.len(), 1, "a retry within the window");
    deliver(1, 1).await;
    deliver(2, 1).await;
    assert_eq!(stream.received(2).await.len(), 2, "a replay, and its retry");
    deliver(1, 2).await;
    assert_eq!(stream.received(3).await.len(), 3, "the next replay");
    stream.delete().await;
}

/// Ids repeat if two tables feed one stream, and one event may go to two subjects of a stream. A stream that
/// considered the second message a duplicate would acknowledge it without storing it.
#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn stream_stores_each_of_two_events_with_one_id_once() {
    let stream = Stream::shared().await;
    let first = order();
    let other_payload = changed(&first, |parts| parts.payload = "2".into());
    let other_time = changed(&first, |parts| parts.occurred_at = Timestamp::from_micros(1));
    let batch = [first.clone(), other_payload, other_time];
    let orders = publisher(&stream.subject("orders"));
    let others = publisher(&stream.subject("others"));
    for _ in 0..2 {
        assert_all_delivered(&orders, &batch).await;
        assert_all_delivered(&others, &batch[..1]).await;
    }
    let received = stream.received(4).await;
    assert!(received.iter().all(|message| message.id == *first.id()), "{received:?}");
    assert_eq!(received.len(), 4, "{received:?}");
    stream.delete().await;
}

// F45
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs NATS: cargo xtask test"]
async fn lost_acknowledgement_is_unreachable_and_the_retry_is_stored_once() {
    let server = NatsServer::started("").await;
    let stream = Stream::new(server.url(), "lost");
    stream.create().await;
    let proxy = LostResponses::to(server.server.port()).await;
    let publisher = publisher(&format!("nats://127.0.0.1:{}/lost.orders?timeout=1", proxy.port()));
    assert_delivered(&publisher).await;
    let second = order();
    proxy.lose_responses(true);
    let started = std::time::Instant::now();
    let outcome = deliver_one(&publisher, second.clone()).await;
    let text = text_of("no answer", &outcome);
    assert_eq!(text, format!("NATS at 127.0.0.1:{} did not reply within 1s", proxy.port()));
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    stream.received(2).await;
    proxy.lose_responses(false);
    assert_all_delivered(&publisher, &[second]).await;
    assert_eq!(stream.received(2).await.len(), 2, "the second event is stored once");
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn subject_without_a_stream_is_an_attempt_and_the_others_are_delivered() {
    let stream = Stream::shared().await;
    let publisher = publisher(&stream.subject("orders"));
    let nowhere = format!("{}-unknown", stream.name);
    let outcomes = publisher.deliver(&[order(), event_to(&nowhere), order()]).await;
    assert_eq!(kinds(&outcomes), ["done", "retry", "done"]);
    let expected =
        format!("no stream stores the subject {nowhere}: create one, or add it to the subjects of one");
    assert_eq!(text_of("retry", &outcomes[1]), expected);
    stream.delete().await;
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn subject_without_a_stream_is_looked_up_once_per_call() {
    let server = NatsServer::started("").await;
    let client = async_nats::connect(server.url()).await.expect("a connection");
    let mut lookups = client.subscribe("$JS.API.STREAM.NAMES").await.expect("a subscription");
    client.flush().await.expect("it is registered");
    let publisher = publisher(&format!("{}/unknown", server.url()));
    let outcomes = publisher.deliver(&[order(), order(), order()]).await;
    assert_eq!(kinds(&outcomes), ["retry"; 3], "{outcomes:?}");
    // The publisher sends its lookup on another connection, so the lookup may arrive after this message, although
    // it was sent earlier.
    client.publish("$JS.API.STREAM.NAMES", "the end".into()).await.expect("a message");
    let mut heard = [lookups.next().await.expect("a message"), lookups.next().await.expect("another")];
    heard.sort_by_key(|message| message.payload == "the end");
    assert!(heard[0].payload.starts_with(b"{") && heard[1].payload == "the end", "{heard:?}");
    client.publish("$JS.API.STREAM.NAMES", "no more".into()).await.expect("a message");
    assert_eq!(lookups.next().await.expect("the end").payload, "no more", "it was looked up twice");
}

/// Two of three servers of the cluster are down, so the remaining one knows nothing about streams.
#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn cluster_without_a_leader_is_unreachable() {
    let server = NatsServer::started(&format!(
        "server_name: one\ncluster {{ name: three, listen: \"127.0.0.1:{}\", \
         routes: [\"nats://127.0.0.1:1\", \"nats://127.0.0.1:2\"] }}",
        free_port()
    ))
    .await;
    let publisher = publisher(&format!("{}/orders", server.url()));
    for outcome in publisher.deliver(&[order(), event_to("other"), order()]).await {
        let text = text_of("no answer", &outcome);
        assert!(text.contains(" has no responder, and NATS does not say "), "{text}");
    }
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn stream_other_than_the_configured_one_is_an_attempt() {
    let stream = Stream::shared().await;
    let url = |named: &str| format!("{}?stream={named}", stream.subject("orders"));
    let text = text_of("retry", &deliver_one(&publisher(&url("OTHER")), order()).await);
    assert!(text.contains("expected stream does not match"), "{text}");
    assert_delivered(&publisher(&url(&stream.name))).await;
    stream.delete().await;
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn message_larger_than_the_limit_of_the_stream_is_dead() {
    let stream = Stream::shared_with(|config| config.max_message_size = 2_000).await;
    let publisher = publisher(&stream.subject("orders"));
    let outcomes = publisher.deliver(&[order(), of_size(4_000)]).await;
    assert_eq!(kinds(&outcomes), ["done", "dead"]);
    assert!(text_of("dead", &outcomes[1]).starts_with("too large"), "{outcomes:?}");
    stream.delete().await;
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn full_stream_is_busy_until_there_is_room() {
    for (limit, text) in [
        ((|config| config.max_messages = 1) as fn(&mut Config), "maximum messages exceeded"),
        (|config| config.max_bytes = 400, "maximum bytes exceeded"),
        (
            |config| {
                config.max_messages_per_subject = 1;
                config.discard_new_per_subject = true;
            },
            "maximum messages per subject exceeded",
        ),
    ] {
        let stream = Stream::shared_with(|config| {
            config.discard = DiscardPolicy::New;
            limit(config);
        })
        .await;
        let publisher = publisher(&stream.subject("orders"));
        assert_delivered(&publisher).await;
        let late = order();
        let busy = text_of("busy", &deliver_one(&publisher, late.clone()).await);
        assert!(busy.contains(text), "{busy}");
        stream.purge().await;
        assert_all_delivered(&publisher, &[late]).await;
        stream.delete().await;
    }
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn account_without_free_storage_is_busy() {
    let settings = "accounts { A { jetstream { max_store: 20KB }, users: [{ user: a, password: a }] } }\nno_auth_user: a";
    let server = NatsServer::started(settings).await;
    let stream = Stream::new(server.url(), "orders");
    stream.create().await;
    let publisher = publisher(&stream.subject("all"));
    for _ in 0..2 {
        assert_all_delivered(&publisher, &[of_size(8_000)]).await;
    }
    let text = text_of("busy", &deliver_one(&publisher, of_size(8_000)).await);
    assert!(text.contains("resource limits exceeded for account"), "{text}");
    stream.purge().await;
    // The account has free storage again.
    assert_all_delivered(&publisher, &[of_size(8_000)]).await;
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn core_nats_reaches_subscribers() {
    let subject = format!("plain-{}", order().id());
    let client = async_nats::connect(shared()).await.expect("a connection");
    let mut listener = client.subscribe(subject.clone()).await.expect("a subscription");
    client.flush().await.expect("it is registered");
    let event = order();
    let publisher = publisher(&format!("{}/{subject}?core=true", shared()));
    assert_all_delivered(&publisher, std::slice::from_ref(&event)).await;
    let message = listener.next().await.expect("a message");
    assert_eq!(message.payload, event.payload());
    let headers = message.headers.expect("headers");
    assert_eq!(
        headers.get("outbox-event-id").map(async_nats::HeaderValue::as_str),
        Some(event.id().as_str())
    );
    assert!(headers.get("Nats-Msg-Id").is_none(), "core NATS does not use it");
}

/// Needs no server: these events are refused before a connection is opened.
#[tokio::test]
async fn event_that_nats_would_interpret_or_cannot_carry_is_dead() {
    let publisher = publisher("nats://127.0.0.1:1/orders");
    for (event, reason) in [
        (event_with("nats-msg-id", "1"), "the header nats-msg-id has a meaning for NATS: rename it"),
        (event_with("Status", "100"), "the header Status has a meaning for NATS: rename it"),
        (event_with("a b", "1"), "this is not a valid NATS header name: a b"),
        (event_with("a:b", "1"), "this is not a valid NATS header name: a:b"),
        (event_with("größe", "1"), "this is not a valid NATS header name: größe"),
        (
            event_with("note", " x"),
            "NATS cannot carry the header note: its value begins or ends with a space, which clients remove",
        ),
        (
            event_to("$JS.API.STREAM.DELETE.X"),
            "this is not a valid NATS subject: it is reserved for the server: $JS.API.STREAM.DELETE.X",
        ),
        (event_to("_INBOX.x"), "this is not a valid NATS subject: it is reserved for the server: _INBOX.x"),
        (event_to("orders.*"), "this is not a valid NATS subject: it contains a wildcard: orders.*"),
        (event_to("a..b"), "this is not a valid NATS subject: a part of it is empty: a..b"),
        (
            event_to("a b"),
            "this is not a valid NATS subject: it contains a space or a control character: a b",
        ),
    ] {
        assert_eq!(text_of("unsendable", &deliver_one(&publisher, event).await), reason);
    }
    for (event, size) in
        [(event_to(&"x".repeat(2_000)), "2000 bytes"), (event_with("note", &"x".repeat(66_000)), "65535")]
    {
        let text = text_of("unsendable", &deliver_one(&publisher, event).await);
        assert!(text.contains(size), "{text}");
    }
}

const CONSUMER_SCRIPT: &str = r#"
import asyncio, json, sys, nats

async def main(url, subject):
    client = await nats.connect(url)
    consumer = await client.jetstream().pull_subscribe(subject)
    for message in await consumer.fetch(2, timeout=30):
        await message.ack()
        print(json.dumps([message.subject, dict(message.headers), message.data.decode()]))
    await client.close()

asyncio.run(main(*sys.argv[1:]))
"#;

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn python_consumer_reads_every_field_of_a_message() {
    let stream = Stream::shared().await;
    let plain = order();
    let cloud = Event::builder("Größe \"%\"").aggregate("Order", "o-18").json_text("18").build();
    let cloud = Delivery::first(cloud.expect("a good event"));
    let url = stream.subject("{aggregate_type}");
    assert_all_delivered(&publisher(&url), std::slice::from_ref(&plain)).await;
    assert_all_delivered(&publisher(&format!("{url}?format=cloudevents")), std::slice::from_ref(&cloud))
        .await;

    let mut command = program(variable("POSTHASTE_TEST_PYTHON"));
    let output = command.args(["-c", CONSUMER_SCRIPT, &shared(), &format!("{}.Order", stream.name)]).output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let read: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(read[0][0], format!("{}.Order", stream.name));
    assert_eq!(read[0][1]["outbox-event-id"], plain.id().as_str());
    let message_id = read[0][1]["Nats-Msg-Id"].as_str().expect("an id");
    assert!(message_id.starts_with(&format!("{}:", plain.id())), "{message_id}");
    assert_eq!(read[0][1]["outbox-event-type"], "OrderPlaced");
    assert_eq!(read[0][1]["outbox-aggregate-id"], "o-17");
    assert_eq!(read[0][1]["region"], "eu");
    assert_eq!(read[0][1]["Content-Type"], "application/json");
    assert_eq!(read[0][2], r#"{"total": 42.10}"#);
    assert_eq!(read[1][1]["ce-id"], cloud.id().as_str());
    assert_eq!(read[1][1]["ce-type"], "Gr%C3%B6%C3%9Fe%20%22%25%22");
    assert_eq!(read[1][2], "18");
    stream.delete().await;
}
