//! `posthaste doctor`: its output, its exit codes, and its findings about routes and destinations. The findings of each
//! store and broker are tested in their own crates.

use insta::assert_snapshot;
use posthaste_testkit::variable;
use serde_json::{Value, json};

use crate::binary::unused_address;
use crate::command_output::CommandOutput;
use crate::on_stores::on_stores;
use crate::shop::{Shop, StoreKind};

/// A password that must not be in any output.
const SENTINEL: &str = "s3ntinel-PW-9f";

/// The finding codes of a JSON report, by outbox.
fn codes<'a>(report: &'a Value) -> Vec<Vec<&'a str>> {
    let outboxes = report["outboxes"].as_array().expect("outboxes");
    let of_outbox = |outbox: &'a Value| {
        let findings = outbox["findings"].as_array().expect("findings");
        findings.iter().map(|finding| finding["code"].as_str().expect("a code")).collect()
    };
    outboxes.iter().map(of_outbox).collect()
}

#[test]
fn healthy_outbox_prints_one_line() {
    let shop = Shop::empty(StoreKind::Sqlite);
    assert_snapshot!(shop.run("doctor"), @"
    outbox_event in sqlite:shop.db is healthy: checked its store
    --- exit code 0
    ");
    assert_snapshot!(shop.run("doctor --output json"), @r#"
    {"healthy":true,"outboxes":[{"healthy":true,"outbox":null,"store":"sqlite:shop.db","table":"outbox_event","routes":0,"destinations":0,"findings":[]}]}
    --- exit code 0
    "#);
    assert_snapshot!(shop.run("doctor --publish Order.*=stdout: --publish stdout:"), @"
    outbox_event in sqlite:shop.db is healthy: checked its store, 2 routes and 1 destination
    --- exit code 0
    ");
}

on_stores!([postgres, mysql, redis] [healthy_outbox_on_a_server, dead_events_are_found]);

/// The server may produce notes, with which the outbox is still healthy.
fn healthy_outbox_on_a_server(kind: StoreKind) {
    let shop = Shop::empty(kind);
    shop.write(&["o-1".to_owned()]);
    let output = shop.run("doctor");
    assert_eq!(output.code, 0, "{output}");
    let first = output.stdout.lines().next().expect("a line");
    assert!(first.ends_with(" is healthy: checked its store"), "{output}");
}

fn dead_events_are_found(kind: StoreKind) {
    let output = Shop::seeded(kind).run("doctor");
    assert_eq!(output.code, 1, "{output}");
    assert!(output.stdout.contains("\nwarning: DEAD events: 3 [dead-events]\n  look at "), "{output}");
}

/// The texts of findings come from the store.
#[test]
fn findings_have_advice_and_the_worst_comes_first() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let output = shop.run("doctor --late 0s");
    assert_eq!((output.code, output.stderr.as_str()), (1, ""), "{output}");
    let lines: Vec<&str> = output.stdout.lines().collect();
    let [heading, problem, remedy, warning, second_remedy] = lines[..] else { panic!("{output}") };
    assert_eq!(heading, "outbox_event in sqlite:shop.db");
    assert_eq!(problem, "problem: the oldest pending event that has been due was inserted 0s ago [late]");
    assert_eq!(warning, "warning: DEAD events: 3 [dead-events]");
    assert!([remedy, second_remedy].iter().all(|line| line.starts_with("  ") && line.len() > 10), "{output}");

    let output = shop.run("doctor --output json");
    assert_eq!((output.code, output.stderr.as_str()), (1, ""), "{output}");
    let mut report: Value = serde_json::from_str(&output.stdout).expect("a document");
    assert!(report["outboxes"][0]["findings"][0]["advice"].take().is_string(), "{output}");
    assert_snapshot!(report, @r#"{"healthy":false,"outboxes":[{"destinations":0,"findings":[{"advice":null,"code":"dead-events","severity":"warning","what":"DEAD events: 3"}],"healthy":false,"outbox":null,"routes":0,"store":"sqlite:shop.db","table":"outbox_event"}]}"#);
}

#[test]
fn missing_outbox_is_a_finding() {
    let shop = Shop::bare(StoreKind::Sqlite);
    assert_snapshot!(shop.run("doctor"), @"
    outbox_event in sqlite:shop.db
    problem: the outbox in sqlite:shop.db cannot be opened: there is no database file shop.db [no-outbox]
      create it with `posthaste migrate apply`, with `?mode=rwc` in the URL, or with `create_if_missing(true)`
    --- exit code 1
    ");
    assert!(!shop.path("shop.db").exists(), "the doctor creates nothing");
    assert_snapshot!(shop.run("doctor --store sqlite:."), @"
    outbox_event in sqlite:.
    problem: the outbox in sqlite:. cannot be opened: the database failed: error returned from database: (code: 14) unable to open database file [store-unusable]
      check that the path leads to a database file that this user may read and write
    --- exit code 1
    ");
    let shop = Shop::empty(StoreKind::Sqlite);
    let report = shop.json("doctor --table billing");
    assert_eq!((codes(&report), &report["healthy"]), (vec![vec!["no-outbox"]], &json!(false)));
}

#[test]
fn unreachable_server_is_a_finding_without_its_password() {
    let shop = Shop::bare(StoreKind::Sqlite);
    let unused_address = unused_address();
    for scheme in ["postgres", "mysql", "redis"] {
        let output = shop.run(&format!("doctor --store {scheme}://ann:{SENTINEL}@{unused_address}/0"));
        assert_eq!((output.code, output.stderr.as_str()), (1, ""), "{output}");
        assert!(
            output.stdout.contains("cannot be reached") && output.stdout.contains("[store-unreachable]"),
            "{output}"
        );
        assert!(output.stdout.contains("check that") && !output.stdout.contains(SENTINEL), "{output}");
    }
}

#[test]
fn routes_that_do_not_match_the_store_are_found() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    shop.sql("DELETE FROM outbox_event WHERE status = 3");
    shop.sql("UPDATE outbox_event SET parked = 'mail (probed)', available_at = 4102444800000000 WHERE event_id = 'n-1'");
    shop.run("pause shiping");
    let output = shop.run("doctor --publish Invoice.*=stdout:");
    assert_eq!(output.code, 1, "{output}");
    let (warnings, notes) = output.stdout.split_once("\nnote: ").expect("a note of the store");
    assert!(notes.contains("[parked-route]"), "{output}");
    assert_snapshot!(warnings, @r#"
    outbox_event in sqlite:shop.db
    warning: "shiping" is paused, but no route of this configuration has that name, so the pause has no effect [unknown-paused-route]
      check the name, then run posthaste resume "shiping"
    warning: events of type "Order:OrderPlaced" that no route of this configuration takes: 2 [type-without-route]
      add a route for the type, or one for everything: after `no_route_grace` they are DEAD
    warning: events that wait for the route "mail", which has no destination because it is not in this configuration: 1 [route-without-destination]
      write the route into the configuration again; if it was renamed, wait: the events are checked again after a while and then take the route of their type
    "#);
}

#[test]
fn routes_that_match_the_store_are_healthy() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    shop.sql("DELETE FROM outbox_event WHERE status = 3");
    shop.sql(
        "UPDATE outbox_event SET parked = 'mail', available_at = 4102444800000000 WHERE event_id = 'n-1'",
    );
    let config = r#"
        [outbox.shop]
        store = "sqlite:shop.db"
        [[outbox.shop.route]]
        name = "mail"
        aggregate = "Or*"
        event = "*Placed"
        tenant = "acme"
        publish = "stdout:"
    "#;
    shop.write_file("posthaste.toml", config);
    let report = shop.json("doctor --config posthaste.toml");
    assert_eq!((codes(&report), &report["healthy"]), (vec![vec!["parked-route"]], &json!(true)), "{report}");
    assert_eq!(
        (&report["outboxes"][0]["outbox"], &report["outboxes"][0]["routes"]),
        (&json!("shop"), &json!(1))
    );
}

#[test]
fn all_outboxes_of_a_configuration_are_checked() {
    let shop = Shop::empty(StoreKind::Sqlite);
    let config = format!(
        r#"
        [outbox.shop]
        store = "sqlite:shop.db"
        [[outbox.shop.route]]
        publish = "stdout:"
        [outbox.billing]
        store = "postgres://ann:{SENTINEL}@{}/billing"
        [[outbox.billing.route]]
        name = "invoices"
        aggregate = "Invoice"
        publish = "file:///no/such/folder/invoices.jsonl"
        [[outbox.billing.route]]
        name = "rest"
        publish = {{ paper = "file:///no/such/folder/invoices.jsonl", screen = "stdout:" }}
        "#,
        unused_address()
    );
    shop.write_file("posthaste.toml", config);
    let output = shop.run("doctor --config posthaste.toml");
    assert_eq!(output.code, 1, "{output}");
    let (first, second) = output.stdout.split_once("\n\n").expect("two outboxes");
    assert_eq!(
        first,
        "shop, outbox_event in sqlite:shop.db is healthy: checked its store, 1 route and 1 destination"
    );
    assert!(second.starts_with("billing, outbox_event in postgres://***@127.0.0.1:"), "{output}");
    let unreached = "\nproblem: the routes \"invoices\", \"rest\" to file:///no/such/folder/invoices.jsonl: no line can \
                     be written: check the path and its permissions: ";
    assert!(second.contains(unreached) && second.contains("[store-unreachable]"), "{output}");
    assert!(!output.to_string().contains(SENTINEL), "{output}");
    let report = shop.json("doctor --config posthaste.toml");
    assert_eq!(codes(&report), [vec![], vec!["store-unreachable", "destination-unreachable"]], "{report}");
}

/// Each publisher reports that its broker is unreachable, and none prints a password.
#[test]
fn unreachable_destinations_are_findings_without_secrets() {
    let (shop, unused_address) = (Shop::empty(StoreKind::Sqlite), unused_address());
    for url in [
        format!(
            "amqp://ann:{SENTINEL}@{unused_address}/%2f?exchange=e&management=http://ann:{SENTINEL}@{unused_address}"
        ),
        format!("nats://ann:{SENTINEL}@{unused_address}/orders"),
        format!("redis-stream://ann:{SENTINEL}@{unused_address}/0?stream=orders"),
        format!("kafka://ann:{SENTINEL}@{unused_address}/orders?timeout=3&security.protocol=plaintext"),
    ] {
        let output = shop.run_args("doctor --publish", &[&url]);
        assert_eq!((output.code, output.stderr.as_str()), (1, ""), "{output}");
        assert!(output.stdout.contains("\nproblem: the route \"*\" to "), "{output}");
        assert!(output.stdout.contains("[destination-unreachable]"), "{output}");
        assert!(!output.to_string().contains(SENTINEL), "{output}");
    }
}

/// The log of the broker's client is not shown.
#[test]
#[ignore = "needs RabbitMQ: cargo xtask test"]
fn outbox_with_a_note_is_healthy_and_prints_nothing_else() {
    let broker = variable("POSTHASTE_TEST_AMQP_URL");
    let url = format!("{broker}?exchange=amq.topic");
    let output = Shop::empty(StoreKind::Sqlite).run_args("doctor --publish", &[&url]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output}");
    assert!(output.stdout.contains("\nnote: the route \"*\" to amqp://***@"), "{output}");
    assert!(output.stdout.contains("[rabbitmq-queues-unknown]"), "{output}");
}

#[test]
#[ignore = "needs NATS: cargo xtask test"]
fn missing_stream_of_the_broker_is_a_finding() {
    let shop = Shop::empty(StoreKind::Sqlite);
    let nats = variable("POSTHASTE_TEST_NATS_URL");
    let nats = nats.split(',').next().expect("a server");
    let output = shop.run_args("doctor --publish", &[&format!("Order.*={nats}/no.such.subject")]);
    let expected = format!(
        "problem: the route \"Order.*\" to {nats}/no.such.subject: no stream stores the subject no.such.subject, so \
         that every event for it fails [nats-no-stream]\n  create one, or add the subject to the subjects of one\n"
    );
    assert!(output.stdout.ends_with(&expected), "{output}");
    assert_eq!(output.code, 1);
}

#[test]
fn wrong_configuration_is_wrong_usage() {
    let shop = Shop::empty(StoreKind::Sqlite);
    let config = "[outbox.shop]\nstore = \"sqlite:shop.db\"\n[[outbox.shop.route]]\npublish = {}\n";
    shop.write_file("posthaste.toml", config);
    let output = shop.run("doctor --config posthaste.toml");
    assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{output}");
    assert!(output.stderr.contains("is empty: write NAME"), "a route without a destination: {output}");
    let output = shop.command("doctor").env_remove("POSTHASTE_STORE").output().expect("the binary starts");
    let output = CommandOutput::of(output);
    assert_eq!(output.code, 2, "{output}");
    assert!(output.stderr.contains("the store is missing: give --store URL"), "{output}");
}
