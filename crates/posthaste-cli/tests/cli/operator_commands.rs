//! Commands for operators, whose output is the same on every store.

use insta::assert_snapshot;
use redis::cmd;
use redis::streams::StreamRangeReply;
use serde_json::{Value, json};

use crate::command_output::CommandOutput;
use crate::on_stores::on_stores;
use crate::shop::{Shop, StoreKind};

on_stores!([sqlite, postgres, mysql, redis] [
    status_counts_every_state,
    event_is_shown_with_headers_and_payload,
    dead_events_are_listed_replayed_and_discarded,
    old_events_are_purged_and_archived,
    operators_work
]);

/// Replaces what differs between stores in the output: the URL, the table and a position.
fn without_store_names(shop: &Shop, output: CommandOutput) -> String {
    let (table, url, position) = match shop.kind {
        StoreKind::Sqlite => ("outbox_event", "sqlite:shop.db", "3"),
        StoreKind::Postgres => ("shop.outbox_event", "postgres://***@db.example/shop", "3"),
        StoreKind::MySql => ("outbox_event", "mysql://***@db.example/shop", "3"),
        StoreKind::Redis => ("shop", "redis://db.example/", "1654583721984000512"),
    };
    let text = output.to_string().replace(&format!("{table} in {url}"), "TABLE in URL");
    text.replace(&format!("seq           {position}\n"), "seq           POSITION\n")
}

