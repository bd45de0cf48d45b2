//! `--config` with the file of a relay instead of `--store`: every command finds the outbox in it.

use insta::assert_snapshot;

use crate::shop::{Shop, StoreKind};

const ONE_OUTBOX_CONFIG: &str = r#"
[outbox.shop]
store = "sqlite:shop.db"
route = [{ publish = "stdout:" }]
"#;

const TWO_OUTBOXES_CONFIG: &str = r#"
[outbox.shop]
store = "sqlite:shop.db"
route = [{ publish = "stdout:" }]

[outbox.bills]
store = "sqlite:bills.db"
table = "bill_event"
route = [{ publish = "stdout:" }]
"#;

fn with_file(shop: Shop, text: &str) -> Shop {
    shop.write_file("relay.toml", text);
    shop
}

fn refused(shop: &Shop, args: &str) -> String {
    let output = shop.run(args);
    assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{args}: {output}");
    output.stderr
}

#[test]
fn only_outbox_of_a_file_needs_no_name() {
    let shop = with_file(Shop::seeded(StoreKind::Sqlite), ONE_OUTBOX_CONFIG);
    for args in [
        "status",
        "event list",
        "event show d-1",
        "dead list",
        "dead show d-1",
        "dead replay d-1",
        "dead discard d-2 --yes",
        "pause mail",
        "resume mail",
        "purge --done --older-than 1h --yes",
        "audit",
        "migrate check",
        "migrate print",
        "migrate apply",
    ] {
        let mut command = shop.command(&format!("{args} --config relay.toml"));
        // A variable for commands without options is no contradiction.
        let output = command.env("POSTHASTE_STORE", "sqlite:nowhere.db").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(shop.json("status --config relay.toml")["store"], "sqlite:shop.db");
}

#[test]
fn several_outboxes_are_selected_by_name() {
    let shop = with_file(Shop::seeded(StoreKind::Sqlite), TWO_OUTBOXES_CONFIG);
    assert_snapshot!(refused(&shop, "status --config relay.toml"), @"error: relay.toml has several outboxes: give --outbox with one of shop, bills");
    assert_snapshot!(refused(&shop, "status --config relay.toml --outbox bill"), @r#"error: relay.toml has no outbox "bill": give --outbox with one of shop, bills"#);
    assert_eq!(shop.json("status --config relay.toml --outbox shop")["dead"], 3);
    let output = shop.run("migrate apply --config relay.toml --outbox bills");
    assert_eq!(output.code, 0, "{output}");
    assert_eq!(shop.json("status --config relay.toml --outbox bills")["table"], "bill_event");
}

#[test]
fn file_and_store_cannot_be_combined() {
    let shop = with_file(Shop::seeded(StoreKind::Sqlite), ONE_OUTBOX_CONFIG);
    for option in ["--store sqlite:shop.db", "--table x", "--schema x", "--layout debezium", "--pgbouncer"] {
        let output = refused(&shop, &format!("status --config relay.toml {option}"));
        assert!(output.contains("cannot be used with"), "{output}");
    }
    refused(&shop, "status --outbox shop");
}

#[test]
fn every_mistake_in_the_file_is_reported() {
    let shop = with_file(
        Shop::seeded(StoreKind::Sqlite),
        "[outbox.shop]\nstroe = \"sqlite:shop.db\"\nworkers = 0\n",
    );
    let output = shop.run("status --config relay.toml");
    assert_eq!(output.code, 2, "{output}");
    for part in ["relay.toml:2:1", "did you mean `store`?", "workers"] {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
    let output = shop.run("status --config missing.toml");
    assert!(output.stderr.contains("does not exist"), "{output}");
}
