//! Schemas: creation, checks, refusal and adoption.

use crate::on_stores::on_stores;
use crate::shop::{Shop, StoreKind};

on_stores!([sqlite, postgres, mysql] [
    schema_is_created_checked_and_printed,
    classic_table_is_adopted_on_request
]);

/// The classic 15-column outbox table, created by another program.
fn document_table_sql(kind: StoreKind) -> String {
    let (json, time, zone) = match kind {
        StoreKind::Sqlite => ("text", "text", ""),
        StoreKind::Postgres => ("json", "timestamptz", "Z"),
        _ => ("json", "datetime(6)", ""),
    };
    format!(
        "CREATE TABLE outbox_event (
           event_id varchar(36) PRIMARY KEY, event_type varchar(128) NOT NULL, aggregate_type varchar(64),
           aggregate_id varchar(128), tenant_id varchar(64), payload {json} NOT NULL, headers {json},
           status integer NOT NULL, attempts integer NOT NULL DEFAULT 0, available_at {time} NOT NULL,
           created_at {time} NOT NULL, done_at {time}, last_error text, locked_by varchar(128),
           locked_at {time});
         INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at)
         VALUES ('old', 'A', '{{}}', 0, '2020-01-01 00:00:00{zone}', '2020-01-01 00:00:00{zone}')"
    )
}

/// How messages name the schema: before a table, as an option, and in JSON.
fn schema_words(kind: StoreKind) -> (&'static str, &'static str, &'static str) {
    match kind {
        StoreKind::Postgres => ("shop.", " --schema shop", r#","schema":"shop""#),
        _ => ("", "", ""),
    }
}

fn assert_prints(shop: &Shop, args: &str, stdout: &str, code: i32) {
    let output = shop.run(args);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str(), output.code), (stdout, "", code), "{args}");
}

