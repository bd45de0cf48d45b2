//! The listener on a socket: stop, timeouts and limits of connections.

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
    running_with_idle_timeout(Duration::from_secs(30)).await
}

async fn running_with_idle_timeout(idle: Duration) -> RunningListener {
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
async fn stop_ends_tails_and_idle_connections_immediately() {
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
    assert!(TcpStream::connect(running.address).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn bytes_that_are_not_http_end_only_their_connection() {
    let running = running().await;
    let mut nonsense = connect(&running, "\u{1}\u{2}\u{3} nonsense\r\n\r\n").await;
    let mut reply = String::new();
    nonsense.read_to_string(&mut reply).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 400"), "{reply}");
    let good = "GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut good = connect(&running, good).await;
    reply.clear();
    good.read_to_string(&mut reply).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 200") && reply.ends_with(r#"{"live":true}"#), "{reply}");
}

/// The responses are larger than all buffers between the two sides.
#[tokio::test]
async fn client_that_reads_nothing_is_disconnected() {
    let running = running_with_idle_timeout(Duration::from_millis(300)).await;
    let request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let stream = connect(&running, &request.repeat(2_000)).await;
    let gone = async {
        // Nothing is read before the server has closed the connection.
        while stream.get_ref().ready(Interest::ERROR).await.is_err() {}
    };
    timeout(Duration::from_secs(20), gone).await.expect("it is disconnected");
}

/// A request that is not served in the slots for probes.
const OPENAPI_REQUEST: &str = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// A request of a probe.
const LIVE_REQUEST: &str = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The status of the response, with the connection, which stays open unless the server closes it.
async fn send(
    running: &RunningListener,
    from: [u8; 4],
    request: &str,
) -> (Option<u16>, BufReader<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut stream = BufReader::new(socket.connect(running.address).await.unwrap());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = String::new();
    let read = timeout(Duration::from_secs(20), stream.read_line(&mut head)).await.expect("a response");
    let status = read.ok().and_then(|_| head.split(' ').nth(1)?.parse().ok());
    (status, stream)
}

async fn status(running: &RunningListener, from: [u8; 4], request: &str) -> Option<u16> {
    send(running, from, request).await.0
}

#[tokio::test]
async fn one_address_cannot_take_all_slots() {
    let running = running().await;
    let mut greedy = Vec::new();
    for _ in 0..64 {
        let (status, stream) = send(&running, [127, 0, 0, 1], OPENAPI_REQUEST).await;
        assert_eq!(status, Some(200));
        greedy.push(stream);
    }
    assert_eq!(status(&running, [127, 0, 0, 1], OPENAPI_REQUEST).await, Some(503));
    assert_eq!(status(&running, [127, 0, 0, 2], OPENAPI_REQUEST).await, Some(200));
    drop(greedy);
    let served = async { while status(&running, [127, 0, 0, 1], OPENAPI_REQUEST).await != Some(200) {} };
    timeout(Duration::from_secs(20), served).await.expect("slots are freed");
}

/// Otherwise a supervisor would restart a healthy relay because clients hold its connections.
#[tokio::test]
async fn probes_are_served_while_clients_hold_all_other_slots() {
    let running = running().await;
    let mut held = Vec::new();
    for client in 1..=4 {
        for _ in 0..64 {
            let (status, stream) = send(&running, [127, 0, 0, client], LIVE_REQUEST).await;
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
    // The same clients take the slots of probes too and send nothing: they are disconnected soon.
    for client in 1..=4 {
        for _ in 0..8 {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, client], 0).into()).unwrap();
            held.push(BufReader::new(socket.connect(running.address).await.unwrap()));
        }
    }
    assert_eq!(status(&running, [127, 0, 0, 9], LIVE_REQUEST).await, Some(200));
}
