//! No secret and no payload is in a log, a response, a metric or an error, whatever fails and however much is logged.

use posthaste_testkit::variable;

use super::file_sink::Sink;
use super::ids;
use super::process::Relay;
use crate::binary::{posthaste, text, unused_address};
use crate::shop::{Shop, StoreKind};

/// Every password, token and key.
const SECRET: &str = "s3ntinel-PW-9f";
/// Contained in every payload.
const PAYLOAD: &str = "s3ntinel-payload";

fn assert_no_secret(what: &str, text: &str) {
    for secret in [SECRET, PAYLOAD] {
        let line = text.lines().find(|line| line.contains(secret));
        assert!(line.is_none(), "{what}: {line:?}");
    }
}

/// Writes a file in which every URL and token is secret. None of its brokers exists.
fn file(outbox: &Shop, sink: &Sink) -> String {
    let routes = [
        format!(
            "kafka://me:{SECRET}@{}/orders?sasl.mechanism=PLAIN&security.protocol=SASL_PLAINTEXT",
            unused_address()
        ),
        format!("amqp://me:{SECRET}@{}/%2f?exchange=orders", unused_address()),
        format!("nats://me:{SECRET}@{}/orders", unused_address()),
        format!("redis-stream://me:{SECRET}@{}/0?stream=orders", unused_address()),
        format!("https://me:{SECRET}@no-such-host.invalid/hook/{SECRET}?key={SECRET}"),
    ];
    let mut config = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[admin.tokens.ann]\nrole = \"operator\"\ntoken = \"{SECRET}-operator\"\n\
         [admin.tokens.bob]\nrole = \"viewer\"\ntoken = \"${{VIEWER}}\"\n[outbox.shop]\n{}",
        outbox.toml()
    );
    for (n, url) in routes.iter().enumerate() {
        config += &format!("[[outbox.shop.route]]\nevent = \"Made{n}\"\npublish = {url:?}\n");
    }
    config += &format!("[[outbox.shop.route]]\npublish = {:?}\n", sink.url("rest"));
    let path = sink.path("posthaste.toml");
    std::fs::write(&path, config).expect("a file");
    path.display().to_string()
}

#[test]
fn running_relay_prints_no_secret() {
    let (outbox, sink) = (Shop::empty(StoreKind::Sqlite), Sink::new());
    let path = file(&outbox, &sink);
    let args = ["--config", &path, "--log-level", "trace"].map(str::to_owned);
    let viewer = format!("{SECRET}-viewer");
    let mut relay = Relay::start_with(&args, &[("VIEWER", &viewer)]);
    relay.wait_for("delivering");
    for n in 0..5 {
        outbox.write_payload(&format!("Made{n}"), &ids(n, 1), &format!("{{\"secret\":\"{PAYLOAD}\"}}"));
    }
    outbox.write_payload("Rest", &ids(5, 1), &format!("{{\"secret\":\"{PAYLOAD}\"}}"));
    sink.wait_for(&["rest"], &ids(5, 1));
    for _ in 0..5 {
        relay.wait_for("destination cannot be reached");
    }

    let document = relay.get("/openapi.json").json();
    let paths: Vec<String> = document["paths"].as_object().expect("paths").keys().cloned().collect();
    for path in paths.iter().filter(|path| !path.ends_with("/tail")) {
        let path = path.replace("{outbox}", "shop").replace("{id}", "e-000001").replace("{route}", "Made1");
        for token in [format!("{SECRET}-wrong"), viewer.clone()] {
            for method in ["GET", "POST"] {
                let response =
                    relay.request(method, &path, &format!("Authorization: Bearer {token}\r\n"), "{}");
                assert_no_secret(&format!("{method} {path}"), &response.body);
            }
        }
    }
    std::fs::write(
        &path,
        format!("[outbox.shop]\nstore = \"postgres://me:{SECRET}@@/x\"\nstroe = \"{SECRET}\""),
    )
    .expect("a file");
    relay.signal("HUP");
    relay.wait_for("nothing changed");
    relay.signal("TERM");
    let (code, log) = relay.end();
    assert_eq!(code, Some(0), "it stops gracefully");
    assert!(log.contains("TRACE"), "the log is on");
    assert_no_secret("the log", &log);
}

#[test]
fn failed_start_prints_no_secret() {
    let sink = Sink::new();
    let publish = format!("*={}", sink.url("out"));
    let wrong = [
        format!("postgres://me:{SECRET}@{}/shop", unused_address()),
        format!("postgres://me:{SECRET}@no-such-host.invalid/shop"),
        format!("mysql://me:{SECRET}@{}/shop", unused_address()),
        format!("redis://me:{SECRET}@{}/0", unused_address()),
        format!("redis+cluster://me:{SECRET}@{}/", unused_address()),
        format!("postgres://me:{SECRET}#@host/shop"),
        format!("oracle://me:{SECRET}@host/shop"),
    ];
    for store in &wrong {
        let args = ["relay", "--store", store, "--publish", &publish, "--fail-fast", "--listen", "off"];
        let output = posthaste(&args).env("RUST_LOG", "trace").output().expect("the binary starts");
        let printed = text(&output);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{printed}");
        assert_no_secret(store, &printed);
    }
}

#[test]
#[ignore = "needs PostgreSQL, MariaDB and Redis: cargo xtask test"]
fn refused_login_prints_no_secret() {
    for name in ["POSTHASTE_TEST_POSTGRES_URL", "POSTHASTE_TEST_MYSQL_URL", "POSTHASTE_TEST_REDIS_URL"] {
        let url = variable(name);
        let (scheme, rest) = url.split_once("://").expect("a URL");
        let host = rest.split_once('@').map_or(rest, |(_, host)| host);
        let store = format!("{scheme}://no-such-user:{SECRET}@{host}");
        let args = ["relay", "--store", &store, "--publish", "stdout:", "--fail-fast", "--listen", "off"];
        let output = posthaste(&args).env("RUST_LOG", "trace").output().expect("the binary starts");
        let printed = text(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert_no_secret(name, &printed);
    }
}