fn schema_is_created_checked_and_printed(kind: StoreKind) {
    let (schema, option, json) = schema_words(kind);
    let shop = Shop::bare(kind);
    shop.sql("CREATE TABLE orders (id INTEGER)");
    let create = format!("create it with `posthaste migrate apply{option}`");
    let missing = format!("the table {schema}outbox_event is missing: {create}\n");
    assert_prints(&shop, "migrate check", &missing, 1);
    let missing = format!(
        r#"{{"table":"outbox_event"{json},"state":"missing","version":null,"latest":null,"advice":"{create}"}}"#
    );
    assert_prints(&shop, "migrate check --output json", &format!("{missing}\n"), 1);
    let missing = format!(
        "the table {schema}billing is missing: create it with `posthaste migrate apply --table billing{option}`\n"
    );
    assert_prints(&shop, "migrate check --table billing", &missing, 1);

    let applied = format!("the table {schema}outbox_event is up to date; applied:\n  1 outbox\n");
    assert_prints(&shop, "migrate apply", &applied, 0);
    let nothing = format!("the table {schema}outbox_event is up to date already\n");
    assert_prints(&shop, "migrate apply", &nothing, 0);
    let nothing = format!(r#"{{"table":"outbox_event"{json},"applied":[]}}"#);
    assert_prints(&shop, "migrate apply --output json", &format!("{nothing}\n"), 0);
    let current = format!("the table {schema}outbox_event is current (version 1)\n");
    assert_prints(&shop, "migrate check", &current, 0);
    let current =
        format!(r#"{{"table":"outbox_event"{json},"state":"current","version":1,"latest":1,"advice":null}}"#);
    assert_prints(&shop, "migrate check --output json", &format!("{current}\n"), 0);
    assert_eq!(shop.run("status").code, 0);

    let other = Shop::bare(kind);
    let printed = other.command("migrate print").output().expect("the binary starts");
    assert_eq!((printed.status.code(), printed.stderr.as_slice()), (Some(0), &b""[..]));
    assert!(!other.path("shop.db").exists(), "print opens nothing");
    assert_eq!(other.run("migrate check").code, 1, "print changes nothing");
    other.sql(&String::from_utf8(printed.stdout).expect("SQL"));
    assert_eq!(other.run("migrate check").code, 0);
    assert_eq!(other.json("migrate print")["sql"].as_str(), Some(&*other.run("migrate print").stdout));
}

fn classic_table_is_adopted_on_request(kind: StoreKind) {
    let (schema, option, json) = schema_words(kind);
    let shop = Shop::bare(kind);
    shop.sql(&document_table_sql(kind));
    let why = "it is a classic 15-column outbox table without a schema version";
    let foreign = format!(
        "the table {schema}outbox_event is foreign: another program made it ({why}): see the statements with \
         `posthaste migrate print --adopt{option}`, then run `posthaste migrate apply --adopt{option}`\n"
    );
    assert_prints(&shop, "migrate check", &foreign, 1);
    let url = match kind {
        StoreKind::Sqlite => "sqlite:shop.db",
        StoreKind::Postgres => "postgres://***@db.example/shop",
        _ => "mysql://***@db.example/shop",
    };
    shop.run("migrate apply").assert_error(
        &format!("the outbox table {schema}outbox_event in {url} cannot be migrated"),
        &[&format!(
            "there is a table outbox_event that Posthaste did not create ({why}): `posthaste migrate apply \
             --adopt` upgrades it, \
             or choose another table name"
        )],
    );

    let printed = shop.run("migrate print --adopt").stdout;
    let adopted = format!(
        "-- These statements rewrite the table {schema}outbox_event:\n{printed}the table {schema}outbox_event is up to date; \
         applied:\n  1 outbox\n"
    );
    assert_prints(&shop, "migrate apply --adopt", &adopted, 0);
    assert_eq!(shop.json("event show old")["created_at"], "2020-01-01T00:00:00.000000Z");
    assert_eq!(shop.run("migrate check").code, 0);
    let nothing = format!("the table {schema}outbox_event is up to date already\n");
    assert_prints(&shop, "migrate apply --adopt", &nothing, 0);

    let other = Shop::bare(kind);
    other.sql(&document_table_sql(kind));
    let adopted = other.run("migrate apply --adopt --output json");
    let expected = format!(r#"{{"table":"outbox_event"{json},"applied":[{{"version":1,"name":"outbox"}}]}}"#);
    assert_eq!(adopted.stdout, format!("{expected}\n"), "the statements are not on standard output");
    assert!(adopted.stderr.contains(printed.lines().next().expect("a line")), "{adopted}");
}

#[test]
fn apply_creates_a_missing_sqlite_file() {
    let shop = Shop::bare(StoreKind::Sqlite);
    assert_prints(&shop, "migrate apply", "the table outbox_event is up to date; applied:\n  1 outbox\n", 0);
    assert_eq!(shop.run("status").code, 0);
}

#[test]
fn foreign_table_is_refused() {
    let shop = Shop::with_sql("CREATE TABLE outbox_event (id INTEGER)");
    let why = "it lacks the columns event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, \
               attempts, available_at, created_at, done_at, last_error, locked_by, locked_at";
    let foreign = format!(
        "the table outbox_event is foreign: another program made it ({why}): choose another name with --table\n"
    );
    assert_prints(&shop, "migrate check", &foreign, 1);
    let not_migrated = "the outbox table outbox_event in sqlite:shop.db cannot be migrated";
    for (args, error) in [
        ("migrate apply", not_migrated),
        ("migrate apply --adopt", not_migrated),
        ("status", "the outbox in sqlite:shop.db cannot be opened"),
    ] {
        let cause = format!(
            "there is a table outbox_event that Posthaste did not create ({why}): choose another table name \
             for the outbox"
        );
        shop.run(args).assert_error(error, &[&cause]);
    }
}

#[test]
fn adoption_needs_a_reader_of_its_statements() {
    let shop = Shop::with_sql(&document_table_sql(StoreKind::Sqlite));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = shop.command("migrate apply --adopt").stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(shop.run("migrate check").code, 1);
}
