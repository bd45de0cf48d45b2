//! Stop of a relay: graceful on the first signal, immediate on the second.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::file_sink::Sink;
use super::process::{Relay, WAIT_TIMEOUT};
use super::{file, ids, options};
use crate::shop::{Shop, StoreKind};

/// A receiver that accepts requests and never responds. The channel gets a message for each.
fn silent_receiver() -> (String, std::sync::mpsc::Receiver<()>) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", socket.local_addr().expect("an address"));
    let (sender, arrived) = channel();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in socket.incoming().map_while(Result::ok) {
            // The health check of a relay connects and sends nothing.
            if stream.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {
                let _ = sender.send(());
                open.push(stream);
            }
        }
    });
    (url, arrived)
}

/// A route to this receiver, which is neither public nor encrypted.
fn route_to(url: &str) -> String {
    format!(
        "[[outbox.shop.route]]\npublish = {url:?}\n\
         webhook = {{ allow_http = true, allow_networks = [\"127.0.0.0/8\"] }}\n"
    )
}

/// Asserts that two signals end a relay before any of its timeouts: nine seconds for a delivery, thirty for a drain.
fn assert_ended_by_two_signals(mut relay: Relay) {
    relay.signal("TERM");
    relay.wait_for("stopping");
    let signalled = Instant::now();
    relay.signal("TERM");
    let (code, log) = relay.end();
    assert!(signalled.elapsed() < Duration::from_secs(8), "it took {:?}", signalled.elapsed());
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("ended immediately"), "{log}");
}

#[test]
fn second_signal_ends_the_relay_immediately() {
    let (outbox, sink) = (Shop::empty(StoreKind::Sqlite), Sink::new());
    let (url, arrived) = silent_receiver();
    let relay = Relay::start(&file(&sink, &outbox, &route_to(&url)));
    outbox.write(&ids(0, 1));
    arrived.recv_timeout(WAIT_TIMEOUT).expect("a delivery has begun");
    // An unfinished request must not delay the exit either.
    let mut asking = TcpStream::connect(relay.address()).expect("it listens");
    asking
        .write_all(
            b"POST /api/v1/outboxes/shop/purge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        )
        .expect("half a request");
    assert_ended_by_two_signals(relay);
    let status = outbox.json("status");
    assert_eq!(status["pending"]["new"], 1, "{status}");
}

#[test]
fn signals_take_effect_while_a_strict_outbox_is_replaced() {
    let (outbox, sink) = (Shop::empty(StoreKind::Sqlite), Sink::new());
    let (url, arrived) = silent_receiver();
    let settings = |drain| format!("mode = \"strict\"\ndrain = \"{drain}\"\n{}", route_to(&url));
    let relay = Relay::start(&file(&sink, &outbox, &settings("40s")));
    outbox.write(&ids(0, 1));
    arrived.recv_timeout(WAIT_TIMEOUT).expect("a delivery has begun");
    file(&sink, &outbox, &settings("50s"));
    relay.signal("HUP");
    // The old engine waits for its delivery, and the new one waits for the old one.
    assert_ended_by_two_signals(relay);
}

#[test]
fn blocked_stdout_does_not_keep_the_relay_alive() {
    let outbox = Shop::empty(StoreKind::Sqlite);
    outbox.write_payload("Big", &ids(0, 40), &format!("\"{}\"", "x".repeat(10_000)));
    // Its standard output is never read, and more is written than a pipe holds.
    let mut relay = Relay::start_silent(&options(&outbox, &["--publish", "stdout:"]));
    // A blocked write can be abandoned, but not cancelled.
    relay.wait_for("destination cannot be reached");
    relay.stop();
}

#[test]
fn interrupt_is_a_graceful_stop() {
    let (outbox, sink) = (Shop::empty(StoreKind::Sqlite), Sink::new());
    let publish = format!("*={}", sink.url("out"));
    let mut relay = Relay::start(&options(&outbox, &["--publish", &publish]));
    relay.wait_for("delivering");
    relay.signal("INT");
    let (code, log) = relay.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("outbox stopped"), "{log}");
}

/// The file is a named pipe without a writer, as a secret store may offer one: a reader blocks.
#[test]
fn signal_takes_effect_while_a_reload_waits_for_its_file() {
    let (outbox, sink) = (Shop::empty(StoreKind::Sqlite), Sink::new());
    let options = file(&sink, &outbox, &format!("[[outbox.shop.route]]\npublish = {:?}\n", sink.url("out")));
    let mut relay = Relay::start(&options);
    outbox.write(&ids(0, 1));
    sink.wait_for(&["out"], &ids(0, 1));
    let path = sink.path("posthaste.toml");
    std::fs::remove_file(&path).expect("it was there");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success());
    relay.signal("HUP");
    relay.wait_for("reading the configuration again");
    relay.stop();
}
