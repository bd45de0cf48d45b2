//! Schemas: created, checked, refused and adopted.

use insta::assert_snapshot;

use crate::sqlite_outbox::SqliteOutbox;

/// The table that a service made by itself, after the document.
const DOCUMENT_TABLE_SQL: &str = "
CREATE TABLE outbox_event (
  event_id TEXT PRIMARY KEY, event_type TEXT NOT NULL, aggregate_type TEXT, aggregate_id TEXT, tenant_id TEXT,
  payload TEXT NOT NULL, headers TEXT, status INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
  available_at TEXT NOT NULL, created_at TEXT NOT NULL, done_at TEXT, last_error TEXT, locked_by TEXT,
  locked_at TEXT);
INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at)
VALUES ('old', 'A', '{}', 0, '2020-01-01 00:00:00', '2020-01-01 00:00:00');
";

#[test]
fn apply_creates_file_and_table_once() {
    let shop = SqliteOutbox::without_file();
    assert_snapshot!(shop.run("migrate apply"), @"
    the table outbox_event is up to date; applied:
      1 outbox
    --- exit code 0
    ");
    assert_snapshot!(shop.run("migrate apply"), @"
    the table outbox_event is up to date already
    --- exit code 0
    ");
    assert_snapshot!(shop.run("migrate apply --output json"), @r#"
    {"table":"outbox_event","applied":[]}
    --- exit code 0
    "#);
    assert_eq!(shop.run("status").code, 0);
}

#[test]
fn check_tells_scripts_what_to_do() {
    let shop = SqliteOutbox::with_sql("CREATE TABLE orders (id INTEGER)");
    assert_snapshot!(shop.run("migrate check"), @"
    the table outbox_event is missing: create it with `posthaste migrate apply`
    --- exit code 1
    ");
    assert_snapshot!(shop.run("migrate check --output json"), @r#"
    {"table":"outbox_event","state":"missing","version":null,"latest":null,"advice":"create it with `posthaste migrate apply`"}
    --- exit code 1
    "#);
    shop.run("migrate apply");
    assert_snapshot!(shop.run("migrate check"), @"
    the table outbox_event is current (version 1)
    --- exit code 0
    ");
    assert_snapshot!(shop.run("migrate check --output json"), @r#"
    {"table":"outbox_event","state":"current","version":1,"latest":1,"advice":null}
    --- exit code 0
    "#);
}

#[test]
fn printed_sql_makes_the_same_table() {
    let shop = SqliteOutbox::without_file();
    let printed = shop.run("migrate print");
    assert_eq!((printed.code, printed.stderr.as_str()), (0, ""));
    assert!(!shop.path("shop.db").exists(), "print opens nothing");
    assert_eq!(SqliteOutbox::with_sql(&printed.stdout).run("migrate check").code, 0);
    assert_eq!(shop.json("migrate print")["sql"].as_str().unwrap(), printed.stdout);
}

#[test]
fn foreign_table_is_refused() {
    let shop = SqliteOutbox::with_sql("CREATE TABLE outbox_event (id INTEGER)");
    assert_snapshot!(shop.run("migrate check"), @"
    the table outbox_event is foreign: another program made it (it lacks the columns event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, available_at, created_at, done_at, last_error, locked_by, locked_at): choose another name with --table
    --- exit code 1
    ");
    assert_snapshot!(shop.run("migrate apply"), @"
    --- stderr
    error: the outbox table outbox_event in sqlite:shop.db cannot be migrated
      because: there is a table outbox_event that is not Posthaste's (it lacks the columns event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, available_at, created_at, done_at, last_error, locked_by, locked_at): choose another table name for the outbox
    --- exit code 1
    ");
    assert_snapshot!(shop.run("migrate apply --adopt"), @"
    --- stderr
    error: the outbox table outbox_event in sqlite:shop.db cannot be migrated
      because: there is a table outbox_event that is not Posthaste's (it lacks the columns event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, available_at, created_at, done_at, last_error, locked_by, locked_at): choose another table name for the outbox
    --- exit code 1
    ");
    assert_snapshot!(shop.run("status"), @"
    --- stderr
    error: the outbox in sqlite:shop.db cannot be opened
      because: there is a table outbox_event that is not Posthaste's (it lacks the columns event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, available_at, created_at, done_at, last_error, locked_by, locked_at): choose another table name for the outbox
    --- exit code 1
    ");
}

#[test]
fn table_of_the_document_is_adopted_when_told() {
    let shop = SqliteOutbox::with_sql(DOCUMENT_TABLE_SQL);
    assert_snapshot!(shop.run("migrate check"), @"
    the table outbox_event is foreign: another program made it (it has the columns of document 003, and no schema version): see what would be done to it with `posthaste migrate print --adopt`, then run `posthaste migrate apply --adopt`
    --- exit code 1
    ");
    assert_snapshot!(shop.run("migrate apply"), @"
    --- stderr
    error: the outbox table outbox_event in sqlite:shop.db cannot be migrated
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
    assert_snapshot!(shop.run("migrate apply --adopt"), @"
    the table outbox_event is up to date already
    --- exit code 0
    ");
}

#[test]
fn adoption_in_json_keeps_standard_output_clean() {
    let shop = SqliteOutbox::with_sql(DOCUMENT_TABLE_SQL);
    let adopted = shop.run("migrate apply --adopt --output json");
    assert_eq!(
        adopted.stdout,
        "{\"table\":\"outbox_event\",\"applied\":[{\"version\":1,\"name\":\"outbox\"}]}\n"
    );
    assert!(adopted.stderr.contains("INSERT INTO \"outbox_event\""), "{adopted}");
}

#[test]
fn nothing_is_adopted_that_nobody_could_read_about() {
    let shop = SqliteOutbox::with_sql(DOCUMENT_TABLE_SQL);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = shop.command(&["migrate", "apply", "--adopt"]).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(shop.run("migrate check").code, 1);
}
