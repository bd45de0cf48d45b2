//! Requests of the webhook publisher: contents, order, concurrency and connections.

use std::collections::HashMap;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste::{Delivery, Destination as _, Event};
use posthaste_publishers::{Format, PublisherError};
use posthaste_testkit::server::SERVER_TIMEOUT;
use posthaste_testkit::wait_until;
use tokio::sync::Barrier;

use super::wire::{Request, response, serve};
use super::{event, event_of, local};
use crate::delivery::{assert_all_delivered, assert_urls_refused, changed, event_with, kind_and_text, kinds};

type Requests = Arc<Mutex<Vec<Request>>>;

/// A server that responds 200 to every request and records it.
async fn start_recording_server() -> (String, Requests) {
    start_recording_server_without("nothing").await
}

/// A server that records every request and does not respond to one with this body.
async fn start_recording_server_without(body: &'static str) -> (String, Requests) {
    let requests = Requests::default();
    let kept = Arc::clone(&requests);
    let server = serve(move |request| {
        let response = (request.body != body.as_bytes()).then(|| response(200, &[], ""));
        kept.lock().expect("no panic").push(request);
        async { response }
    });
    (server.await.url, requests)
}

#[tokio::test]
async fn request_is_a_post_with_payload_and_headers() {
    let (url, requests) = start_recording_server().await;
    let url = url.replace("/hooks", "/hooks?tenant=7&format=x");
    let hooks = local(&url)
        .signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        .header("Authorization", "Bearer abc")
        .build()
        .expect("good settings");
    let event = Event::builder("Größe")
        .aggregate("Order", "o 17")
        .topic("http://169.254.169.254/")
        .header("note", "unchanged")
        .header("Webhook-Signature", "v1,forged")
        .json_text("{}");
    let delivery = Delivery::first(event.build().expect("a good event"));
    let id = delivery.id().to_string();
    assert_all_delivered(&hooks, &[delivery]).await;

    let requests = requests.lock().expect("no panic");
    assert_eq!(requests[0].head, "POST /hooks?tenant=7&format=x HTTP/1.1");
    assert_eq!(requests[0].body, b"{}");
    for (name, value) in [
        ("outbox-event-id", id.as_str()),
        ("authorization", "Bearer abc"),
        ("content-type", "application/json"),
        ("outbox-event-type", "Gr%C3%B6%C3%9Fe"),
        ("outbox-aggregate-id", "o%2017"),
        ("note", "unchanged"),
        ("user-agent", concat!("posthaste/", env!("CARGO_PKG_VERSION"))),
    ] {
        assert_eq!(requests[0].header(name), Some(value), "{name}");
    }
    assert_ids(&requests[0], &id);
    let signatures = requests[0].headers.iter().filter(|(name, _)| name == "webhook-signature");
    let signatures: Vec<_> = signatures.map(|(_, value)| value.as_str()).collect();
    assert!(matches!(signatures[..], [one] if one != "v1,forged" && !one.contains(' ')), "{signatures:?}");
    assert!(requests[0].header("webhook-timestamp").is_some_and(|time| time.parse::<u64>().is_ok()));
}

/// `webhook-id` and `idempotency-key` are the event's id and a fingerprint of the message.
fn assert_ids(request: &Request, id: &str) {
    let webhook_id = request.header("webhook-id").expect("an id");
    let fingerprint = webhook_id.strip_prefix(&format!("{id}:")).expect("the event's id");
    assert_eq!(fingerprint.len(), 16, "{webhook_id}");
    assert_eq!(request.header("idempotency-key"), Some(webhook_id));
}

/// The webhook id does not change: a receiver that deduplicates by it drops replays too.
#[tokio::test]
async fn replay_has_a_key_that_no_receiver_has_seen() {
    let (url, requests) = start_recording_server().await;
    let hooks = local(&url).build().expect("good settings");
    let first = event(1);
    let id = first.id().to_string();
    let (mut again, mut replay) = (first.clone(), first.clone());
    (again.attempt, replay.replays) = (2, 2);
    for delivery in [first, again, replay] {
        assert_all_delivered(&hooks, &[delivery]).await;
    }
    let requests = requests.lock().expect("no panic");
    assert_ids(&requests[0], &id);
    let webhook_id = requests[0].header("webhook-id").expect("an id");
    let keys: Vec<_> = requests.iter().map(|request| request.header("idempotency-key")).collect();
    assert_eq!(keys, [Some(webhook_id), Some(webhook_id), Some(&format!("{webhook_id}:r2"))]);
    assert!(requests.iter().all(|request| request.header("webhook-id") == Some(webhook_id)));
}

/// Standard Webhooks signs id, time and body joined by dots, so an id must not contain a dot.
#[tokio::test]
async fn id_with_dots_cannot_be_read_as_an_id_and_a_time() {
    let (url, requests) = start_recording_server().await;
    let hooks = local(&url).build().expect("good settings");
    let mut delivery = changed(&event(1), |parts| parts.id = "a.9999999999.b".into());
    delivery.replays = 1;
    assert_all_delivered(&hooks, &[delivery]).await;
    let requests = requests.lock().expect("no panic");
    for name in ["webhook-id", "idempotency-key"] {
        let value = requests[0].header(name).expect(name);
        assert!(value.starts_with("a%2E9999999999%2Eb:") && !value.contains('.'), "{name}: {value}");
    }
    assert_eq!(requests[0].header("outbox-event-id"), Some("a.9999999999.b"));
}