fn status_counts_every_state(kind: StoreKind) {
    let shop = Shop::seeded(kind);
    assert_eq!(shop.run("pause mail").code, 0);
    let output = shop.run("status");
    let text = without_store_names(&shop, output);
    let (text, findings) = text.split_once("finding ").expect("findings");
    assert_snapshot!(text, @"
    TABLE in URL

    pending      2  1 NEW, 1 RETRY
      due now    1
      on lease   0  an engine works on them
      parked     0  their route is closed
      scheduled  1  their time has not come
    done         3
    dead         3
    archived     0

    oldest pending  0s
    paused routes   mail

    waiting by type    events  oldest
    Order:OrderPlaced  2       0s

    waiting by tenant  events  oldest
    -                  1       0s
    acme               1       0s
    ");
    let fsync = "appendfsync is not always";
    assert!(findings.contains("DEAD events: 3 ") && findings.contains("look at their reasons"), "{findings}");
    assert_eq!(findings.contains(fsync), kind == StoreKind::Redis, "{findings}");
    assert!(findings.ends_with("--- exit code 0"), "{findings}");

    let (store, table) = match kind {
        StoreKind::Sqlite => (r#""store":"sqlite:shop.db""#, r#""table":"outbox_event""#),
        StoreKind::Postgres => {
            (r#""store":"postgres://***@db.example/shop""#, r#""table":"outbox_event","schema":"shop""#)
        }
        StoreKind::MySql => (r#""store":"mysql://***@db.example/shop""#, r#""table":"outbox_event""#),
        StoreKind::Redis => (r#""store":"redis://db.example/""#, r#""table":"shop""#),
    };
    let json = shop.run("status --output json").to_string().replace(&format!("{store},{table}"), "TABLE");
    let (json, findings) = json.split_once(r#","findings""#).expect("findings");
    assert_snapshot!(json, @r#"{TABLE,"pending":{"new":1,"retry":1,"due":1,"leased":0,"parked":0,"scheduled":1},"done":3,"dead":3,"archived":0,"estimated":{"pending":false,"done":false,"dead":false,"archived":false},"oldest_pending_seconds":0.0,"paused":["mail"],"by_type":{"groups":[{"key":"Order:OrderPlaced","count":2,"oldest_seconds":0.0}],"complete":true},"by_tenant":{"groups":[{"key":null,"count":1,"oldest_seconds":0.0},{"key":"acme","count":1,"oldest_seconds":0.0}],"complete":true}"#);
    let dead = r#"{"code":"dead-events","severity":"warning","what":"DEAD events: 3","advice":"look at their reasons, fix the cause, then replay or discard them"}"#;
    let note = r#",{"code":"redis-fsync","severity":"note","what":"a crash of the machine can lose the last second of writes (appendfsync is not always)","advice":"set appendfsync to always if that matters more than speed"}"#;
    let note = if kind == StoreKind::Redis { note } else { "" };
    assert_eq!(findings, format!(":[{dead}{note}]}}\n--- exit code 0"));
}

fn event_is_shown_with_headers_and_payload(kind: StoreKind) {
    let shop = Shop::seeded(kind);
    assert_snapshot!(without_store_names(&shop, shop.run("event show d-1")), @r#"
    id            d-1
    type          OrderPlaced
    status        DEAD
    error         connection refused
    aggregate     Order o-1
    tenant        acme
    attempts      10
    happened      2020-01-02T03:00:00.000000Z
    inserted      2020-01-02T03:00:00.000000Z
    done or dead  2020-01-02T03:04:05.000000Z
    seq           POSITION

    header  value
    region  eu

    payload (JSON, 28 bytes)
    {
      "total": 1.50,
      "items": []
    }
    --- exit code 0
    "#);
    assert_eq!(shop.run("dead show d-1").stdout, shop.run("event show d-1").stdout);
    assert_eq!(shop.run("dead show n-1").code, 1);
    assert_eq!(shop.run("dead show unknown").code, 1);
    assert_eq!(shop.run("event show unknown").code, 1);
}

// S1-25
fn dead_events_are_listed_replayed_and_discarded(kind: StoreKind) {
    let shop = Shop::seeded(kind);
    assert_snapshot!(shop.run("dead list"), @"
    events  type         aggregate   last died             reason
    2       OrderPlaced  Order       2020-01-02T03:04:06Z  connection refused
    1       MailSent     __GLOBAL__  2020-01-02T03:04:07Z  no route

    id   type         aggregate   attempts  died                  reason
    d-1  OrderPlaced  Order o-1   10        2020-01-02T03:04:05Z  connection refused
    d-2  OrderPlaced  Order o-2   10        2020-01-02T03:04:06Z  connection refused
    d-3  MailSent     __GLOBAL__  0         2020-01-02T03:04:07Z  no route

    3 of 3 shown
    --- exit code 0
    ");
    assert_snapshot!(shop.run("dead replay --all --type OrderPlaced --dry-run"), @"
    2 events would be replayed; nothing was changed
    --- exit code 0
    ");
    assert_snapshot!(shop.run("dead replay --all --type OrderPlaced --yes"), @"
    2 events replayed
    --- exit code 0
    ");
    assert_snapshot!(shop.run("dead discard d-3 n-1 --yes"), @"
    1 event discarded
    --- stderr
    error: n-1 is not the id of a DEAD event
    --- exit code 1
    ");
    assert_eq!(states(&shop), "d-1=0 d-2=0 f-1=1 f-2=1 f-3=1 n-1=0 n-2=2");
    let noted = "cli:ann replay status=DEAD event_type=OrderPlaced 2 cli:ann discard status=DEAD id=d-3 1";
    assert_eq!(audit(&shop), noted);
}

// T13
fn old_events_are_purged_and_archived(kind: StoreKind) {
    let shop = Shop::seeded(kind);
    assert_snapshot!(shop.run("purge --done --older-than 7d --yes"), @"
    2 events deleted
    --- exit code 0
    ");
    assert_snapshot!(shop.run("purge --dead --older-than 7d --archive --yes --output json"), @r#"
    {"action":"purge","dry_run":false,"matched":3,"exact":true,"changed":3,"remaining":null,"unchanged":[]}
    --- exit code 0
    "#);
    // Archived events are in a table of their own, except on Redis.
    let archived = if kind == StoreKind::Redis { "d-1=4 d-2=4 d-3=4 " } else { "" };
    assert_eq!(states(&shop), format!("{archived}f-3=1 n-1=0 n-2=2"));
    if kind != StoreKind::Redis {
        assert_eq!(shop.query("SELECT event_id FROM outbox_event_archive ORDER BY seq"), "d-1 d-2 d-3");
    }
    assert_eq!(shop.json("event show d-1")["status"], "ARCHIVED");
}

/// The states of all rows, by id.
fn states(shop: &Shop) -> String {
    match shop.kind {
        StoreKind::Redis => shop.redis_states(),
        _ => shop.query("SELECT CONCAT(event_id, '=', status) FROM outbox_event ORDER BY event_id"),
    }
}

/// The whole audit, as it is stored.
fn audit(shop: &Shop) -> String {
    let rows = match shop.kind {
        StoreKind::Redis => {
            let audit: StreamRangeReply = shop.redis(cmd("XRANGE").arg(shop.key("audit")).arg("-").arg("+"));
            let fields = ["actor", "action", "target", "rows"];
            let words = audit.ids.iter().flat_map(|entry| fields.map(|field| entry.get::<String>(field)));
            return words.map(|word| word.expect("a field")).collect::<Vec<_>>().join(" ");
        }
        StoreKind::MySql => "`rows`",
        _ => "rows",
    };
    shop.query(&format!(
        "SELECT CONCAT(actor, ' ', action, ' ', target, ' ', {rows}) FROM outbox_event_audit ORDER BY seq"
    ))
}

fn operators_work(kind: StoreKind) {
    let shop = Shop::seeded(kind);
    routes_are_paused_and_resumed(&shop);
    events_are_listed(&shop);
    status_is_watched(&shop);
    dead_events_are_replayed_with_care(&shop);
    all_of_it_is_on_record(&shop);
}
fn routes_are_paused_and_resumed(shop: &Shop) {
    for (args, changed) in [("pause mail", true), ("pause mail", false), ("resume mail", true)] {
        assert_eq!(json_of(shop, args)["changed"], changed, "{args}");
    }
    assert_eq!(shop.run("resume mail").stdout, "the route mail was not paused\n");
}

fn events_are_listed(shop: &Shop) {
    for (args, ids) in [
        ("", "d-1 d-2 d-3 f-1 f-2 f-3 n-1 n-2"),
        ("--status new", "n-1"),
        ("--status retry --error timeout", "n-2"),
        ("--status dead --tenant acme", "d-1"),
        ("--status dead --type OrderPlaced", "d-1 d-2"),
        ("--status dead --older-than 1d", "d-1 d-2 d-3"),
        ("--status dead --older-than 100years", ""),
        ("--parked mail", ""),
    ] {
        assert_eq!(ids_of(&json_of(shop, &format!("event list {args}"))), ids, "{args}");
    }
    let first = json_of(shop, "event list --limit 3");
    let next = first["next"].as_i64().expect("a next page");
    let rest = json_of(shop, &format!("event list --after {next}"));
    assert_eq!((ids_of(&first).len(), ids_of(&rest).len()), (11, 19), "{first} {rest}");
    let old = json_of(shop, "dead list --older-than 1d --type OrderPlaced");
    assert_eq!((ids_of(&old), &old["total"]), ("d-1 d-2".to_owned(), &json!(2)));
}

fn status_is_watched(shop: &Shop) {
    let output = shop.run("status --watch --count 2 --interval 100ms --output json");
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output}");
    let samples: Vec<Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).expect("a document")).collect();
    let [first, second] = &samples[..] else { panic!("two readings: {output}") };
    assert_eq!(first["rates"], Value::Null);
    assert!(second["rates"]["seconds"].as_f64() >= Some(0.1), "{second}");
    for rate in ["backlog_per_second", "delivered_per_second", "written_per_second"] {
        assert_eq!(second["rates"][rate], 0.0, "{rate} of {second}");
    }
    assert_eq!(second["by_type"]["groups"][0]["key"], "Order:OrderPlaced", "{second}");
    assert_eq!(second["by_tenant"]["groups"].as_array().map(Vec::len), Some(2), "{second}");
}

fn dead_events_are_replayed_with_care(shop: &Shop) {
    let canary = shop.run("dead replay --all --canary 1 --canary-timeout 1ms --yes");
    assert_eq!((canary.code, canary.stderr.contains("is a relay running?")), (1, true), "{canary}");
    assert!(
        canary.stdout.contains("2 events still DEAD: nothing more was replayed, because of the canary"),
        "{canary}"
    );
    let rest = shop.run("dead replay --all --older-than 1d --rate 1000 --yes");
    assert_eq!((rest.code, rest.stdout.as_str()), (0, "2 events replayed\n"), "{rest}");
}

fn all_of_it_is_on_record(shop: &Shop) {
    let page = json_of(shop, "audit");
    let entries = page["entries"].as_array().expect("entries").iter();
    let noted: Vec<String> =
        entries.map(|e| format!("{} {} {}", e["actor"], e["action"], e["target"])).collect();
    assert_eq!(
        noted,
        [
            r#""cli:ann" "replay" "status=DEAD older_than=1day""#,
            r#""cli:ann" "replay" "d-1""#,
            r#""cli:ann" "resume" "mail""#,
            r#""cli:ann" "pause" "mail""#,
        ]
    );
    let newest = json_of(shop, "audit --limit 1");
    let next = newest["next"].as_i64().expect("a next page");
    let older = json_of(shop, &format!("audit --limit 1 --after {next}"));
    assert_eq!(older["entries"][0]["target"], "d-1");
}

fn json_of(shop: &Shop, args: &str) -> Value {
    let output = shop.run(&format!("{args} --output json"));
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{args}: {output}");
    serde_json::from_str(&output.stdout).expect("a document")
}

/// The ids in alphabetical order: on Redis, rows with a future `inserted_at` come last.
fn ids_of(page: &Value) -> String {
    let events = page["events"].as_array().expect("events").iter();
    let mut ids: Vec<&str> = events.map(|event| event["id"].as_str().expect("an id")).collect();
    ids.sort_unstable();
    ids.join(" ")
}
