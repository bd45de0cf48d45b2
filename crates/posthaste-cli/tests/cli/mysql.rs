//! Operators' commands on MariaDB and MySQL.

use insta::assert_snapshot;

use crate::mysql_outbox::MySqlOutbox;

const STATES_SQL: &str = "SELECT CONCAT(event_id, '=', status) FROM outbox_event ORDER BY seq";
const AUDIT_SQL: &str =
    "SELECT CONCAT_WS(' ', actor, action, target, `rows`) FROM outbox_event_audit ORDER BY seq";

/// The table that a service made by itself, after the document.
const DOCUMENT_TABLE_SQL: &str = "
CREATE TABLE outbox_event (
  event_id varchar(36) PRIMARY KEY, event_type varchar(128) NOT NULL, aggregate_type varchar(64),
  aggregate_id varchar(128), tenant_id varchar(64), payload json NOT NULL, headers json,
  status int NOT NULL, attempts int NOT NULL DEFAULT 0, available_at datetime(6) NOT NULL,
  created_at datetime(6) NOT NULL, done_at datetime(6), last_error text, locked_by varchar(128),
  locked_at datetime(6));
INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at)
VALUES ('old', 'A', '{}', 0, '2020-01-01 00:00', '2020-01-01 00:00');
";

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn status_counts_every_state() {
    let shop = MySqlOutbox::seeded();
    shop.sql("INSERT INTO outbox_event_control VALUES ('mail', UTC_TIMESTAMP(6), 'ann')");
    assert_snapshot!(shop.run("status"), @"
    outbox_event in mysql://***@db.example/shop

    pending      2  1 NEW, 1 RETRY
      due now    1
      on lease   0  an engine works on them
      parked     0  their route is closed
      scheduled  1  their time has not come
    done         2
    dead         3
    archived     0

    oldest pending  0s
    paused routes   mail

    waiting by type    events  oldest
    Order:OrderPlaced  2       0s

    waiting by tenant  events  oldest
    -                  1       0s
    acme               1       0s

    finding  what            what to do
    warning  DEAD events: 3  look at their reasons, mend the cause, then replay or discard them
    --- exit code 0
    ");
    assert_snapshot!(shop.run("status --output json"), @r#"
    {"store":"mysql://***@db.example/shop","table":"outbox_event","pending":{"new":1,"retry":1,"due":1,"leased":0,"parked":0,"scheduled":1},"done":2,"dead":3,"archived":0,"estimated":{"pending":false,"done":false,"dead":false,"archived":false},"oldest_pending_seconds":0.0,"paused":["mail"],"by_type":{"groups":[{"key":"Order:OrderPlaced","count":2,"oldest_seconds":0.0}],"complete":true},"by_tenant":{"groups":[{"key":null,"count":1,"oldest_seconds":0.0},{"key":"acme","count":1,"oldest_seconds":0.0}],"complete":true},"findings":[{"code":"dead-events","severity":"warning","what":"DEAD events: 3","advice":"look at their reasons, mend the cause, then replay or discard them"}]}
    --- exit code 0
    "#);
    shop.end();
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn event_is_shown_with_headers_and_payload() {
    let shop = MySqlOutbox::seeded();
    assert_snapshot!(shop.run("event show d-1"), @r#"
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
    seq           3

    header  value
    region  eu

    payload (JSON, 28 bytes)
    {
      "total": 1.50,
      "items": []
    }
    --- exit code 0
    "#);
    assert_eq!(shop.run("event show nobody").code, 1);
    shop.end();
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn dead_events_are_listed_replayed_and_discarded() {
    let shop = MySqlOutbox::seeded();
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
    assert_eq!(shop.query(STATES_SQL), "n-1=0 n-2=2 d-1=0 d-2=0 f-1=1 f-2=1");
    assert_eq!(
        shop.query(AUDIT_SQL),
        "cli:ann replay status=DEAD event_type=OrderPlaced 2 cli:ann discard status=DEAD id=d-3 1"
    );
    shop.end();
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn old_events_are_purged_and_archived() {
    let shop = MySqlOutbox::seeded();
    assert_snapshot!(shop.run("purge --done --older-than 7d --yes"), @"
    2 events deleted
    --- exit code 0
    ");
    assert_snapshot!(shop.run("purge --dead --older-than 7d --archive --yes --output json"), @r#"
    {"action":"purge","dry_run":false,"matched":3,"exact":true,"changed":3,"remaining":null,"unchanged":[]}
    --- exit code 0
    "#);
    assert_eq!(shop.query(STATES_SQL), "n-1=0 n-2=2");
    assert_eq!(shop.json("event show d-1")["status"], "ARCHIVED");
    shop.end();
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn schema_is_created_checked_and_printed() {
    let shop = MySqlOutbox::without_table();
    assert_snapshot!(shop.run("migrate check"), @"
    the table outbox_event is missing: create it with `posthaste migrate apply`
    --- exit code 1
    ");
    assert_snapshot!(shop.run("migrate check --table billing"), @"
    the table billing is missing: create it with `posthaste migrate apply --table billing`
    --- exit code 1
    ");
    assert_snapshot!(shop.run("migrate apply"), @"
    the table outbox_event is up to date; applied:
      1 outbox
    --- exit code 0
    ");
    assert_snapshot!(shop.run("migrate apply"), @"
    the table outbox_event is up to date already
    --- exit code 0
    ");
    assert_snapshot!(shop.run("migrate check --output json"), @r#"
    {"table":"outbox_event","state":"current","version":1,"latest":1,"advice":null}
    --- exit code 0
    "#);

    let other = MySqlOutbox::without_table();
    let printed = other.run_raw("migrate print");
    assert_eq!((printed.code, printed.stderr.as_str()), (0, ""));
    assert_eq!(other.run("migrate check").code, 1, "print changes nothing");
    other.sql(&printed.stdout);
    assert_eq!(other.run("migrate check").code, 0);
    other.end();
    shop.end();
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn table_of_the_document_is_adopted_when_told() {
    let shop = MySqlOutbox::without_table();
    shop.sql(DOCUMENT_TABLE_SQL);
    assert_snapshot!(shop.run("migrate check"), @"
    the table outbox_event is foreign: another program made it (it has the columns of document 003, and no schema version): see what would be done to it with `posthaste migrate print --adopt`, then run `posthaste migrate apply --adopt`
    --- exit code 1
    ");
    assert_snapshot!(shop.run("migrate apply"), @"
    --- stderr
    error: the outbox table outbox_event in mysql://***@db.example/shop cannot be migrated
      because: there is a table outbox_event that is not Posthaste's (it has the columns of document 003, and no schema version): `posthaste migrate apply --adopt` upgrades it, or choose another table name
    --- exit code 1
    ");

    let printed = shop.run("migrate print --adopt").stdout;
    let adopted = shop.run("migrate apply --adopt");
    assert_eq!(adopted.code, 0, "{adopted}");
    let shown_first = format!("-- These statements rewrite the table outbox_event:\n{printed}");
    assert!(adopted.stdout.starts_with(&shown_first), "{adopted}");
    assert!(adopted.stdout.ends_with("up to date; applied:\n  1 outbox\n"), "{adopted}");
    assert_eq!(shop.json("event show old")["created_at"], "2020-01-01T00:00:00.000000Z");
    assert_eq!(shop.run("migrate check").code, 0);
    shop.end();
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn scheme_of_mariadb_is_the_same() {
    let shop = MySqlOutbox::seeded();
    let same = shop.with_url(shop.url().replacen("mysql:", "mariadb:", 1));
    for args in ["migrate check", "status", "dead list", "event show d-2"] {
        let output = same.run(args);
        assert_eq!(output.code, 0, "{args}: {output}");
    }
    shop.end();
}
