//! A PostgreSQL that is not there, refuses, or lacks the table: exit code 1, a way out, and no password.

use std::net::TcpListener;

use insta::assert_snapshot;

use crate::postgres_outbox::PgOutbox;
use crate::servers::assert_no_password;

/// Whatever is said, this is not in it.
const SENTINEL: &str = "sEnt1nel";

fn assert_no_password_is_shown(shop: &PgOutbox) {
    assert_no_password(&[SENTINEL], |args| shop.command(args));
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
fn wrong_password() {
    let shop = PgOutbox::without_table();
    let refused = shop.with_url(format!("postgres://with_password:{SENTINEL}@{}", shop.address()));
    assert_snapshot!(refused.run("status"), @r#"
    --- stderr
    error: the outbox in postgres://***@db.example/shop cannot be opened
      because: the database postgres on db.example refused the user or the password: correct them in the URL
      because: error returned from database: password authentication failed for user "with_password"
    --- exit code 1
    "#);
    assert_snapshot!(refused.run("migrate apply"), @r#"
    --- stderr
    error: the outbox table shop.outbox_event in postgres://***@db.example/shop cannot be migrated
      because: the database postgres on db.example refused the user or the password: correct them in the URL
      because: error returned from database: password authentication failed for user "with_password"
    --- exit code 1
    "#);
    assert_no_password_is_shown(&refused);
    shop.end();
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
fn right_password_is_kept_too() {
    let shop = PgOutbox::empty();
    let known =
        shop.with_url(format!("postgresql://postgres:{SENTINEL}@{}?password={SENTINEL}", shop.address()));
    assert_eq!(known.run("status").code, 0);
    assert_no_password_is_shown(&known);
    shop.end();
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
fn server_is_down() {
    let shop = PgOutbox::without_table();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = shop.with_url(format!("postgres://ann:{SENTINEL}@{free}/shop"));
    assert_snapshot!(nobody.run("status"), @"
    --- stderr
    error: the outbox in postgres://***@db.example/shop cannot be opened
      because: the database shop on db.example cannot be reached: see that the server runs, and that host and port are right
      because: error communicating with database: Connection refused (os error 111)
    --- exit code 1
    ");
    assert_snapshot!(nobody.run("migrate check"), @"
    --- stderr
    error: the outbox table shop.outbox_event in postgres://***@db.example/shop cannot be read
      because: the database shop on db.example cannot be reached: see that the server runs, and that host and port are right
      because: error communicating with database: Connection refused (os error 111)
    --- exit code 1
    ");
    assert_no_password_is_shown(&nobody);
    shop.end();
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
fn database_is_missing() {
    let shop = PgOutbox::without_table();
    let address = shop.address();
    let server = address.split_once('/').unwrap().0;
    let missing = shop.with_url(format!("postgres://postgres@{server}/no_such_database"));
    assert_snapshot!(missing.run("status"), @r#"
    --- stderr
    error: the outbox in postgres://***@db.example/shop cannot be opened
      because: there is no database no_such_database on db.example: create it with CREATE DATABASE, or correct the URL
      because: error returned from database: database "no_such_database" does not exist
    --- exit code 1
    "#);
    shop.end();
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
fn table_is_missing() {
    let shop = PgOutbox::without_table();
    assert_snapshot!(shop.run("dead list --table billing"), @"
    --- stderr
    error: the outbox in postgres://***@db.example/shop cannot be opened
      because: there is no outbox table billing: create it with `posthaste migrate apply --table billing --schema shop`, or with `.migrate()` on the store's builder
    --- exit code 1
    ");
    assert_snapshot!(shop.run("status"), @"
    --- stderr
    error: the outbox in postgres://***@db.example/shop cannot be opened
      because: there is no outbox table outbox_event: create it with `posthaste migrate apply --table outbox_event --schema shop`, or with `.migrate()` on the store's builder
    --- exit code 1
    ");
    shop.end();
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
fn table_of_somebody_else() {
    let shop = PgOutbox::without_table();
    shop.sql("CREATE TABLE outbox_event (id integer)");
    let output = shop.run("migrate apply --adopt");
    assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{output}");
    assert!(output.stderr.contains("choose another table name for the outbox"), "{output}");
    shop.end();
}