/// Ids repeat if two tables feed one receiver, and a receiver responds 2xx to a request that it considers a
/// duplicate.
#[tokio::test]
async fn deduplicating_receiver_accepts_two_events_with_one_id() {
    let (url, requests) = start_recording_server().await;
    let hooks = local(&url).build().expect("good settings");
    let first = event(1);
    let second = changed(&first, |parts| parts.payload = "2".into());
    let batch = [first.clone(), second.clone(), first, second];
    assert_all_delivered(&hooks, &batch).await;
    let requests = requests.lock().expect("no panic");
    for name in ["webhook-id", "idempotency-key"] {
        let mut taken: HashMap<&str, &[u8]> = HashMap::new();
        for request in requests.iter() {
            let known = taken.entry(request.header(name).expect(name)).or_insert(&request.body);
            assert_eq!(*known, request.body, "{name} of a duplicate");
        }
        assert_eq!(taken.len(), 2, "{name} tells the two events apart");
    }
}

#[tokio::test]
async fn content_type_follows_the_format() {
    for (format, content_type) in [
        (Format::Raw, "application/json"),
        (Format::CloudEvents, "application/json"),
        (Format::CloudEventsStructured, "application/cloudevents+json"),
        (Format::Envelope, "application/json"),
    ] {
        let (url, requests) = start_recording_server().await;
        let hooks = local(&url).format(format).build().expect("good settings");
        assert_all_delivered(&hooks, &[event_of("é", 1)]).await;
        let requests = requests.lock().expect("no panic");
        assert_eq!(requests[0].header("content-type"), Some(content_type), "{format:?}");
        let subject = (format == Format::CloudEvents).then_some("%C3%A9");
        assert_eq!(requests[0].header("ce-subject"), subject, "{format:?}");
    }
}

// S2
#[tokio::test]
async fn event_that_would_control_the_request_is_dead_and_others_are_sent() {
    let (url, requests) = start_recording_server().await;
    let hooks = local(&url).build().expect("good settings");
    let batch = [event(1), event_with("Host", "evil.example"), event_with("note", "a\r\nx: y"), event(2)];
    assert_eq!(kinds(&hooks.deliver(&batch).await), ["done", "unsendable", "unsendable", "done"]);
    assert_eq!(requests.lock().expect("no panic").len(), 2);
}

