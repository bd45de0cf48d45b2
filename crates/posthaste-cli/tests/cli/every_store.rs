//! Operators' commands that must say the same on every kind of server.

use serde_json::{Value, json};

use crate::mysql_outbox::MySqlOutbox;
use crate::postgres_outbox::PgOutbox;
use crate::redis_outbox::RedisOutbox;
use crate::sqlite_outbox::CommandOutput;

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
fn operators_work_on_postgres() {
    let shop = PgOutbox::seeded();
    operators_work(&|args| shop.run(args));
    shop.end();
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn operators_work_on_mariadb() {
    let shop = MySqlOutbox::seeded();
    operators_work(&|args| shop.run(args));
    shop.end();
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn operators_work_on_redis() {
    let shop = RedisOutbox::seeded();
    operators_work(&|args| shop.run(args));
    shop.end();
}

type Run<'a> = &'a dyn Fn(&str) -> CommandOutput;

/// On an outbox with the rows of `sqlite_outbox.rs`.
fn operators_work(run: Run<'_>) {
    routes_are_paused_and_resumed(run);
    events_are_listed(run);
    status_is_watched(run);
    dead_events_are_replayed_with_care(run);
    all_of_it_is_on_record(run);
}

fn routes_are_paused_and_resumed(run: Run<'_>) {
    for (args, changed) in [("pause mail", true), ("pause mail", false), ("resume mail", true)] {
        assert_eq!(json_of(run, args)["changed"], changed, "{args}");
    }
    assert_eq!(run("resume mail").stdout, "the route mail was not paused\n");
}

fn events_are_listed(run: Run<'_>) {
    for (args, ids) in [
        ("", "d-1 d-2 d-3 f-1 f-2 n-1 n-2"),
        ("--status new", "n-1"),
        ("--status retry --error timeout", "n-2"),
        ("--status dead --tenant acme", "d-1"),
        ("--status dead --older-than 1d", "d-1 d-2 d-3"),
        ("--status dead --older-than 100years", ""),
        ("--parked mail", ""),
    ] {
        assert_eq!(ids_of(&json_of(run, &format!("event list {args}"))), ids, "{args}");
    }
    let first = json_of(run, "event list --limit 3");
    let next = first["next"].as_i64().expect("a next page");
    let rest = json_of(run, &format!("event list --after {next}"));
    assert_eq!((ids_of(&first).len(), ids_of(&rest).len()), (11, 15), "{first} {rest}");
    let old = json_of(run, "dead list --older-than 1d --type OrderPlaced");
    assert_eq!((ids_of(&old), &old["total"]), ("d-1 d-2".to_owned(), &json!(2)));
}

fn status_is_watched(run: Run<'_>) {
    let output = run("status --watch --count 2 --interval 100ms --output json");
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output}");
    let samples: Vec<Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).expect("a document")).collect();
    let [first, second] = &samples[..] else { panic!("two looks: {output}") };
    assert_eq!(first["rates"], Value::Null);
    for rate in ["backlog_per_second", "delivered_per_second", "written_per_second"] {
        assert_eq!(second["rates"][rate], 0.0, "{rate} of {second}");
    }
    assert_eq!(second["by_type"]["groups"][0]["key"], "Order:OrderPlaced", "{second}");
    assert_eq!(second["by_tenant"]["groups"].as_array().map(Vec::len), Some(2), "{second}");
}

fn dead_events_are_replayed_with_care(run: Run<'_>) {
    let canary = run("dead replay --all --canary 1 --canary-timeout 1ms --yes");
    assert_eq!((canary.code, canary.stderr.contains("is a relay running?")), (1, true), "{canary}");
    assert!(
        canary.stdout.contains("2 events still DEAD: nothing more was replayed, because of the canary"),
        "{canary}"
    );
    let rest = run("dead replay --all --older-than 1d --rate 1000 --yes");
    assert_eq!((rest.code, rest.stdout.as_str()), (0, "2 events replayed\n"), "{rest}");
}

fn all_of_it_is_on_record(run: Run<'_>) {
    let page = json_of(run, "audit");
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
    let newest = json_of(run, "audit --limit 1");
    let next = newest["next"].as_i64().expect("a next page");
    let older = json_of(run, &format!("audit --limit 1 --after {next}"));
    assert_eq!(older["entries"][0]["target"], "d-1");
}

fn json_of(run: Run<'_>, args: &str) -> Value {
    let output = run(&format!("{args} --output json"));
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{args}: {output}");
    serde_json::from_str(&output.stdout).expect("a document")
}

/// In order of their names: on Redis the rows of the future come last.
fn ids_of(page: &Value) -> String {
    let events = page["events"].as_array().expect("events").iter();
    let mut ids: Vec<&str> = events.map(|event| event["id"].as_str().expect("an id")).collect();
    ids.sort_unstable();
    ids.join(" ")
}
