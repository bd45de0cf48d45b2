//! Faulty receivers: error statuses, redirects, invalid HTTP, endless bodies, no response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use posthaste::Outcome;
use posthaste_publishers::http::HttpPublisher;
use posthaste_testkit::process::free_port;
use posthaste_testkit::server::wait_for_server;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::wire::{self, response, serve, served};
use super::{event, local};
use crate::broker_faults::full_destination_spends_no_attempts;
use crate::delivery::{assert_all_delivered, deliver_one, kind_and_text, text_of};
use crate::secrets::SENTINEL;

/// A publisher with a secret in every setting that can contain one.
fn hooks(url: &str) -> HttpPublisher {
    let url = url.replacen("http://", &format!("http://me:{SENTINEL}@"), 1);
    let hooks = local(&format!("{url}/{SENTINEL}?token={SENTINEL}")).header("x-token", SENTINEL);
    hooks.timeout(Duration::from_secs(5)).build().expect("good settings")
}

async fn outcome_of(url: &str) -> (&'static str, String) {
    let (kind, text) = kind_and_text(&deliver_one(&hooks(url), event(1)).await);
    assert!(!text.contains(SENTINEL) && !text.contains("Made"), "{text}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
    (kind, text)
}

/// The outcome of an event whose receiver responds with these bytes.
async fn outcome_of_bytes(bytes: impl Into<Vec<u8>>) -> (&'static str, String) {
    let bytes: Arc<[u8]> = bytes.into().into();
    let server = served(move |stream| {
        let bytes = Arc::clone(&bytes);
        async move {
            let mut stream = BufReader::new(stream);
            wire::request(&mut stream).await;
            let _ = stream.write_all(&bytes).await;
        }
    });
    outcome_of(&server.await.url).await
}

#[tokio::test]
async fn status_determines_the_outcome() {
    for (kind, statuses) in [
        ("done", &[200, 201, 202][..]),
        ("retry", &[301, 304, 400, 401, 403, 404, 413, 500, 501, 599, 999]),
        ("retry after", &[408, 425]),
        ("dead", &[410]),
        ("busy", &[429]),
        ("no answer", &[502, 503, 504]),
    ] {
        for status in statuses {
            let (class, text) = outcome_of_bytes(response(*status, &["connection: close"], SENTINEL)).await;
            assert_eq!(class, kind, "{status}: {text}");
            assert!(class == "done" || text.contains(&status.to_string()), "{text}");
            assert!(class == "done" || text.starts_with("http://127.0.0.1:"), "{text}");
        }
    }
    assert_eq!(outcome_of_bytes("HTTP/1.1 204 No Content\r\n\r\n").await.0, "done");
    assert_eq!(outcome_of_bytes("HTTP/1.0 200 OK\r\n\r\nuntil the end").await.0, "done");
    assert_eq!(
        outcome_of_bytes("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n").await.0,
        "done"
    );
}

#[tokio::test]
async fn retry_after_determines_the_delay() {
    for (status, line, seconds) in [
        (429, "Retry-After: 17", Some(17)),
        (429, "Retry-After: 86400", Some(3_600)),
        (429, "X-Nothing: 1", None),
        (503, "Retry-After: 17", Some(17)),
    ] {
        let server = serve(move |_| async move { Some(response(status, &[line], "")) }).await;
        let outcome = deliver_one(&hooks(&server.url), event(1)).await;
        let Outcome::Busy(busy) = outcome else { panic!("{outcome:?}") };
        assert_eq!(busy.retry_after, seconds.map(Duration::from_secs), "{status} {line}");
    }
    for (line, seconds) in [("Retry-After: 17", 17), ("X-Nothing: 1", 30)] {
        let server = serve(move |_| async move { Some(response(408, &[line], "")) }).await;
        let outcome = deliver_one(&hooks(&server.url), event(1)).await;
        let Outcome::FailedWithDelay(delay, _) = outcome else { panic!("{outcome:?}") };
        assert_eq!(delay, Duration::from_secs(seconds), "{line}");
    }
}

/// A request limit that a backlog exceeds until it is delivered.
#[tokio::test(flavor = "multi_thread")]
async fn backlog_waits_for_a_receiver_that_limits_requests() {
    let is_full = Arc::new(AtomicBool::new(true));
    let server = {
        let (is_full, taken) = (Arc::clone(&is_full), Arc::new(AtomicUsize::new(0)));
        serve(move |_| {
            let accepts = !is_full.load(Ordering::SeqCst) && taken.fetch_add(1, Ordering::SeqCst) % 3 > 0;
            async move { Some(response(if accepts { 200 } else { 429 }, &[], "")) }
        })
        .await
    };
    let room = async |_| is_full.store(false, Ordering::SeqCst);
    full_destination_spends_no_attempts(Arc::new(hooks(&server.url)), room).await;
}

// S7
#[tokio::test]
async fn redirects_are_not_followed() {
    let other = serve(|_| async { Some(response(200, &[], "")) }).await;
    for status in [301, 302, 303, 307, 308] {
        for place in [other.url.as_str(), "http://169.254.169.254/latest/meta-data"] {
            let location = format!("location: {place}/{SENTINEL}");
            let (kind, text) = outcome_of_bytes(response(status, &[&location], "")).await;
            assert_eq!(kind, "retry", "{status}: {text}");
            assert!(text.contains("redirects are not followed"), "{text}");
            assert!(!text.contains("169.254"), "{text}");
        }
    }
    assert_eq!(other.connections.load(Ordering::SeqCst), 0, "no connection was made");
}

#[tokio::test]
async fn invalid_http_is_unreachable() {
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
        b"\x16\x03\x01\x02\x00",
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        b"HTTP/1.1 20",
        b"HTTP/1.1 200 OK\r\nx: y",
        b"",
    ] {
        let (kind, text) = outcome_of_bytes(bytes).await;
        assert_eq!(kind, "no answer", "{bytes:?}: {text}");
        assert!(text.contains("sent no HTTP response: "), "{text}");
    }
}

