//! Logins, permissions, certificates and URLs, and error texts without secrets.

use std::path::Path;

use posthaste::Destination as _;
use posthaste_testkit::certificates::{certificates, certificates_for};

use super::server::{NatsServer, Stream};
use crate::broker_faults::assert_no_connection;
use crate::delivery::{
    assert_delivered, assert_urls_refused, deliver_one, event_to, kinds, order, publisher, text_of,
};
use crate::secrets::SENTINEL;

/// The seed of a user and the matching public key, from the documentation of NATS.
const USER_SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const USER_PUBLIC_KEY: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn wrong_password_is_unreachable_and_stays_secret() {
    let settings = format!("authorization {{ users = [ {{ user: me, password: \"{SENTINEL}\" }} ] }}");
    let server = NatsServer::started(&settings).await;
    let good = server.url_of(&format!("me:{SENTINEL}"));
    Stream::new(&good, "door").create().await;
    let (wrong, other) = (format!("me:not-{SENTINEL}"), format!("you:{SENTINEL}"));
    for url in [server.url_of(&wrong), server.url_of(&other), server.url()] {
        let text = assert_no_connection(&format!("{url}/door.orders")).await;
        let why = "refuses the login: check user, password, token or credentials";
        assert_eq!(text, format!("NATS at {} {why}", server.host()));
    }
    assert_delivered(&publisher(&format!("{good}/door.orders"))).await;
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn check_reports_an_account_without_jetstream() {
    let settings = r#"accounts { PLAIN: { users = [ { user: me, password: me } ] } }"#;
    let server = NatsServer::started(settings).await;
    let url = format!("{}/door.orders", server.url_of("me:me"));
    let text = publisher(&url).check().await.expect_err("there is no JetStream").to_string();
    assert!(text.contains("JetStream"), "{text}");
    assert_eq!(publisher(&format!("{url}?core=true")).check().await, Ok(()), "it is not needed there");
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn token_and_nkey_are_accepted() {
    let server = NatsServer::started(&format!("authorization {{ token: \"{SENTINEL}\" }}")).await;
    Stream::new(server.url_of(SENTINEL), "door").create().await;
    let by_token = publisher(&format!("{}/door.orders?token={SENTINEL}", server.url()));
    assert!(!format!("{by_token:?}").contains(SENTINEL), "{by_token:?}");
    assert_delivered(&by_token).await;

    let settings = format!("authorization {{ users = [ {{ nkey: {USER_PUBLIC_KEY} }} ] }}");
    let server = NatsServer::started(&settings).await;
    let file = server.server.dir().join("user.nk");
    std::fs::write(&file, format!("{USER_SEED}\n")).expect("a file");
    assert_login_accepted(&format!("{}/door.orders?nkey={}", server.url(), file.display())).await;
}

/// Asserts that the server accepts the login. The server has no stream, so the event itself fails.
async fn assert_login_accepted(url: &str) {
    let text = text_of("retry", &deliver_one(&publisher(url), order()).await);
    assert!(text.starts_with("no stream stores"), "{text}");
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn denied_subject_is_an_attempt_and_the_others_are_delivered() {
    let settings = r#"authorization { users = [
        { user: all, password: all }
        { user: some, password: some, permissions: { publish: ["door.orders", "$JS.>"], subscribe: "_INBOX.>" } }
        { user: mute, password: mute, permissions: { publish: "unknown", subscribe: "_INBOX.>" } }
        { user: deaf, password: deaf, permissions: { publish: ">", subscribe: "nothing" } }
    ] }"#;
    let server = NatsServer::started(settings).await;
    Stream::new(server.url_of("all:all"), "door").create().await;
    let some = publisher(&format!("{}/door.orders", server.url_of("some:some")));
    for _ in 0..2 {
        let batch = [order(), event_to("door.secret"), event_to("door.secret"), order()];
        let outcomes = some.deliver(&batch).await;
        assert_eq!(kinds(&outcomes), ["done", "retry", "retry", "done"]);
        let expected = "the user may not publish to door.secret: allow it, or use another user";
        assert_eq!(text_of("retry", &outcomes[1]), expected);
    }
    let mute = publisher(&format!("{}/unknown", server.url_of("mute:mute")));
    let text = text_of("no answer", &deliver_one(&mute, order()).await);
    assert!(text.ends_with("the user may not publish to $JS.API.STREAM.NAMES"), "{text}");
    assert_eq!(mute.check().await, Ok(()), "a server that denies the request is reachable");
    let deaf = publisher(&format!("{}/door.orders", server.url_of("deaf:deaf")));
    let text = text_of("no connection", &deliver_one(&deaf, order()).await);
    assert_eq!(text, "the user may not subscribe to _INBOX.>, where acknowledgements arrive: allow it");
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn certificate_of_another_authority_or_name_is_unreachable() {
    let (good, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let ca = |folder: &Path, pem: String| {
        std::fs::write(folder.join("ca.pem"), pem).expect("a file");
        format!("&ca={}/ca.pem", folder.display())
    };
    let trusted = ca(good.path(), certificates(good.path()));
    let elsewhere = ca(other.path(), certificates_for(other.path(), &["elsewhere.example"]));
    let server = NatsServer::started(&tls_settings(good.path())).await;
    let url = |server: &NatsServer, ca: &str| {
        format!("tls://me:{SENTINEL}@localhost:{}/door.orders?timeout=5{ca}", server.server.port())
    };
    assert_login_accepted(&url(&server, &trusted)).await;
    for ca in [elsewhere.as_str(), ""] {
        let text = assert_no_connection(&url(&server, ca)).await;
        assert!(text.contains("invalid peer certificate"), "{text}");
    }
    let server = NatsServer::started(&tls_settings(other.path())).await;
    let text = assert_no_connection(&url(&server, &elsewhere)).await;
    assert!(text.contains("invalid peer certificate") && text.contains("not valid for name"), "{text}");
}

fn tls_settings(folder: &Path) -> String {
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    format!("tls {{ cert_file: {certificate:?}, key_file: {key:?} }}")
}

#[tokio::test]
async fn missing_server_is_unreachable_and_the_text_contains_no_secret() {
    for (url, servers) in [
        (format!("nats://me:{SENTINEL}@127.0.0.1:1/orders"), "127.0.0.1:1"),
        (format!("nats://me:{SENTINEL}@no-such-host.invalid/orders"), "no-such-host.invalid:4222"),
        (format!("nats://127.0.0.1:1,127.0.0.1:2/orders?token={SENTINEL}"), "127.0.0.1:1,127.0.0.1:2"),
    ] {
        let text = assert_no_connection(&url).await;
        assert!(text.starts_with(&format!("no connection to NATS at {servers}")), "{text}");
    }
}

#[test]
fn urls_are_checked_before_anything_is_connected() {
    for url in [
        "nats://localhost/orders",
        "nats://me:x@one:4222,two:4222/shop.{aggregate_type}?format=cloudevents&stream=SHOP&timeout=5",
        "tls://localhost/{event_type}",
        "nats://[::1]:4222/orders?core=true",
        "nats://localhost?format=debezium",
    ] {
        assert!(posthaste_publishers::publisher(url).is_ok(), "{url}");
    }
    assert_urls_refused(
        "NATS",
        &[
            ("nats://localhost", "a subject is missing: write nats://host:4222/subject"),
            ("nats:///orders", "no host is given: write nats://host:4222/"),
            ("nats://localhost:x/orders", "write each host as host:port or host"),
            ("nats://localhost/orders?timeout=0", "the timeout must be longer than zero"),
            (
                "nats://localhost/orders.*",
                "this is not a valid NATS subject: it contains a wildcard: orders.*",
            ),
            (
                "nats://localhost/{type}",
                "the subject cannot be read: `{type}` is not a placeholder: write {event_type}, {aggregate_type}, {aggregate_id}, {tenant_id} or {header:NAME}",
            ),
            (
                "nats://localhost/orders?stream=a.b",
                "the stream's name contains a character that NATS does not allow in it",
            ),
            (
                "nats://me:x@localhost/orders?token=s3ntinel-PW-9f",
                "there is more than one login: keep one of user, token, creds and nkey",
            ),
            (
                "nats://localhost/orders?creds=/no/such/file",
                "the credentials file cannot be read: No such file or directory (os error 2)",
            ),
            (
                "nats://me:s3ntinel-PW-9f@localhost/orders?ca=/dev/null",
                "a root certificate needs TLS: begin the URL with tls://, or write tls(true) in the builder",
            ),
            (
                "tls://localhost/orders?ca=/dev/null",
                "the root certificate cannot be read: it must be PEM, with BEGIN CERTIFICATE in it",
            ),
            (
                "nats://localhost/orders?core=true&stream=X",
                "core NATS has no streams: set either core or stream",
            ),
            (
                "nats://localhost/orders?subject=x",
                "the URL has an unknown parameter: it takes format, timeout, ca, token, creds, nkey, stream, core",
            ),
        ],
    );
}
