//! Who may do what: logins, permissions, certificates, and that no secret is told.

use std::time::Duration;

use posthaste::{Delivery, Destination as _, Event, Outcome};
use posthaste_publishers::Publisher as _;
use posthaste_publishers::nats::NatsPublisher;
use posthaste_testkit::certificates::{certificates, certificates_for};

use super::server::{NatsServer, Stream};
use super::{deliver_one, order, publisher_of};
use crate::broker_faults::is_out_of_reach;

const SECRET: &str = "s3ntinel-PW-9f";

/// The seed of a user, and the name by which a server knows it. Both are of NATS' own documentation.
const USER_SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const USER_PUBLIC_KEY: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

fn unreachable_reason(outcome: &Outcome) -> String {
    let Outcome::Unreachable(why) = outcome else { panic!("{outcome:?}") };
    assert!(!format!("{outcome:?}").contains(SECRET));
    why.error.to_string()
}

fn host(server: &NatsServer) -> String {
    format!("127.0.0.1:{}", server.port())
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn wrong_password_is_out_of_reach_and_stays_secret() {
    let settings = format!("authorization {{ users = [ {{ user: me, password: \"{SECRET}\" }} ] }}");
    let mut server = NatsServer::new(&settings);
    server.start().await;
    Stream::new(format!("nats://me:{SECRET}@{}", host(&server)), "door").create().await;
    for login in [format!("me:not-{SECRET}@"), format!("you:{SECRET}@"), String::new()] {
        let publisher = publisher_of(&format!("nats://{login}{}/door.orders", host(&server)));
        assert!(!format!("{publisher:?}").contains(SECRET), "{publisher:?}");
        let text = unreachable_reason(&deliver_one(&publisher, order()).await);
        let expected = format!(
            "NATS at {} refuses the login: check user, password, token or credentials",
            host(&server)
        );
        assert_eq!(text, expected);
        assert_eq!(is_out_of_reach(&format!("nats://{login}{}/door.orders", host(&server))).await, expected);
    }
    let publisher = publisher_of(&format!("nats://me:{SECRET}@{}/door.orders", host(&server)));
    let outcome = deliver_one(&publisher, order()).await;
    assert!(outcome.is_done(), "{outcome:?}");
}

#[tokio::test]
async fn check_says_that_a_host_has_no_address() {
    let text = is_out_of_reach(&format!("nats://me:{SECRET}@no-such-host.invalid/door.orders")).await;
    assert!(text.starts_with("no connection to NATS at no-such-host.invalid:4222"), "{text}");
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn check_says_that_an_account_has_no_jetstream() {
    let settings = r#"accounts { PLAIN: { users = [ { user: me, password: me } ] } }"#;
    let mut server = NatsServer::new(settings);
    server.start().await;
    let url = format!("nats://me:me@{}/door.orders", host(&server));
    let text = publisher_of(&url).check().await.expect_err("there is no JetStream").to_string();
    println!("{text}");
    assert!(text.contains("JetStream"), "{text}");
    assert_eq!(publisher_of(&format!("{url}?core=true")).check().await, Ok(()), "it is not needed there");
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn token_and_nkey_open_the_door() {
    let mut server = NatsServer::new(&format!("authorization {{ token: \"{SECRET}\" }}"));
    server.start().await;
    Stream::new(format!("nats://{SECRET}@{}", host(&server)), "door").create().await;
    let publisher = publisher_of(&format!("nats://{}/door.orders?token={SECRET}", host(&server)));
    assert!(!format!("{publisher:?}").contains(SECRET), "{publisher:?}");
    let outcome = deliver_one(&publisher, order()).await;
    assert!(outcome.is_done(), "{outcome:?}");

    let mut server =
        NatsServer::new(&format!("authorization {{ users = [ {{ nkey: {USER_PUBLIC_KEY} }} ] }}"));
    server.start().await;
    let file = server.dir().join("user.nk");
    std::fs::write(&file, format!("{USER_SEED}\n")).expect("a file");
    let publisher = publisher_of(&format!("nats://{}/door.orders?nkey={}", host(&server), file.display()));
    let outcome = deliver_one(&publisher, order()).await;
    let Outcome::Retry(why) = &outcome else { panic!("there is no stream: {outcome:?}") };
    assert!(why.to_string().starts_with("no stream takes"), "{why}");
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn subject_that_is_denied_is_an_attempt_and_the_others_are_delivered() {
    let settings = r#"authorization { users = [
        { user: all, password: all }
        { user: some, password: some, permissions: { publish: ["door.orders", "$JS.>"], subscribe: "_INBOX.>" } }
        { user: mute, password: mute, permissions: { publish: "nobody", subscribe: "_INBOX.>" } }
        { user: deaf, password: deaf, permissions: { publish: ">", subscribe: "nothing" } }
    ] }"#;
    let mut server = NatsServer::new(settings);
    server.start().await;
    Stream::new(format!("nats://all:all@{}", host(&server)), "door").create().await;
    let publisher = publisher_of(&format!("nats://some:some@{}/door.orders", host(&server)));
    let denied =
        || Event::builder("Secret").topic("door.secret").json_text("{}").build().expect("a good event");
    for _ in 0..2 {
        let batch = [order(), denied(), denied(), order()].map(Delivery::first);
        let outcomes = publisher.deliver(&batch).await;
        let [Outcome::Done { .. }, Outcome::Retry(why), Outcome::Retry(_), Outcome::Done { .. }] =
            &outcomes[..]
        else {
            panic!("{outcomes:?}")
        };
        assert_eq!(why.to_string(), "the user may not publish to door.secret: allow it, or use another user");
    }
    let mute = publisher_of(&format!("nats://mute:mute@{}/nobody", host(&server)));
    let text = unreachable_reason(&deliver_one(&mute, order()).await);
    assert!(text.ends_with("the user may not publish to $JS.API.STREAM.NAMES"), "{text}");
    assert_eq!(mute.check().await, Ok(()), "a server that forbids the question is there");
    let deaf = publisher_of(&format!("nats://deaf:deaf@{}/door.orders", host(&server)));
    let text = unreachable_reason(&deliver_one(&deaf, order()).await);
    assert_eq!(text, "the user may not subscribe to _INBOX.>, where acknowledgements arrive: allow it");
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn certificate_of_another_authority_is_out_of_reach() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = certificates(folder.path());
    let other = certificates(tempfile::tempdir().expect("a folder").path());
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, &authority).expect("a file");
    let mut server = NatsServer::new(&tls_settings(folder.path()));
    server.start().await;
    let port = server.port();

    let good = publisher_of(&format!("tls://me:{SECRET}@localhost:{port}/door.orders?ca={}", ca.display()));
    let outcome = deliver_one(&good, order()).await;
    let Outcome::Retry(why) = &outcome else { panic!("there is no stream: {outcome:?}") };
    assert!(why.to_string().starts_with("no stream takes"), "{why}");

    let builder = NatsPublisher::builder([format!("localhost:{port}")]).subject("door.orders").tls(true);
    let builder = builder.login("me", SECRET).timeout(Duration::from_secs(5));
    for publisher in [builder.clone().root_certificate(other), builder.clone()] {
        let outcome = deliver_one(&publisher.build().expect("good settings"), order()).await;
        let text = unreachable_reason(&outcome);
        assert!(text.contains("invalid peer certificate"), "{text}");
    }
}

#[tokio::test]
#[ignore = "needs NATS: cargo xtask test"]
async fn certificate_for_another_name_is_out_of_reach() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = certificates_for(folder.path(), &["elsewhere.example"]);
    let mut server = NatsServer::new(&tls_settings(folder.path()));
    server.start().await;
    let builder = NatsPublisher::builder([format!("localhost:{}", server.port())]).subject("door.orders");
    let builder = builder.tls(true).root_certificate(authority).login("me", SECRET);
    let text = unreachable_reason(&deliver_one(&builder.build().expect("good settings"), order()).await);
    assert!(text.contains("invalid peer certificate"), "{text}");
    assert!(text.contains("not valid for name"), "{text}");
}

