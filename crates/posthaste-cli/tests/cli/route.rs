//! Routes that are paused and resumed, and their entries in the audit.

use insta::assert_snapshot;

use crate::shop::{Shop, StoreKind};

const PAUSED_SQL: &str = "SELECT route || ' ' || paused_by FROM outbox_event_control";

#[test]
fn route_is_paused_and_resumed() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_snapshot!(shop.run("pause mail"), @"
    the route mail is paused now: its events wait until `posthaste resume`
    --- exit code 0
    ");
    assert_eq!(shop.query(PAUSED_SQL), "mail cli:ann");
    assert_snapshot!(shop.run("pause mail --actor ben"), @"
    the route mail was paused already
    --- exit code 0
    ");
    assert_eq!(shop.query(PAUSED_SQL), "mail cli:ann");
    assert_eq!(shop.json("status")["paused"], serde_json::json!(["mail"]));
    assert_snapshot!(shop.run("resume mail"), @"
    the route mail is resumed
    --- exit code 0
    ");
    assert_snapshot!(shop.run("resume mail"), @"
    the route mail was not paused
    --- exit code 0
    ");
    assert_eq!(shop.query(PAUSED_SQL), "");
}

#[test]
fn pause_and_resume_print_json() {
    let shop = Shop::empty(StoreKind::Sqlite);
    assert_snapshot!(shop.run("pause mail --output json"), @r#"
    {"action":"pause","route":"mail","changed":true}
    --- exit code 0
    "#);
    assert_snapshot!(shop.run("resume mail --output json"), @r#"
    {"action":"resume","route":"mail","changed":true}
    --- exit code 0
    "#);
}

#[test]
fn audit_lists_changes_newest_first() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_snapshot!(shop.run("audit"), @"
    no operator has changed anything
    --- exit code 0
    ");
    for args in ["pause mail", "pause mail", "dead replay d-1", "dead discard --all --tenant bolt --yes"] {
        assert_eq!(shop.run(args).code, 0);
    }
    shop.sql("UPDATE outbox_event_audit SET at = 1577934000000000 + 1000000 * seq");
    assert_snapshot!(shop.run("audit"), @"
    when                  who      what     rows  to what
    2020-01-02T03:00:03Z  cli:ann  discard  1     status=DEAD tenant_id=bolt
    2020-01-02T03:00:02Z  cli:ann  replay   1     d-1
    2020-01-02T03:00:01Z  cli:ann  pause    1     mail

    3 shown
    --- exit code 0
    ");
    assert_snapshot!(shop.run("audit --limit 1"), @"
    when                  who      what     rows  to what
    2020-01-02T03:00:03Z  cli:ann  discard  1     status=DEAD tenant_id=bolt

    1 shown; next page: the same command with --after 3
    --- exit code 0
    ");
    assert_snapshot!(shop.run("audit --limit 1 --after 3"), @"
    when                  who      what    rows  to what
    2020-01-02T03:00:02Z  cli:ann  replay  1     d-1

    1 shown; next page: the same command with --after 2
    --- exit code 0
    ");
    assert_snapshot!(shop.run("audit --after 1"), @"
    nothing older
    --- exit code 0
    ");
    assert_snapshot!(shop.run("audit --limit 2 --after 2 --output json"), @r#"
    {"entries":[{"seq":1,"at":"2020-01-02T03:00:01.000000Z","actor":"cli:ann","action":"pause","target":"mail","rows":1}],"next":null}
    --- exit code 0
    "#);
}
