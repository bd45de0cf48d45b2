//! The order of events under failures: failed requests, broken connections, a topic without a leader.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste::{Delivery, Destination as _, Event};
use posthaste_publishers::kafka::KafkaPublisher;
use posthaste_testkit::process::free_port;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::broker::{Message, OwnKafka, PARTITIONS, mock, read};
use crate::delivery::{assert_all_delivered, changed, kinds, order, text_of};

const EVENTS: u32 = 20_000;
const EVENTS_PER_BATCH: usize = 250;
const KEYS: u32 = 97;

/// Fails one request in ten, in turn with: not the leader, request timed out, broken connection.
fn errors(requests: usize) -> Vec<RDKafkaRespErr> {
    const ERRORS: [RDKafkaRespErr; 3] = [
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR__TRANSPORT,
    ];
    let error = |n: usize| match n % 10 {
        7 => ERRORS[n / 10 % 3],
        _ => RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR,
    };
    (0..requests).map(error).collect()
}

// F6
#[tokio::test(flavor = "multi_thread")]
async fn order_is_kept_when_one_request_in_ten_fails() {
    let cluster = mock(&["events"]);
    let kafka = KafkaPublisher::builder(cluster.bootstrap_servers()).topic("events");
    let kafka = kafka.set("retry.backoff.ms", "5").set("retry.backoff.max.ms", "20");
    // The mock does not check sequence numbers, so with several requests in flight it would accept one whose
    // predecessor it has refused.
    let kafka = kafka.set("reconnect.backoff.ms", "5").set("max.in.flight", "1");
    let kafka = kafka.build().expect("good settings");
    let events = events();
    cluster.request_errors(RDKafkaApiKey::Produce, &errors(5_000));
    for batch in events.chunks(EVENTS_PER_BATCH) {
        assert_all_delivered(&kafka, batch).await;
    }
    cluster.clear_request_errors(RDKafkaApiKey::Produce);

    let messages = read(&cluster.bootstrap_servers(), "events").await;
    assert_in_order(&messages, &events);
    println!("{} of {EVENTS} arrived more than once", messages.len() - events.len());
}

fn events() -> Vec<Delivery> {
    let event = |n: u32| Event::builder("Made").aggregate("Thing", n % KEYS).json(&n).build();
    (0..EVENTS).map(|n| Delivery::first(event(n).expect("a good event"))).collect()
}

/// Asserts that every event has arrived, and that the first occurrences of the events of a key are in order.
fn assert_in_order(messages: &[Message], events: &[Delivery]) {
    let mut different = HashSet::new();
    let mut last = vec![None; KEYS as usize];
    for message in messages.iter().filter(|message| different.insert(message.id())) {
        let n: u32 =
            serde_json::from_slice(message.payload.as_deref().expect("a payload")).expect("a number");
        let last = &mut last[(n % KEYS) as usize];
        assert!(last.is_none_or(|last| last < n), "{n} of key {} comes after {last:?}", n % KEYS);
        *last = Some(n);
    }
    let lost: Vec<&Delivery> = events.iter().filter(|event| !different.contains(event.id())).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// A proxy to a broker that breaks each connection after 20 reads from the broker. The client never sees the last
/// reply.
async fn cutting_proxy(listener: TcpListener, to: u16, cuts: Arc<AtomicUsize>) {
    loop {
        let (mut client, _) = listener.accept().await.expect("a connection");
        let cuts = Arc::clone(&cuts);
        tokio::spawn(async move {
            let mut broker = TcpStream::connect(("127.0.0.1", to)).await.expect("the broker");
            let (mut from_client, mut to_client) = client.split();
            let (mut from_broker, mut to_broker) = broker.split();
            let replies = async {
                let (mut buffer, mut left) = (vec![0; 64 * 1024], 20_u32);
                while left > 0 {
                    let read = from_broker.read(&mut buffer).await.unwrap_or(0);
                    left -= 1;
                    if read == 0 || (left > 0 && to_client.write_all(&buffer[..read]).await.is_err()) {
                        return;
                    }
                }
                cuts.fetch_add(1, Ordering::SeqCst);
            };
            tokio::select! {
                () = replies => {}
                _ = tokio::io::copy(&mut from_client, &mut to_broker) => {}
            }
        });
    }
}

// F6
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: cargo xtask test"]
async fn broken_connections_neither_lose_nor_reorder_nor_duplicate_events() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (outside, inside) = (listener.local_addr().expect("a port").port(), free_port());
    let settings = format!("advertised.listeners=PLAINTEXT://127.0.0.1:PORT,CUT://127.0.0.1:{outside}");
    let broker = OwnKafka::with(&format!(",CUT://127.0.0.1:{inside}"), &settings).await;
    let Some(mut broker) = broker else { return };
    broker.start().await;
    let cuts = Arc::new(AtomicUsize::new(0));
    let cutting = tokio::spawn(cutting_proxy(listener, inside, Arc::clone(&cuts)));
    let kafka = KafkaPublisher::builder(format!("127.0.0.1:{outside}")).topic(&broker.topic);
    let kafka = kafka.set("retry.backoff.ms", "5").set("retry.backoff.max.ms", "20");
    let kafka = kafka.set("reconnect.backoff.ms", "5").set("reconnect.backoff.max.ms", "20");
    // Small requests, so that several are in flight.
    let kafka = kafka.set("batch.num.messages", "20").build().expect("good settings");
    let events = events();
    for batch in events.chunks(EVENTS_PER_BATCH) {
        assert_all_delivered(&kafka, batch).await;
    }
    cutting.abort();
    println!("{} connections were cut", cuts.load(Ordering::SeqCst));
    assert!(cuts.load(Ordering::SeqCst) > 20, "connections were cut");
    let messages = read(&broker.hosts(), &broker.topic).await;
    assert_eq!(messages.len(), events.len(), "the brokers drop duplicates");
    assert_in_order(&messages, &events);
}

#[tokio::test(flavor = "multi_thread")]
async fn topic_without_a_leader_does_not_delay_other_topics() {
    let cluster = mock(&["good", "bad"]);
    (0..PARTITIONS).for_each(|n| cluster.partition_leader("bad", n, None).expect("no leader"));
    let hosts = cluster.bootstrap_servers();
    let kafka = KafkaPublisher::builder(&hosts).topic("{aggregate_type}");
    let kafka = kafka.timeout(std::time::Duration::from_secs(3)).build().expect("good settings");
    let event = |topic: &str| changed(&order(), |parts| parts.aggregate_type = topic.into());
    let outcomes = kafka.deliver(&[event("bad"), event("good")]).await;
    // `no answer` and not `no connection`, because a broker is reachable.
    assert_eq!(kinds(&outcomes), ["no answer", "done"]);
    let text = text_of("no answer", &outcomes[0]);
    assert!(text.contains("topic bad"), "{text}");
}