fn tls_settings(folder: &std::path::Path) -> String {
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    format!("tls {{ cert_file: {certificate:?}, key_file: {key:?} }}")
}

#[tokio::test]
async fn nobody_there_is_out_of_reach_and_no_secret_is_told() {
    for url in [
        format!("nats://me:{SECRET}@127.0.0.1:1/orders"),
        format!("nats://me:{SECRET}@no-such-host.invalid/orders"),
        format!("nats://127.0.0.1:1,127.0.0.1:2/orders?token={SECRET}"),
    ] {
        let publisher = publisher_of(&url);
        assert!(!format!("{publisher:?}").contains(SECRET), "{publisher:?}");
        let text = unreachable_reason(&deliver_one(&publisher, order()).await);
        assert!(text.starts_with("no connection to NATS at "), "{text}");
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
    for (url, text) in [
        ("nats://localhost", "NATS: write the subject: nats://host:4222/subject"),
        ("nats:///orders", "NATS: write each server as host:port or host"),
        ("nats://localhost:x/orders", "NATS: write each server as host:port or host"),
        ("nats://localhost/orders?timeout=0", "NATS: the timeout must be longer than nothing"),
        ("nats://localhost/orders.*", "NATS: NATS has no such subject: there is a wildcard in it: orders.*"),
        (
            "nats://localhost/{type}",
            "NATS: the subject cannot be read: `{type}` is not known: write {event_type}, {aggregate_type}, {aggregate_id}, {tenant_id} or {header:NAME}",
        ),
        ("nats://localhost/orders?stream=a.b", "NATS: the stream's name has a character that no stream has"),
        (
            "nats://me:x@localhost/orders?token=s3ntinel-PW-9f",
            "NATS: there is more than one login: leave one of user, token, creds and nkey",
        ),
        (
            "nats://localhost/orders?creds=/no/such/file",
            "NATS: the credentials file cannot be read: No such file or directory (os error 2)",
        ),
        (
            "nats://me:s3ntinel-PW-9f@localhost/orders?ca=/dev/null",
            "NATS: a root certificate needs TLS: write tls://host:4222, or tls(true) in the builder",
        ),
        (
            "tls://localhost/orders?ca=/dev/null",
            "NATS: the root certificate cannot be read: it must be PEM, with BEGIN CERTIFICATE in it",
        ),
        (
            "nats://localhost/orders?core=true&stream=X",
            "NATS: without acknowledgement there is no stream to name: leave one out",
        ),
        (
            "nats://localhost/orders?subject=x",
            "NATS: the URL has a parameter that is not known: known are token, creds, nkey, ca, stream, format, timeout, core",
        ),
    ] {
        let error = posthaste_publishers::publisher(url).expect_err(url);
        assert_eq!(error.to_string(), text, "{url}");
    }
}