#[tokio::test]
async fn status_is_used_even_if_the_connection_breaks_after_it() {
    assert_eq!(outcome_of_bytes("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf").await.0, "done");
    assert_eq!(
        outcome_of_bytes("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n").await.0,
        "done"
    );
    assert_eq!(outcome_of_bytes("HTTP/1.1 500 No\r\ncontent-length: 1000\r\n\r\nhalf").await.0, "retry");
}

#[tokio::test]
async fn endless_header_block_is_unreachable() {
    let server = served(|stream| async move {
        let mut stream = BufReader::new(stream);
        wire::request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while stream.write_all(b"x-more: and more and more and more\r\n").await.is_ok() {}
    });
    assert_eq!(outcome_of(&server.await.url).await.0, "no answer");
}

/// Reading stops long before the timeout, which would make the event unreachable.
#[tokio::test]
async fn endless_body_does_not_delay_the_outcome() {
    let server = served(|mut stream| async move {
        let (read, mut write) = stream.split();
        wire::request(&mut BufReader::new(read)).await;
        let _ = write.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nx").await;
        std::future::pending::<()>().await;
    });
    assert_eq!(outcome_of(&server.await.url).await.0, "done");
}

#[tokio::test]
async fn huge_body_is_not_read() {
    let written = Arc::new(AtomicUsize::new(0));
    let ended = Arc::new(AtomicUsize::new(0));
    let server = {
        let (written, ended) = (Arc::clone(&written), Arc::clone(&ended));
        served(move |stream| huge(stream, Arc::clone(&written), Arc::clone(&ended))).await
    };
    assert_eq!(outcome_of(&server.url).await.0, "done");
    wait_for_server("the connection is closed", async || ended.load(Ordering::SeqCst) == 1).await;
    // Some bytes end up in the operating system's buffers.
    assert!(
        written.load(Ordering::SeqCst) < 64 << 20,
        "{} bytes were accepted",
        written.load(Ordering::SeqCst)
    );
}

async fn huge(stream: TcpStream, written: Arc<AtomicUsize>, ended: Arc<AtomicUsize>) {
    let mut stream = BufReader::new(stream);
    wire::request(&mut stream).await;
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1099511627776\r\n\r\n").await;
    while stream.write_all(&[b'x'; 65_536]).await.is_ok() {
        written.fetch_add(65_536, Ordering::SeqCst);
    }
    ended.fetch_add(1, Ordering::SeqCst);
}

#[tokio::test]
async fn receiver_that_never_responds_is_unreachable() {
    let server = serve(|_| std::future::pending()).await;
    let hooks = local(&server.url).timeout(Duration::from_secs(2)).build().expect("good settings");
    let text = text_of("no answer", &deliver_one(&hooks, event(1)).await);
    assert!(text.ends_with("did not respond within 2s"), "{text}");
}

#[tokio::test]
async fn missing_receiver_is_no_connection() {
    let (kind, text) = outcome_of(&format!("http://127.0.0.1:{}", free_port())).await;
    assert_eq!(kind, "no connection");
    assert!(text.contains("cannot connect to http://127.0.0.1:") && text.contains("refused"), "{text}");
    let (kind, text) = outcome_of("http://nothing.invalid").await;
    assert_eq!(kind, "no connection");
    assert!(text.starts_with("cannot connect to http://nothing.invalid: "), "{text}");
}

// S7
#[tokio::test]
async fn localhost_is_not_reached_unless_it_is_allowed() {
    let server = serve(|_| async { Some(response(200, &[], "")) }).await;
    let url = server.url.replace("127.0.0.1", "localhost");
    let closed = HttpPublisher::builder(&url).allow_http().build().expect("names are resolved later");
    let text = text_of("no connection", &deliver_one(&closed, event(1)).await);
    assert!(text.contains("is not a public address"), "{text}");
    assert_eq!(server.connections.load(Ordering::SeqCst), 0, "no connection was made");
    let open = local(&url).build().expect("good settings");
    assert_all_delivered(&open, &[event(1)]).await;
}
