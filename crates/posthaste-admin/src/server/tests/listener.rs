//! The listener on a socket.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::support::{api, served};
use crate::server::listener::serve_with_idle_timeout;

struct RunningListener {
    address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

async fn running() -> RunningListener {
    running_patiently(Duration::from_secs(30)).await
}

async fn running_patiently(idle: Duration) -> RunningListener {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let api = api(served(), Vec::new());
    let ended = tokio::spawn(async move {
        serve_with_idle_timeout(listener, api, async { drop(stopped.await) }, idle).await;
    });
    RunningListener { address, stop, ended }
}

async fn connect(running: &RunningListener, request: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    BufReader::new(stream)
}

#[tokio::test]
async fn stop_ends_tails_and_idle_connections_at_once() {
    let running = running().await;
    let tail = "GET /api/v1/outboxes/orders/tail HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut tail = connect(&running, tail).await;
    let mut head = String::new();
    tail.read_line(&mut head).await.unwrap();
    assert_eq!(head, "HTTP/1.1 200 OK\r\n");
    let mut idle = connect(&running, "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    idle.read_line(&mut head).await.unwrap();

    running.stop.send(()).unwrap();
    timeout(Duration::from_secs(5), running.ended).await.expect("it stops").unwrap();
    let mut rest = Vec::new();
    tail.read_to_end(&mut rest).await.unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "the stream is ended, not cut: {rest:?}");
    assert!(TcpStream::connect(running.address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn nonsense_on_the_wire_ends_one_connection() {
    let running = running().await;
    let mut nonsense = connect(&running, "\u{1}\u{2}\u{3} nonsense\r\n\r\n").await;
    let mut answer = String::new();
    nonsense.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let good = "GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut good = connect(&running, good).await;
    answer.clear();
    good.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#"{"live":true}"#), "{answer}");
}

/// Its answers are more than all buffers between here and there can hold.
#[tokio::test]
async fn reader_that_takes_nothing_is_sent_away() {
    let running = running_patiently(Duration::from_millis(300)).await;
    let request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let stream = connect(&running, &request.repeat(2_000)).await;
    let gone = async {
        // Nothing is read before the other side has gone.
        while stream.get_ref().ready(Interest::ERROR).await.is_err() {}
    };
    timeout(Duration::from_secs(20), gone).await.expect("it is sent away");
}

/// Of all routes, and of probes alone.
const OPENAPI_REQUEST: &str = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
const LIVE_REQUEST: &str = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The status of the answer, with the connection, which stays open if the other side leaves it so.
async fn asked(
    running: &RunningListener,
    from: [u8; 4],
    request: &str,
) -> (Option<u16>, BufReader<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut stream = BufReader::new(socket.connect(running.address).await.unwrap());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = String::new();
    let read = timeout(Duration::from_secs(20), stream.read_line(&mut head)).await.expect("an answer");
    let status = read.ok().and_then(|_| head.split(' ').nth(1)?.parse().ok());
    (status, stream)
}

async fn status(running: &RunningListener, from: [u8; 4], request: &str) -> Option<u16> {
    asked(running, from, request).await.0
}

#[tokio::test]
async fn one_address_cannot_take_all_places() {
    let running = running().await;
    let mut greedy = Vec::new();
    for _ in 0..64 {
        let (status, stream) = asked(&running, [127, 0, 0, 1], OPENAPI_REQUEST).await;
        assert_eq!(status, Some(200));
        greedy.push(stream);
    }
    assert_eq!(status(&running, [127, 0, 0, 1], OPENAPI_REQUEST).await, Some(503));
    assert_eq!(status(&running, [127, 0, 0, 2], OPENAPI_REQUEST).await, Some(200));
    drop(greedy);
    let served = async { while status(&running, [127, 0, 0, 1], OPENAPI_REQUEST).await != Some(200) {} };
    timeout(Duration::from_secs(20), served).await.expect("places are given back");
}

/// Otherwise a supervisor restarts a relay that is well, because strangers hold its connections.
#[tokio::test]
async fn probes_are_answered_while_clients_hold_every_other_place() {
    let running = running().await;
    let mut held = Vec::new();
    for client in 1..=4 {
        for _ in 0..64 {
            let (status, stream) = asked(&running, [127, 0, 0, client], LIVE_REQUEST).await;
            assert_eq!(status, Some(200));
            held.push(stream);
        }
    }
    for from in [[127, 0, 0, 1], [127, 0, 0, 9]] {
        for _ in 0..10 {
            assert_eq!(status(&running, from, LIVE_REQUEST).await, Some(200), "{from:?}");
        }
        assert_eq!(status(&running, from, OPENAPI_REQUEST).await, Some(503), "{from:?}");
    }
    // The same clients hold the places of probes, too, without a word: not for long.
    for client in 1..=4 {
        for _ in 0..8 {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, client], 0).into()).unwrap();
            held.push(BufReader::new(socket.connect(running.address).await.unwrap()));
        }
    }
    assert_eq!(status(&running, [127, 0, 0, 9], LIVE_REQUEST).await, Some(200));
}