/// Counts concurrent requests: the current number and the maximum.
#[derive(Default)]
struct ConcurrentRequests {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl ConcurrentRequests {
    fn begin(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn end(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Each request waits for seven others, so the test cannot end with fewer than eight concurrent requests.
#[tokio::test(flavor = "multi_thread")]
async fn at_most_eight_requests_are_concurrent() {
    let (concurrent, eight) = (Arc::new(ConcurrentRequests::default()), Arc::new(Barrier::new(8)));
    let server = {
        let concurrent = Arc::clone(&concurrent);
        serve(move |_| {
            let (concurrent, eight) = (Arc::clone(&concurrent), Arc::clone(&eight));
            async move {
                concurrent.begin();
                eight.wait().await;
                concurrent.end();
                Some(response(200, &[], ""))
            }
        })
        .await
    };
    let hooks = local(&server.url).concurrency(8).timeout(SERVER_TIMEOUT).build().expect("good settings");
    let calls = (0..4).map(|_| {
        let hooks = hooks.clone();
        tokio::spawn(
            async move { assert_all_delivered(&hooks, &(0..250).map(event).collect::<Vec<_>>()).await },
        )
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.expect("all are delivered");
    }
    assert_eq!(concurrent.most.load(Ordering::SeqCst), 8);
    let connections = server.connections.load(Ordering::SeqCst);
    assert!(connections < 100, "connections are reused: {connections}");
}

#[tokio::test]
async fn connection_is_reused() {
    let server = serve(|_| async { Some(response(200, &[], "a short body")) }).await;
    let hooks = local(&server.url).build().expect("good settings");
    for n in 0..100 {
        assert_all_delivered(&hooks, &[event(n)]).await;
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn event_is_sent_after_the_response_to_its_predecessor() {
    let (concurrent, requests) = (Arc::new(ConcurrentRequests::default()), Requests::default());
    let server = {
        let (concurrent, requests) = (Arc::clone(&concurrent), Arc::clone(&requests));
        serve(move |request: Request| {
            let (concurrent, requests) = (Arc::clone(&concurrent), Arc::clone(&requests));
            async move {
                concurrent.begin();
                let status = if request.body == b"3" { 500 } else { 200 };
                requests.lock().expect("no panic").push(request);
                // Enough time for a concurrent request to arrive, if there were one.
                for _ in 0..1_000 {
                    tokio::task::yield_now().await;
                }
                concurrent.end();
                Some(response(status, &[], ""))
            }
        })
        .await
    };
    let hooks = local(&server.url).build().expect("good settings");
    let batch: Vec<_> = (0..10).map(|n| event_of("k", n)).collect();
    let kinds = kinds(&hooks.deliver(&batch).await);
    let expected = ["done", "done", "done", "retry", "done", "done", "done", "done", "done", "done"];
    assert_eq!(kinds, expected, "any response, even a refusal, lets the next event be sent");
    assert_eq!(concurrent.most.load(Ordering::SeqCst), 1);
    let bodies: Vec<Vec<u8>> = requests.lock().expect("no panic").iter().map(|r| r.body.clone()).collect();
    assert_eq!(bodies, (0..10).map(|n| n.to_string().into_bytes()).collect::<Vec<_>>());
}

#[tokio::test]
async fn event_does_not_overtake_one_without_a_response() {
    let (url, requests) = start_recording_server_without("1").await;
    let hooks = local(&url).build().expect("good settings");
    let batch =
        [event_of("k", 0), event_of("k", 1), event_of("other", 5), event_of("k", 2), event_of("k", 3)];
    let outcomes = hooks.deliver(&batch).await;
    assert_eq!(kinds(&outcomes), ["done", "no answer", "done", "no answer", "no answer"]);
    assert!(kind_and_text(&outcomes[3]).1.starts_with("not sent: "), "{outcomes:?}");
    let requests = requests.lock().expect("no panic");
    assert!(!requests.iter().any(|request| request.body == b"2" || request.body == b"3"));
}

/// Events that got no permit in time are deferred if the receiver responds to others, and unreachable if it does
/// not.
#[tokio::test]
async fn events_without_a_permit_are_deferred_if_the_receiver_is_only_slow() {
    let server = serve(|request: Request| async move {
        match request.body.as_slice() {
            b"0" => Some(response(200, &[], "")),
            _ => std::future::pending().await,
        }
    })
    .await;
    let hooks = local(&server.url).concurrency(1).timeout(Duration::from_secs(3));
    let hooks = hooks.build().expect("good settings");
    let outcomes = hooks.deliver(&[event(0), event(1), event(2)]).await;
    assert_eq!(kinds(&outcomes), ["done", "no answer", "defer"]);
    let outcomes = hooks.deliver(&[event(1), event(2)]).await;
    assert_eq!(kinds(&outcomes), ["no answer", "no answer"]);
    assert!(kind_and_text(&outcomes[1]).1.starts_with("not sent: "), "{outcomes:?}");
}

#[tokio::test]
async fn dropped_call_releases_its_permits() {
    let requests = Arc::new(AtomicUsize::new(0));
    let server = {
        let requests = Arc::clone(&requests);
        serve(move |_| {
            let first = requests.fetch_add(1, Ordering::SeqCst) == 0;
            async move { if first { std::future::pending().await } else { Some(response(200, &[], "")) } }
        })
        .await
    };
    let hooks = local(&server.url).concurrency(1).build().expect("good settings");
    let pair = [event(1), event(2)];
    tokio::select! {
        outcomes = hooks.deliver(&pair) => panic!("{outcomes:?}"),
        () = wait_until("the first request has arrived", async || requests.load(Ordering::SeqCst) == 1) => {}
    }
    assert_all_delivered(&hooks, &[event(1), event(2)]).await;
}

#[test]
fn https_urls_build_a_webhook_publisher() -> Result<(), PublisherError> {
    posthaste_publishers::publisher("https://example.com/hooks?tenant=7")?;
    assert_urls_refused(
        "HTTP",
        &[
            (
                "http://example.com/",
                "http sends events unencrypted: write https, or allow it with allow_http",
            ),
            (
                "https://127.0.0.1/",
                "127.0.0.1 is not a public address: name its network in allow_networks if events are meant to go there",
            ),
        ],
    );
    Ok(())
}

const PROXIED_VAR: &str = "POSTHASTE_TEST_HTTP_PROXIED";

// S7
#[tokio::test]
async fn proxy_of_the_environment_is_not_used() {
    let proxy = serve(|_| async { Some(response(200, &[], "")) }).await;
    let (url, requests) = start_recording_server().await;
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "http::requests::child", "--ignored"]).env(PROXIED_VAR, url);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, proxy.url.trim_end_matches("/hooks"));
    }
    let ended =
        tokio::task::spawn_blocking(move || child.output()).await.expect("no panic").expect("it runs");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    assert_eq!(proxy.connections.load(Ordering::SeqCst), 0);
    assert_eq!(requests.lock().expect("no panic").len(), 1);
}

/// Not a test: the process that has a proxy in its environment.
#[tokio::test]
#[ignore = "a process of other tests: cargo xtask test"]
async fn child() {
    let Ok(url) = std::env::var(PROXIED_VAR) else { return };
    let hooks = local(&url).build().expect("good settings");
    assert_all_delivered(&hooks, &[event(1)]).await;
}
