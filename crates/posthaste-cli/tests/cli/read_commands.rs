//! Commands that only read.

use insta::assert_snapshot;

use crate::shop::{Shop, StoreKind};

#[test]
fn status_of_an_empty_outbox() {
    assert_snapshot!(Shop::empty(StoreKind::Sqlite).run("status"), @"
    outbox_event in sqlite:shop.db

    pending      0  0 NEW, 0 RETRY
      due now    0
      on lease   0  an engine works on them
      parked     0  their route is closed
      scheduled  0  their time has not come
    done         0
    dead         0
    archived     0

    oldest pending  -
    paused routes   -
    --- exit code 0
    ");
}

#[test]
fn status_reports_the_age_of_the_oldest_event() {
    let shop = Shop::empty(StoreKind::Sqlite);
    shop.sql(
        "INSERT INTO outbox_event (event_id, event_type, payload, inserted_at) VALUES ('a', 'A', '{}', 0)",
    );
    let status = shop.json("status");
    assert!(status["oldest_pending_seconds"].as_f64().unwrap() > 1e9, "{status}");
    assert_eq!(status["findings"][0]["severity"], "problem");
    assert!(shop.run("status").stdout.contains("the oldest pending event that has been due was inserted"));
}

#[test]
fn status_reads_a_read_only_database() {
    let output = Shop::seeded(StoreKind::Sqlite).run("status --store sqlite:shop.db?mode=ro");
    assert_eq!(output.code, 0, "{output}");
}

#[test]
fn another_table_is_another_outbox() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_eq!(shop.run("migrate apply --table billing").code, 0);
    assert_eq!(shop.json("status --table billing")["dead"], 0);
    assert_eq!(shop.json("status")["dead"], 3);
}

