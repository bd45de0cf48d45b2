//! What an acknowledgement means, and what each refusal does.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use futures_util::StreamExt as _;
use posthaste::{Delivery, Destination as _, Event, EventParts, Headers, Outcome, Timestamp};
use posthaste_publishers::nats::NatsPublisher;
use posthaste_testkit::process::{free_port, program};
use posthaste_testkit::proxy::LostResponses;
use posthaste_testkit::variable;

use super::server::{NatsServer, Stream, unique_stream_name};
use super::{deliver_one, order, publisher_of, shared};

async fn own_server() -> NatsServer {
    let mut server = NatsServer::new("");
    server.start().await;
    server
}

// F25
#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn retry_is_stored_once_and_each_replay_again() {
    let name = unique_stream_name();
    let stream = Stream::new(shared(), &name);
    stream.create_with(|config| config.duplicate_window = Duration::from_secs(2)).await;
    let publisher = publisher_of(&format!("{}/{name}.orders", shared()));
    let event = order();
    let deliver = async |attempt: u32, replays: u32| {
        let mut delivery = Delivery::first(event.clone());
        (delivery.attempt, delivery.replays) = (attempt, replays);
        let outcome = publisher.deliver(&[delivery]).await.remove(0);
        assert!(outcome.is_done(), "attempt {attempt}, replay {replays}: {outcome:?}");
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

/// Ids repeat where the events of two tables go to one stream, and one event may go to two subjects of a stream:
/// a stream that took the second message for a repeat would acknowledge it and not have it.
#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn stream_stores_each_of_two_events_with_one_id_once() {
    let name = unique_stream_name();
    let stream = Stream::new(shared(), &name);
    stream.create().await;
    let first = order();
    let changed = |change: fn(&mut EventParts)| {
        let mut parts = first.to_parts();
        change(&mut parts);
        Event::from_parts(parts)
    };
    let other_payload = changed(|parts| parts.payload = "2".into());
    let other_time = changed(|parts| parts.occurred_at = Timestamp::from_micros(1));
    let batch = [first.clone(), other_payload, other_time].map(Delivery::first);
    let publisher = publisher_of(&format!("{}/{name}.orders", shared()));
    let other_subject = publisher_of(&format!("{}/{name}.others", shared()));
    for _ in 0..2 {
        for outcome in publisher.deliver(&batch).await {
            assert!(outcome.is_done(), "{outcome:?}");
        }
        let outcome = deliver_one(&other_subject, first.clone()).await;
        assert!(outcome.is_done(), "{outcome:?}");
    }
    let received = stream.received(4).await;
    assert!(received.iter().all(|message| message.id == *first.id()), "{received:?}");
    assert_eq!(received.len(), 4, "{received:?}");
    stream.delete().await;
}

// F45
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs NATS: cargo xtask test"]
async fn lost_acknowledgement_is_no_answer_and_the_retry_is_stored_once() {
    let server = own_server().await;
    let stream = Stream::new(server.url(), "lost");
    stream.create().await;
    let proxy = LostResponses::to(server.port()).await;
    let publisher = NatsPublisher::builder([format!("127.0.0.1:{}", proxy.port())])
        .subject("lost.orders")
        .timeout(Duration::from_secs(1))
        .build()
        .expect("good settings");
    let (first, second) = (order(), order());
    assert!(deliver_one(&publisher, first).await.is_done());
    proxy.lose_responses(true);
    let started = std::time::Instant::now();
    let outcome = deliver_one(&publisher, second.clone()).await;
    let Outcome::Unreachable(why) = &outcome else { panic!("{outcome:?}") };
    assert!(!why.connection_failed, "{outcome:?}");
    let text = why.error.to_string();
    assert_eq!(text, format!("NATS at 127.0.0.1:{} did not answer within 1s", proxy.port()));
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    stream.received(2).await;
    proxy.lose_responses(false);
    let outcome = deliver_one(&publisher, second).await;
    assert!(outcome.is_done(), "{outcome:?}");
    assert_eq!(stream.received(2).await.len(), 2, "the second is there once");
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn subject_of_no_stream_is_an_attempt_and_the_others_are_delivered() {
    let name = unique_stream_name();
    let stream = Stream::new(shared(), &name);
    stream.create().await;
    let publisher = publisher_of(&format!("{}/{name}.orders", shared()));
    let nowhere = Event::builder("Lost").topic(format!("{name}-nobody")).json_text("{}").build();
    let batch = [order(), nowhere.expect("a good event"), order()].map(Delivery::first);
    let outcomes = publisher.deliver(&batch).await;
    let [Outcome::Done { .. }, Outcome::Retry(why), Outcome::Done { .. }] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    let expected =
        format!("no stream takes the subject {name}-nobody: create one, or add it to the subjects of one");
    assert_eq!(why.to_string(), expected);
    stream.delete().await;
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn server_is_asked_once_for_a_subject_that_no_stream_takes() {
    let server = own_server().await;
    let client = async_nats::connect(server.url()).await.expect("a connection");
    let mut asked = client.subscribe("$JS.API.STREAM.NAMES").await.expect("a subscription");
    client.flush().await.expect("it stands");
    let publisher = publisher_of(&format!("{}/nobody", server.url()));
    let outcomes = publisher.deliver(&[order(), order(), order()].map(Delivery::first)).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Retry(_))), "{outcomes:?}");
    // Two connections: what was asked on the other one may come a little later than what is said on this one.
    client.publish("$JS.API.STREAM.NAMES", "the end".into()).await.expect("a message");
    let mut heard = [asked.next().await.expect("a message"), asked.next().await.expect("another")];
    heard.sort_by_key(|message| message.payload == "the end");
    assert!(heard[0].payload.starts_with(b"{") && heard[1].payload == "the end", "{heard:?}");
    client.publish("$JS.API.STREAM.NAMES", "no more".into()).await.expect("a message");
    assert_eq!(asked.next().await.expect("the end").payload, "no more", "asked twice");
}

