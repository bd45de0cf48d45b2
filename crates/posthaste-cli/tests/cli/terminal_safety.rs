//! Output on a terminal: no control sequences from the store, and no panic when it goes away.

use crate::shop::{Shop, StoreKind};

/// Clears the screen, sets the title, reverses the reading direction, rings the bell, and looks like a second row.
const HOSTILE_TEXT_SQL: &str = "'x' || char(27) || '[2J' || char(155) || '31m' || char(27) || ']0;t' || char(7) || char(13) \
                       || char(10) || 'd-9  Fake' || char(8238) || char(127)";

fn hostile_shop() -> Shop {
    let shop = Shop::empty(StoreKind::Sqlite);
    shop.sql(&format!(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic,
           payload, headers, status, last_error, locked_by, parked, progress)
         VALUES ('h-1', {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL},
           json_object('k', {HOSTILE_TEXT_SQL}), json_object({HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}), 3, {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL},
           json_array({HOSTILE_TEXT_SQL}));
         INSERT INTO outbox_event (event_id, event_type, payload, last_error, status)
         VALUES ({HOSTILE_TEXT_SQL}, 'A', {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, 3);
         INSERT INTO outbox_event (event_id, event_type, aggregate_type, tenant_id, payload)
         VALUES ('p-1', {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, '{{}}');
         INSERT INTO outbox_event_control VALUES ({HOSTILE_TEXT_SQL}, 0, {HOSTILE_TEXT_SQL});
         INSERT INTO outbox_event_audit (at, actor, action, target, rows)
         VALUES (0, {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, 1);"
    ));
    shop
}

fn acts_on_terminal(c: char) -> bool {
    c.is_control() && c != '\n' || c == '\u{202e}'
}

#[test]
fn control_sequences_reach_no_terminal() {
    let shop = hostile_shop();
    let id = shop.query("SELECT event_id FROM outbox_event WHERE event_id NOT IN ('h-1', 'p-1')");
    for args in [
        &["status"][..],
        &["status", "--watch", "--count", "2", "--interval", "100ms"],
        &["dead", "list"],
        &["dead", "list", "--type", "\x1b[2J"],
        &["event", "show", "h-1"],
        &["event", "show", &id],
        &["event", "show", "\x1b[2J"],
        &["event", "list"],
        &["event", "list", "--parked", "\x1b[2J"],
        &["audit"],
        &["resume", "mail\u{202e}"],
        &["dead", "show", "h-1"],
        &["dead", "discard", &id, "\x1b[2J", "--dry-run"],
        &["dead", "replay", "--all", "--error", "x\x1b[2J"],
    ] {
        for format in ["text", "json"] {
            let output = shop.run_args("", &[args, &["--output", format]].concat());
            assert!(!output.stdout.contains(acts_on_terminal), "{args:?}: {:?}", output.stdout);
            assert!(!output.stderr.contains(acts_on_terminal), "{args:?}: {:?}", output.stderr);
            assert!(!output.stdout.contains("\nd-9"), "{args:?}: a text became a row: {}", output.stdout);
        }
    }
}

#[test]
fn escaped_json_decodes_to_the_same_text() {
    let shop = hostile_shop();
    let hostile = shop.query("SELECT event_id FROM outbox_event WHERE event_id NOT IN ('h-1', 'p-1')");
    let event = shop.json("event show h-1");
    assert_eq!(event["event_type"], hostile.as_str());
    assert_eq!(event["payload"]["json"]["k"], hostile.as_str());
    assert_eq!(event["headers"][&hostile], hostile.as_str());
}

#[test]
fn closed_pipes_cause_no_panic() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    for args in [
        "status",
        "status --watch",
        "status --watch --output json",
        "dead list",
        "dead list --output json",
        "event show d-1",
        "event show unknown",
        "event list",
        "audit",
        "pause mail",
        "dead replay --all",
        "migrate print",
        "migrate check",
        "--help",
        "--version",
        "no-such-command",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = shop.command(args);
        command.env("RUST_LOG", "trace").stdout(writer.try_clone().unwrap()).stderr(writer);
        let code = command.status().unwrap().code();
        assert!(matches!(code, Some(0..=2)), "{args}: {code:?}");
    }
}

#[test]
fn no_side_files_are_left_beside_the_database() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    for args in ["status", "event show unknown", "dead replay --all", "dead discard --all --yes"] {
        shop.run(args);
        assert!(!shop.path("shop.db-wal").exists(), "{args}");
    }
}

#[test]
fn closed_stdout_is_no_error() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = shop.command("dead list").stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn only_the_result_is_on_standard_output() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let output = shop.command("status --output json").env("RUST_LOG", "trace").output().unwrap();
    serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    assert!(shop.run("status").stderr.is_empty());
}