#[test]
fn event_is_shown_in_json_and_while_it_waits() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_snapshot!(shop.run("event show d-1 --output json"), @r#"
    {"seq":3,"id":"d-1","event_type":"OrderPlaced","aggregate_type":"Order","aggregate_id":"o-1","tenant_id":"acme","payload_bytes":28,"status":"DEAD","attempts":10,"deferrals":0,"lost_leases":0,"replays":0,"parked":null,"progress":[],"available_at":"2020-01-02T03:00:00.000000Z","created_at":"2020-01-02T03:00:00.000000Z","inserted_at":"2020-01-02T03:00:00.000000Z","done_at":"2020-01-02T03:04:05.000000Z","last_error":"connection refused","locked_by":null,"locked_at":null,"lease_until":null,"malformed":null,"topic":null,"content_type":null,"schema_version":null,"headers":{"region":"eu"},"payload":{"json":{"total":1.50,"items":[]}}}
    --- exit code 0
    "#);
    assert_snapshot!(shop.run("event show n-2"), @"
    id         n-2
    type       OrderPlaced
    status     RETRY
    error      timeout
    aggregate  Order o-8
    attempts   3
    happened   2020-01-02T03:00:00.000000Z
    inserted   2100-01-01T00:00:00.000000Z
    due        2100-01-01T00:00:00.000000Z
    seq        2

    payload (JSON, 2 bytes)
    {}
    --- exit code 0
    ");
}

#[test]
fn binary_payload_is_shown_by_its_first_bytes() {
    let shop = Shop::empty(StoreKind::Sqlite);
    shop.sql(
        "INSERT INTO outbox_event (event_id, event_type, content_type, payload)
         VALUES ('b', 'B', 'application/protobuf', zeroblob(100))",
    );
    let output = shop.run("event show b");
    assert!(
        output.stdout.contains("payload (application/protobuf, binary, 100 bytes; the first 64"),
        "{output}"
    );
    assert!(output.stdout.contains(&format!("\n{}\n", "00".repeat(64))), "{output}");
    assert_eq!(shop.json("event show b")["payload"]["hex"], "00".repeat(100));
}

#[test]
fn unknown_event_is_an_error() {
    assert_snapshot!(Shop::seeded(StoreKind::Sqlite).run("event show unknown"), @"
    --- stderr
    error: there is no event unknown: check the id, the store and the table; it may also have been purged, or its transaction may have been rolled back
    --- exit code 1
    ");
}

#[test]
fn dead_events_are_listed_page_by_page() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_snapshot!(shop.run("dead list --limit 1 --type OrderPlaced"), @"
    id   type         aggregate  attempts  died                  reason
    d-1  OrderPlaced  Order o-1  10        2020-01-02T03:04:05Z  connection refused

    1 of 2 shown; next page: the same command with --after 3
    --- exit code 0
    ");
    assert_snapshot!(shop.run("dead list --type Nothing"), @"
    no DEAD events match
    --- exit code 0
    ");
    assert_eq!(Shop::empty(StoreKind::Sqlite).run("dead list").stdout, "no DEAD events\n");
    assert_snapshot!(shop.run("dead list --limit 1 --output json"), @r#"
    {"total":3,"events":[{"seq":3,"id":"d-1","event_type":"OrderPlaced","aggregate_type":"Order","aggregate_id":"o-1","tenant_id":"acme","payload_bytes":28,"status":"DEAD","attempts":10,"deferrals":0,"lost_leases":0,"replays":0,"parked":null,"progress":[],"available_at":"2020-01-02T03:00:00.000000Z","created_at":"2020-01-02T03:00:00.000000Z","inserted_at":"2020-01-02T03:00:00.000000Z","done_at":"2020-01-02T03:04:05.000000Z","last_error":"connection refused","locked_by":null,"locked_at":null,"lease_until":null,"malformed":null}],"next":3,"groups":[{"aggregate_type":"Order","event_type":"OrderPlaced","reason":"connection refused","count":2,"first":"2020-01-02T03:04:05.000000Z","last":"2020-01-02T03:04:06.000000Z"},{"aggregate_type":"__GLOBAL__","event_type":"MailSent","reason":"no route","count":1,"first":"2020-01-02T03:04:07.000000Z","last":"2020-01-02T03:04:07.000000Z"}]}
    --- exit code 0
    "#);
}

#[test]
fn events_of_any_status_are_listed() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_snapshot!(shop.run("event list --limit 4"), @"
    id   type         aggregate  status  attempts  inserted              reason
    n-1  OrderPlaced  Order o-7  NEW     0         2100-01-01T00:00:00Z  -
    n-2  OrderPlaced  Order o-8  RETRY   3         2100-01-01T00:00:00Z  timeout
    d-1  OrderPlaced  Order o-1  DEAD    10        2020-01-02T03:00:00Z  connection refused
    d-2  OrderPlaced  Order o-2  DEAD    10        2020-01-02T03:00:00Z  connection refused

    4 shown; next page: the same command with --after 4
    --- exit code 0
    ");
    assert_snapshot!(shop.run("event list --limit 20 --after 4 --status done"), @"
    id   type         aggregate  status  attempts  inserted              reason
    f-1  OrderPlaced  Order o-3  DONE    0         2020-01-02T03:00:00Z  -
    f-2  OrderPlaced  Order o-4  DONE    0         2020-01-02T03:00:00Z  -
    f-3  OrderPlaced  Order o-5  DONE    0         2020-01-02T03:00:00Z  -

    3 shown
    --- exit code 0
    ");
    assert_snapshot!(shop.run("event list --status retry --output json"), @r#"
    {"events":[{"seq":2,"id":"n-2","event_type":"OrderPlaced","aggregate_type":"Order","aggregate_id":"o-8","tenant_id":null,"payload_bytes":2,"status":"RETRY","attempts":3,"deferrals":0,"lost_leases":0,"replays":0,"parked":null,"progress":[],"available_at":"2100-01-01T00:00:00.000000Z","created_at":"2020-01-02T03:00:00.000000Z","inserted_at":"2100-01-01T00:00:00.000000Z","done_at":null,"last_error":"timeout","locked_by":null,"locked_at":null,"lease_until":null,"malformed":null}],"next":null}
    --- exit code 0
    "#);
    assert_snapshot!(shop.run("event list --tenant unknown"), @"
    no events match
    --- exit code 0
    ");
    assert_eq!(shop.run("purge --done --older-than 1d --archive --yes").code, 0);
    assert_eq!(ids_of(&shop.json("event list --status archived")), "f-1 f-2");
}

#[test]
fn parked_events_are_listed_by_route() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    shop.sql("UPDATE outbox_event SET parked = 'mail' WHERE event_id = 'n-1'");
    assert_eq!(ids_of(&shop.json("event list --parked mail")), "n-1");
    assert_eq!(ids_of(&shop.json("event list --parked bill")), "");
}

fn ids_of(page: &serde_json::Value) -> String {
    let events = page["events"].as_array().expect("events").iter();
    events.map(|event| event["id"].as_str().expect("an id")).collect::<Vec<_>>().join(" ")
}

#[test]
fn dead_pages_follow_each_other() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let (mut ids, mut after) = (Vec::new(), String::new());
    loop {
        let page = shop.json(&format!("dead list --limit 2{after}"));
        ids.extend(page["events"].as_array().unwrap().iter().map(|event| event["id"].clone()));
        let Some(next) = page["next"].as_i64() else { break };
        after = format!(" --after {next}");
    }
    assert_eq!(ids, ["d-1", "d-2", "d-3"]);
}

#[test]
fn every_filter_narrows_the_list() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    for (filter, id) in [
        ("--type MailSent", "d-3"),
        ("--aggregate-type __GLOBAL__", "d-3"),
        ("--aggregate-id o-2", "d-2"),
        ("--tenant acme", "d-1"),
        ("--error route", "d-3"),
    ] {
        let page = shop.json(&format!("dead list {filter}"));
        assert_eq!((&page["total"], &page["events"][0]["id"]), (&1.into(), &id.into()), "{filter}");
    }
}

#[test]
fn age_filters_lists_replays_and_discards() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    shop.sql("UPDATE outbox_event SET done_at = 4102444800000000 WHERE event_id <> 'd-2'");
    assert_eq!(ids_of(&shop.json("dead list --older-than 1d")), "d-2");
    assert_eq!(ids_of(&shop.json("event list --status dead --older-than 1d")), "d-2");
    for args in ["dead replay", "dead discard"] {
        assert_eq!(shop.json(&format!("{args} --all --older-than 1d --dry-run"))["matched"], 1, "{args}");
    }
}

#[test]
fn dead_show_shows_only_dead_events() {
    assert_snapshot!(Shop::seeded(StoreKind::Sqlite).run("dead show n-1"), @"
    --- stderr
    error: the event n-1 is not DEAD but NEW: look at it with `posthaste event show`
    --- exit code 1
    ");
}
