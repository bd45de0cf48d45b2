//! Tests that need the publisher's internals: DNS rebinding and wrong settings.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste::{Delivery, Destination as _, Event, Outcome};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::address_filter::DnsLookup;
use super::*;
use crate::publisher::Publisher as _;

const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Responds 200 to every request and closes the connection. Counts connections.
fn serve(listener: TcpListener) -> Arc<AtomicUsize> {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4_096]).await;
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    connections
}

fn event() -> Delivery {
    Delivery::first(Event::json("Made", &1).expect("a good event"))
}

// S7: 127.0.0.2 plays an allowed address, 127.0.0.1 an address that must not be reached.
#[tokio::test]
async fn name_that_resolves_to_a_private_address_later_is_not_followed() {
    let public = TcpListener::bind("127.0.0.2:0").await.expect("a port");
    let port = public.local_addr().expect("an address").port();
    let private = TcpListener::bind(("127.0.0.1", port)).await.expect("the same port");
    let (public, private) = (serve(public), serve(private));
    let lookups = Arc::new(AtomicUsize::new(0));
    let lookup: DnsLookup = {
        let lookups = Arc::clone(&lookups);
        Arc::new(move |_| {
            let last = if lookups.fetch_add(1, Ordering::SeqCst) == 0 { 2 } else { 1 };
            Box::pin(async move { Ok(vec![IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))]) })
        })
    };
    let url = format!("http://rebinding.example:{port}/");
    let hooks = HttpPublisher::builder(url).allow_http().allow_networks(["127.0.0.2"]).lookup(lookup);
    let hooks = hooks.build().expect("good settings");

    assert!(matches!(hooks.deliver(&[event()]).await[..], [Outcome::Done { .. }]));
    for _ in 0..3 {
        let outcomes = hooks.deliver(&[event()]).await;
        let [Outcome::Unreachable(why)] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert!(why.error.to_string().contains("127.0.0.1 is not a public address"), "{}", why.error);
        assert!(why.connection_failed);
    }
    let why = hooks.check().await.expect_err("it resolves to a private address now").to_string();
    assert!(why.contains("127.0.0.1 is not a public address"), "{why}");
    assert_eq!(lookups.load(Ordering::SeqCst), 5, "each connection resolves the name");
    assert_eq!(public.load(Ordering::SeqCst), 1);
    assert_eq!(private.load(Ordering::SeqCst), 0, "no connection was made");
}

#[test]
fn errors_name_the_wrong_setting() {
    let builder = || HttpPublisher::builder("https://example.com/s3ntinel?k=s3ntinel");
    assert!(builder().build().is_ok());
    for (settings, text) in [
        (builder().concurrency(0), "HTTP: `concurrency` must be 1 to 10000"),
        (builder().timeout(Duration::ZERO), "HTTP: `timeout` must be longer than zero and at most an hour"),
        (
            builder().previous_signing_key(KEY),
            "HTTP: `previous_signing_key` needs a `signing_key`: give both",
        ),
        (
            builder().root_certificate("s3ntinel"),
            "HTTP: the root certificate cannot be read: it must be PEM, with BEGIN CERTIFICATE in it",
        ),
        (
            builder().header("Content-Length", "s3ntinel"),
            "HTTP: `header` cannot set content-length: the publisher sets it for each request",
        ),
        (
            builder().header("webhook-id", "s3ntinel"),
            "HTTP: `header` cannot set webhook-id: the publisher sets it for each request",
        ),
        (
            builder().header("s3ntinel\n", "x"),
            "HTTP: `header` was given a name that is not a valid HTTP header name",
        ),
        (
            builder().header("x-token", "s3ntinel\n"),
            "HTTP: the value that `header` was given for x-token is not plain ASCII",
        ),
        (
            HttpPublisher::builder("https://me:s3ntinel@example.com").header("Authorization", "s3ntinel"),
            "HTTP: authorization was given twice, by `header` or by the URL's user",
        ),
    ] {
        assert!(!format!("{settings:?}").contains("s3ntinel"), "{settings:?}");
        assert_eq!(settings.build().expect_err(text).to_string(), text);
    }
    for settings in [builder().signing_key("s3ntinel"), builder().allow_networks(["s3ntinel"])] {
        let error = settings.build().expect_err("wrong").to_string();
        assert!(!error.contains("s3ntinel"), "{error}");
    }
}

// S3
#[test]
fn debug_output_contains_no_secret() {
    let hooks = HttpPublisher::builder("https://me:s3ntinel@example.com/s3ntinel?k=s3ntinel")
        .signing_key(KEY)
        .header("x-token", "s3ntinel")
        .build()
        .expect("good settings");
    let shown = format!("{hooks:?} {:?}", hooks.inner.headers);
    assert!(!shown.contains("s3ntinel") && !shown.contains("MfKQ"), "{shown}");
    assert!(shown.contains("https://example.com"), "{shown}");
}

#[test]
fn events_with_the_same_key_share_a_sequence() {
    let event = |key: Option<&str>| {
        let event = Event::builder("Made").json_text("{}");
        let event = match key {
            Some(key) => event.aggregate("Thing", key),
            None => event,
        };
        Delivery::first(event.build().expect("a good event"))
    };
    let batch = [Some("a"), None, Some("b"), Some("a"), None, Some("b"), Some("a")].map(event);
    assert_eq!(sequences(&batch), [vec![0, 3, 6], vec![1], vec![2, 5], vec![4]]);
}

#[test]
fn event_waits_for_a_predecessor_that_will_be_sent_again() {
    assert!(held_up(&Outcome::done()).is_none());
    assert!(held_up(&Outcome::retry("no")).is_none());
    assert!(held_up(&Outcome::Dead(String::new())).is_none());
    assert!(matches!(held_up(&Outcome::Defer(Duration::ZERO)), Some(Outcome::Defer(_))));
    let busy = held_up(&Outcome::busy_for(Duration::from_secs(7), "x"));
    assert!(matches!(busy, Some(Outcome::Busy(busy)) if busy.retry_after == Some(Duration::from_secs(7))));
    let failed = |outcome| match outcome {
        Some(Outcome::Unreachable(why)) => Some(why.connection_failed),
        _ => None,
    };
    assert_eq!(failed(held_up(&Outcome::no_answer("x"))), Some(false));
    assert_eq!(failed(held_up(&Outcome::no_connection("x"))), Some(true));
}
