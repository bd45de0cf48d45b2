//! Commands that change events: they count first, ask for consent and write the audit.

use insta::assert_snapshot;

use crate::shop::{Shop, StoreKind};

const STATES_SQL: &str = "SELECT event_id || '=' || status FROM outbox_event ORDER BY seq";
const AUDIT_SQL: &str =
    "SELECT actor || ' ' || action || ' ' || target || ' ' || rows FROM outbox_event_audit";

const SEEDED_STATES: &str = "n-1=0 n-2=2 d-1=3 d-2=3 d-3=3 f-1=1 f-2=1 f-3=1";

#[test]
fn dry_run_reports_what_would_change() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_snapshot!(shop.run("dead replay --all --dry-run"), @"
    3 events would be replayed; nothing was changed
    --- exit code 0
    ");
    assert_snapshot!(shop.run("dead discard d-1 --dry-run"), @"
    1 event would be discarded; nothing was changed
    --- exit code 0
    ");
    assert_snapshot!(shop.run("dead discard d-1 d-2 n-1 --dry-run"), @"
    2 events would be discarded; nothing was changed
    --- stderr
    error: n-1 is not the id of a DEAD event
    --- exit code 1
    ");
    assert_snapshot!(shop.run("purge --done --older-than 7d --dry-run"), @"
    2 events would be deleted; nothing was changed
    --- exit code 0
    ");
    assert_snapshot!(shop.run("purge --dead --older-than 7d --archive --dry-run --output json"), @r#"
    {"action":"purge","dry_run":true,"matched":3,"exact":true,"changed":0,"remaining":null,"unchanged":[]}
    --- exit code 0
    "#);
    assert_eq!(shop.query(STATES_SQL), SEEDED_STATES);
    assert_eq!(shop.query(AUDIT_SQL), "");
}

#[test]
fn change_without_a_terminal_needs_consent_by_option() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_snapshot!(shop.run("dead replay --all --type OrderPlaced"), @"
    --- stderr
    error: this would replay 2 events (status=DEAD event_type=OrderPlaced); there is no terminal to ask on: add --yes to proceed, or --dry-run to see what would change
    --- exit code 2
    ");
    assert_snapshot!(shop.run("dead discard d-1 d-2"), @"
    --- stderr
    error: this would discard 2 events; there is no terminal to ask on: add --yes to proceed, or --dry-run to see what would change
    --- exit code 2
    ");
    assert_snapshot!(shop.run("purge --done --older-than 7d"), @"
    --- stderr
    error: this would delete 2 events (DONE older than 7days); there is no terminal to ask on: add --yes to proceed, or --dry-run to see what would change
    --- exit code 2
    ");
    assert_eq!(shop.query(STATES_SQL), SEEDED_STATES);
}

#[test]
fn one_named_event_is_replayed_without_a_question() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_snapshot!(shop.run("dead replay d-1"), @"
    1 event replayed
    --- exit code 0
    ");
    assert_eq!(shop.query("SELECT event_id FROM outbox_event WHERE status = 0 AND replays = 1"), "d-1");
    assert_eq!(shop.query(AUDIT_SQL), "cli:ann replay d-1 1");
}

#[test]
fn all_matching_events_are_replayed() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let error = ["--error", "connection refused"];
    assert_snapshot!(shop.run_args("dead replay --all --actor ben --yes", &error), @"
    2 events replayed
    --- exit code 0
    ");
    assert_eq!(shop.query("SELECT event_id FROM outbox_event WHERE status = 3"), "d-3");
    assert_eq!(shop.query(AUDIT_SQL), "ben replay status=DEAD error_contains=connection refused 2");
}

#[test]
fn many_events_are_changed_in_batches() {
    let shop = Shop::empty(StoreKind::Sqlite);
    shop.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1201)
         INSERT INTO outbox_event (event_id, event_type, payload, status) SELECT i, 'A', '{}', 3 FROM n",
    );
    assert_snapshot!(shop.run("dead discard --all --yes --output json"), @r#"
    {"action":"discard","dry_run":false,"matched":1201,"exact":true,"changed":1201,"remaining":0,"unchanged":[]}
    --- exit code 0
    "#);
    let rows = shop.query("SELECT CAST(rows AS TEXT) FROM outbox_event_audit ORDER BY seq");
    assert_eq!(rows, "500 500 201");
}

#[test]
fn progress_of_a_fan_out_is_forgotten_on_demand() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    shop.sql(r#"UPDATE outbox_event SET progress = '["mail"]'"#);
    assert_eq!(shop.run("dead replay d-1").code, 0);
    assert_eq!(shop.run("dead replay d-2 --forget-progress").code, 0);
    let kept = "SELECT event_id FROM outbox_event WHERE replays = 1 AND progress IS NOT NULL";
    assert_eq!(shop.query(kept), "d-1");
}

#[test]
fn named_events_that_are_not_dead_fail_the_command() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_snapshot!(shop.run("dead discard d-1 n-1 d-1 unknown --yes"), @"
    1 event discarded
    --- stderr
    error: n-1 is not the id of a DEAD event
    error: unknown is not the id of a DEAD event
    --- exit code 1
    ");
    assert_snapshot!(shop.run("dead replay unknown --output json"), @r#"
    {"action":"replay","dry_run":false,"matched":0,"exact":true,"changed":0,"remaining":null,"unchanged":["unknown"]}
    --- stderr
    error: unknown is not the id of a DEAD event
    --- exit code 1
    "#);
    assert_eq!(shop.query(STATES_SQL), "n-1=0 n-2=2 d-2=3 d-3=3 f-1=1 f-2=1 f-3=1");
}

#[test]
fn old_done_events_are_purged() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_snapshot!(shop.run("purge --done --older-than 7d --yes"), @"
    2 events deleted
    --- exit code 0
    ");
    assert_eq!(shop.query(STATES_SQL), "n-1=0 n-2=2 d-1=3 d-2=3 d-3=3 f-3=1");
    assert_eq!(shop.query(AUDIT_SQL), "cli:ann purge DONE older than 7days 2");
    assert_snapshot!(shop.run("purge --done --older-than 7d --yes"), @"
    0 events deleted
    --- exit code 0
    ");
}

#[test]
fn change_of_no_events_needs_no_consent() {
    let shop = Shop::empty(StoreKind::Sqlite);
    for args in ["dead replay --all", "dead discard --all", "purge --done --older-than 1h"] {
        let output = shop.run(args);
        assert_eq!(output.code, 0, "{output}");
    }
}
