//! Mistakes in layouts, and their error messages.

use insta::assert_snapshot;

use crate::command_output::CommandOutput;
use crate::shop::{Shop, StoreKind};

fn check(file: &str) -> CommandOutput {
    let shop = Shop::bare(StoreKind::Sqlite);
    shop.write_file("posthaste.toml", file);
    shop.run("config check --config posthaste.toml")
}

#[test]
fn unknown_preset_is_refused_with_the_known_ones() {
    let output =
        Shop::bare(StoreKind::Sqlite).run("status --store postgres://db.example/shop --layout debezum");
    assert_eq!(output.code, 2, "{output}");
    assert!(output.stderr.contains("must be one of order-service, outbox-record, debezium"), "{output}");
}

#[test]
fn layout_of_a_store_without_layouts_is_wrong_usage() {
    for (store, args, message) in [
        ("sqlite:shop.db", "status", "PostgreSQL, MySQL and MariaDB"),
        ("redis://db.example/", "status", "PostgreSQL, MySQL and MariaDB"),
        ("postgres://db.example/shop", "status --pgbouncer", "session of its own"),
    ] {
        let args = format!("{args} --store {store} --layout debezium");
        let output = Shop::bare(StoreKind::Sqlite).run(&args);
        assert_eq!(output.code, 2, "{output}");
        assert!(output.stderr.contains(message), "{output}");
    }
}

#[test]
fn foreign_table_is_not_migrated() {
    for store in ["sqlite:shop.db", "postgres://db.example/shop", "mysql://db.example/shop"] {
        for args in ["apply", "apply --adopt", "print", "check"] {
            let shop = Shop::bare(StoreKind::Sqlite);
            let output = shop.run(&format!("migrate {args} --store {store} --layout debezium"));
            assert_eq!(output.code, 2, "{output}");
            assert!(output.stderr.contains("which that program migrates"), "{output}");
            assert!(!shop.path("shop.db").exists(), "{args}");
        }
    }
}

#[test]
fn every_mistake_in_a_layout_is_reported() {
    let output = check(
        r#"[outbox.orders]
store = "postgres://shop@db.example/shop"
mode = "strict"
migrate = true

[outbox.orders.layout]
preset = "order-service"
paylod = "body"
id = "no such\" column"
sent = "it's"
archived = ""
key = ["aggregate_id"]

[outbox.orders.purge]
on_done = "archive"

[[outbox.orders.route]]
publish = "stdout:"

[outbox.audit]
store = "sqlite:audit.db"
layout = "debezum"
route = [{ publish = "stdout:" }]
"#,
    );
    assert_snapshot!(output, @r#"
    --- stderr
    posthaste.toml has 8 problems

    posthaste.toml:3:8: outbox.orders.mode: strict mode needs an insertion order, which a layout does not have: write multi_node or single_node
      3 | mode = "strict"
        |        ^^^^^^^^

    posthaste.toml:4:11: outbox.orders.migrate: creates a table of Posthaste's own, and the layout describes another one: leave out one of them
      4 | migrate = true
        |           ^^^^

    posthaste.toml:6:1: outbox.orders.layout.key: does not contain the column of the id: add it
      6 | [outbox.orders.layout]
        | ^^^^^^^^^^^^^^^^^^^^^^

    posthaste.toml:8:1: outbox.orders.layout.paylod: no such setting: did you mean `payload`?
      8 | paylod = …
        | ^^^^^^

    posthaste.toml:9:6: outbox.orders.layout.id: cannot name a column: take a letter or _, then letters, digits and _, at most 63 in all
      9 | id = "no such\" column"
        |      ^^^^^^^^^^^^^^^^^^

    posthaste.toml:10:8: outbox.orders.layout.sent: cannot name a status: take letters, digits and characters of "_-.: ", at most 64 in all
      10 | sent = "it's"
         |        ^^^^^^

    posthaste.toml:15:11: outbox.orders.purge.on_done: the layout has no status for archived events: name it as archived in the layout, or write keep or delete
      15 | on_done = "archive"
         |           ^^^^^^^^^

    posthaste.toml:22:10: outbox.audit.layout: is not a preset: did you mean `debezium`?
      22 | layout = "debezum"
         |          ^^^^^^^^^
    --- exit code 1
    "#);
}

#[test]
fn layout_is_shown_column_by_column() {
    let shop = Shop::bare(StoreKind::Sqlite);
    let file = r#"[outbox.orders]
store = "mysql://shop@db.example/shop"
table = "messages"
[outbox.orders.layout]
preset = "debezium"
payload = "body"
sent_at = "processed_at"
[[outbox.orders.route]]
publish = "stdout:"
"#;
    shop.write_file("posthaste.toml", file);
    let output = shop.run("config show --config posthaste.toml");
    assert_eq!(output.code, 0, "{output}");
    let (_, layout) = output.stdout.split_once("[outbox.orders.layout]\n").expect("a layout");
    assert_snapshot!(layout.split("\n\n").next().unwrap_or_default(), @r#"
    aggregate_id = "aggregateid"
    aggregate_type = "aggregatetype"
    event_type = "type"
    id = "id"
    key = ["id"]
    payload = "body"
    sent_at = "processed_at"
    "#);
    let (_, purge) = output.stdout.split_once("[outbox.orders.purge.done]\n").expect("a purge");
    assert!(
        purge.starts_with("action = \"keep\""),
        "nothing in a foreign table is deleted by default: {purge}"
    );
}
