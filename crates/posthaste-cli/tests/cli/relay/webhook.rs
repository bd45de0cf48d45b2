//! Webhooks of a relay: requests are signed and contain what the configuration file says.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::file_sink::Sink;
use super::process::{Relay, WAIT_TIMEOUT};
use super::{file, ids};
use crate::shop::{Shop, StoreKind};

const SIGNING_KEY: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD_SIGNING_KEY: &str = "C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A POST request as it arrived.
#[derive(Debug)]
struct Request {
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: impl std::io::Read) -> Option<Self> {
        let mut stream = BufReader::new(stream);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let target = lines.first()?.split(' ').nth(1)?.to_owned();
        let header = |line: &String| {
            line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        };
        let mut request =
            Self { target, headers: lines.iter().filter_map(header).collect(), body: Vec::new() };
        request.body.resize(request.header("content-length").parse().ok()?, 0);
        stream.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    /// The value of a header; empty if it is missing.
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }

    /// Whether one of its signatures was made with this key.
    fn is_signed_with(&self, key: &str) -> bool {
        let mut code = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(key).expect("base64")).expect("a key");
        code.update(
            format!("{}.{}.", self.header("webhook-id"), self.header("webhook-timestamp")).as_bytes(),
        );
        code.update(&self.body);
        let signature = format!("v1,{}", STANDARD.encode(code.finalize().into_bytes()));
        self.header("webhook-signature").split(' ').any(|one| one == signature)
    }
}

/// A receiver that accepts every event and sends it to the channel.
fn receiver() -> (String, Receiver<Request>) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    let (sender, arrived) = channel();
    std::thread::spawn(move || {
        for mut stream in socket.incoming().map_while(Result::ok) {
            // The health check of a relay sends nothing.
            let Some(request) = Request::read(&stream) else { continue };
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            let _ = sender.send(request);
        }
    });
    (format!("http://{address}"), arrived)
}

fn route(url: &str, webhook: &str) -> String {
    format!(
        "[[outbox.shop.route]]\nname = \"hooks\"\npublish = \"{url}/hook?format=theirs\"\nformat = \"cloudevents\"\n\
         [outbox.shop.route.webhook]\nallow_http = true\nallow_networks = [\"127.0.0.1\"]\n{webhook}"
    )
}

#[test]
fn receiver_gets_configured_requests_with_valid_signatures() {
    let (outbox, sink) = (Shop::empty(StoreKind::Sqlite), Sink::new());
    let (url, arrived) = receiver();
    std::fs::write(sink.path("key"), format!("whsec_{SIGNING_KEY}\n")).expect("a file");
    let secrets = format!(
        "signing_key = \"${{file:{}}}\"\nprevious_signing_key = \"whsec_{OLD_SIGNING_KEY}\"\n\
         headers = {{ Authorization = \"Bearer s3ntinel-PW-9f\" }}\n",
        sink.path("key").display()
    );
    let relay = Relay::start(&file(&sink, &outbox, &route(&url, &secrets)));
    let sent = ids(0, 1);
    outbox.write(&sent);
    let request = arrived.recv_timeout(WAIT_TIMEOUT).expect("a request");
    assert_eq!(request.target, "/hook?format=theirs", "the query belongs to the receiver");
    assert_eq!(request.header("authorization"), "Bearer s3ntinel-PW-9f");
    assert_eq!((request.header("ce-id"), request.header("ce-specversion")), (sent[0].as_str(), "1.0"));
    assert_eq!(request.body, br#"{"n":1}"#);
    assert!(request.is_signed_with(SIGNING_KEY) && request.is_signed_with(OLD_SIGNING_KEY), "{request:?}");
    let log = relay.stop();
    assert!(!log.contains("s3ntinel") && !log.contains(SIGNING_KEY), "{log}");
}

#[test]
fn reload_changes_the_key() {
    let (outbox, sink) = (Shop::empty(StoreKind::Sqlite), Sink::new());
    let (url, arrived) = receiver();
    let signed = |key: &str| route(&url, &format!("signing_key = \"whsec_{key}\"\n"));
    let mut relay = Relay::start(&file(&sink, &outbox, &signed(OLD_SIGNING_KEY)));
    outbox.write(&ids(0, 1));
    assert!(arrived.recv_timeout(WAIT_TIMEOUT).expect("a request").is_signed_with(OLD_SIGNING_KEY));
    file(&sink, &outbox, &signed(SIGNING_KEY));
    relay.signal("HUP");
    relay.wait_for("new configuration");
    outbox.write(&ids(1, 1));
    let request = arrived.recv_timeout(WAIT_TIMEOUT).expect("a request");
    assert!(request.is_signed_with(SIGNING_KEY) && !request.is_signed_with(OLD_SIGNING_KEY), "{request:?}");
    relay.stop();
}