/// Two of three servers of its cluster are away, so that nobody can say anything about streams.
#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn cluster_without_a_leader_is_out_of_reach() {
    let mut server = NatsServer::new(&format!(
        "server_name: one\ncluster {{ name: three, listen: \"127.0.0.1:{}\", \
         routes: [\"nats://127.0.0.1:1\", \"nats://127.0.0.1:2\"] }}",
        free_port()
    ));
    server.start().await;
    let publisher = publisher_of(&format!("{}/orders", server.url()));
    let other = Event::builder("Other").topic("other").json_text("{}").build().expect("a good event");
    let outcomes = publisher.deliver(&[order(), other, order()].map(Delivery::first)).await;
    for outcome in &outcomes {
        let Outcome::Unreachable(why) = outcome else { panic!("{outcome:?}") };
        assert!(why.error.to_string().starts_with("nobody answers for the subject "), "{}", why.error);
    }
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn stream_other_than_the_one_that_was_named_is_an_attempt() {
    let name = unique_stream_name();
    let stream = Stream::new(shared(), &name);
    stream.create().await;
    let outcome =
        deliver_one(&publisher_of(&format!("{}/{name}.orders?stream=OTHER", shared())), order()).await;
    let Outcome::Retry(why) = &outcome else { panic!("{outcome:?}") };
    assert!(why.to_string().contains("expected stream does not match"), "{why}");
    let outcome =
        deliver_one(&publisher_of(&format!("{}/{name}.orders?stream={name}", shared())), order()).await;
    assert!(outcome.is_done(), "{outcome:?}");
    stream.delete().await;
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn message_larger_than_the_stream_takes_is_dead() {
    let name = unique_stream_name();
    let stream = Stream::new(shared(), &name);
    stream.create_with(|config| config.max_message_size = 2_000).await;
    let large = Event::builder("Large").json(&"x".repeat(4_000)).build().expect("a good event");
    let publisher = publisher_of(&format!("{}/{name}.orders", shared()));
    let outcomes = publisher.deliver(&[order(), large].map(Delivery::first)).await;
    let [Outcome::Done { .. }, Outcome::Dead(why)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(why.starts_with("too large"), "{why}");
    stream.delete().await;
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn stream_that_is_full_is_busy_until_there_is_room() {
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
        let name = unique_stream_name();
        let stream = Stream::new(shared(), &name);
        stream
            .create_with(|config| {
                config.discard = DiscardPolicy::New;
                limit(config);
            })
            .await;
        let publisher = publisher_of(&format!("{}/{name}.orders", shared()));
        assert!(deliver_one(&publisher, order()).await.is_done(), "{text}");
        let late = order();
        let outcome = deliver_one(&publisher, late.clone()).await;
        let Outcome::Busy(busy) = &outcome else { panic!("{text}: {outcome:?}") };
        assert!(busy.error.to_string().contains(text), "{}", busy.error);
        stream.purge().await;
        let outcome = deliver_one(&publisher, late).await;
        assert!(outcome.is_done(), "{text}: {outcome:?}");
        stream.delete().await;
    }
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn account_that_has_used_up_its_storage_is_busy() {
    let mut server = NatsServer::new(
        "accounts { A { jetstream { max_store: 20KB }, users: [{ user: a, password: a }] } }\nno_auth_user: a",
    );
    server.start().await;
    let stream = Stream::new(server.url(), "orders");
    stream.create().await;
    let publisher = publisher_of(&format!("{}/orders.all", server.url()));
    let large = || Event::builder("Large").json(&"x".repeat(8_000)).build().expect("a good event");
    for _ in 0..2 {
        assert!(deliver_one(&publisher, large()).await.is_done());
    }
    let outcome = deliver_one(&publisher, large()).await;
    let Outcome::Busy(busy) = &outcome else { panic!("{outcome:?}") };
    assert!(busy.error.to_string().contains("resource limits exceeded for account"), "{}", busy.error);
    stream.purge().await;
    let outcome = deliver_one(&publisher, large()).await;
    assert!(outcome.is_done(), "there is room again: {outcome:?}");
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn plain_nats_reaches_those_who_listen() {
    let name = unique_stream_name();
    let client = async_nats::connect(shared()).await.expect("a connection");
    let mut listener = client.subscribe(format!("{name}.orders")).await.expect("a subscription");
    client.flush().await.expect("it stands");
    let event = order();
    let outcome =
        deliver_one(&publisher_of(&format!("{}/{name}.orders?core=true", shared())), event.clone()).await;
    assert!(outcome.is_done(), "{outcome:?}");
    let message = listener.next().await.expect("a message");
    assert_eq!(message.payload, event.payload());
    let headers = message.headers.expect("headers");
    assert_eq!(
        headers.get("outbox-event-id").map(async_nats::HeaderValue::as_str),
        Some(event.id().as_str())
    );
    assert!(headers.get("Nats-Msg-Id").is_none(), "nobody reads it");
}

/// None of these needs a server: they are refused before there is a connection.
#[tokio::test]
async fn what_would_command_the_server_is_dead() {
    let publisher = publisher_of("nats://127.0.0.1:1/orders");
    // Rows hold what no event could be built with.
    let event = |change: &dyn Fn(&mut EventParts)| {
        let mut parts = order().to_parts();
        change(&mut parts);
        Event::from_parts(parts)
    };
    let header = |name: &str, value: &str| {
        event(&|parts| parts.headers = Headers::from([(name.to_owned(), value.to_owned())]))
    };
    let topic = |topic: &str| event(&|parts| parts.topic = Some(topic.into()));
    for (event, reason) in [
        (header("nats-msg-id", "1"), "the header nats-msg-id is a command to NATS: rename it"),
        (header("Status", "100"), "the header Status is a command to NATS: rename it"),
        (header("a b", "1"), "NATS has no header of this name: a b"),
        (header("a:b", "1"), "NATS has no header of this name: a:b"),
        (header("größe", "1"), "NATS has no header of this name: größe"),
        (
            header("note", " x"),
            "NATS cannot carry the header note: its value begins or ends with a blank, which clients cut off",
        ),
        (
            topic("$JS.API.STREAM.DELETE.X"),
            "NATS has no such subject: it belongs to the server: $JS.API.STREAM.DELETE.X",
        ),
        (topic("_INBOX.x"), "NATS has no such subject: it belongs to the server: _INBOX.x"),
        (topic("orders.*"), "NATS has no such subject: there is a wildcard in it: orders.*"),
        (topic("a..b"), "NATS has no such subject: a part of it is empty: a..b"),
        (topic("a b"), "NATS has no such subject: there is a blank or a control character in it: a b"),
    ] {
        let outcome = deliver_one(&publisher, event).await;
        assert!(matches!(&outcome, Outcome::Unsendable(why) if why == reason), "{outcome:?}");
    }
    for (event, size) in
        [(topic(&"x".repeat(2_000)), "2000 bytes"), (header("note", &"x".repeat(66_000)), "65535")]
    {
        let outcome = deliver_one(&publisher, event).await;
        assert!(matches!(&outcome, Outcome::Unsendable(why) if why.contains(size)), "{outcome:?}");
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
async fn consumer_in_python_reads_it() {
    let name = unique_stream_name();
    let stream = Stream::new(shared(), &name);
    stream.create().await;
    let plain = order();
    let cloud = Event::builder("Größe \"%\"").aggregate("Order", "o-18").json_text("18").build();
    let cloud = cloud.expect("a good event");
    let url = format!("{}/{name}.{{aggregate_type}}", shared());
    assert!(deliver_one(&publisher_of(&url), plain.clone()).await.is_done());
    let outcome = deliver_one(&publisher_of(&format!("{url}?format=cloudevents")), cloud.clone()).await;
    assert!(outcome.is_done(), "{outcome:?}");

    let mut command = program(variable("POSTHASTE_TEST_PYTHON"));
    let output = command.args(["-c", CONSUMER_SCRIPT, &shared(), &format!("{name}.Order")]).output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let read: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(read[0][0], format!("{name}.Order"));
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
