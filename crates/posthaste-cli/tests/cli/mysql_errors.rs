//! A server that is not there, refuses, or lacks the table: exit code 1, a way out, and no password.

use std::net::TcpListener;

use insta::assert_snapshot;
use posthaste_testkit::server::MariaDbServer;

use crate::mysql_outbox::MySqlOutbox;
use crate::servers::assert_no_password;
use crate::sqlite_outbox::block_on;

/// Whatever is said, this is not in it.
const SENTINEL: &str = "sEnt1nel";

/// Nor this, which is the password of `with_password`.
const CORRECT_PASSWORD: &str = "the-right-one";

fn assert_no_password_is_shown(shop: &MySqlOutbox) {
    assert_no_password(&[SENTINEL, CORRECT_PASSWORD], |args| shop.command(args));
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn wrong_password() {
    let shop = MySqlOutbox::without_table();
    let refused = shop.with_url(format!("mysql://with_password:{SENTINEL}@{}", shop.address()));
    assert_snapshot!(refused.run("status"), @"
    --- stderr
    error: the outbox in mysql://***@db.example/shop cannot be opened
      because: the database shop on db.example refused the user or the password: correct them in the URL
      because: error returned from database: 1045 (28000): Access denied for user 'with_password'@'localhost' (using password: YES)
    --- exit code 1
    ");
    assert_snapshot!(refused.run("migrate apply"), @"
    --- stderr
    error: the outbox table outbox_event in mysql://***@db.example/shop cannot be migrated
      because: the database shop on db.example refused the user or the password: correct them in the URL
      because: error returned from database: 1045 (28000): Access denied for user 'with_password'@'localhost' (using password: YES)
    --- exit code 1
    ");
    assert_no_password_is_shown(&refused);
    shop.end();
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn right_password_is_kept_too() {
    let shop = MySqlOutbox::empty();
    let known = shop.with_url(format!("mysql://with_password:{CORRECT_PASSWORD}@{}", shop.address()));
    assert_eq!(known.run("status").code, 0);
    assert_no_password_is_shown(&known);
    shop.end();
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn server_is_down() {
    let shop = MySqlOutbox::without_table();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = shop.with_url(format!("mysql://ann:{SENTINEL}@{free}/shop"));
    assert_snapshot!(nobody.run("status"), @"
    --- stderr
    error: the outbox in mysql://***@db.example/shop cannot be opened
      because: the database shop on db.example cannot be reached: see that the server runs, and that host and port are right
      because: error communicating with database: Connection refused (os error 111)
    --- exit code 1
    ");
    assert_snapshot!(nobody.run("migrate check"), @"
    --- stderr
    error: the outbox table outbox_event in mysql://***@db.example/shop cannot be read
      because: the database shop on db.example cannot be reached: see that the server runs, and that host and port are right
      because: error communicating with database: Connection refused (os error 111)
    --- exit code 1
    ");
    assert_no_password_is_shown(&nobody);
    shop.end();
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn database_is_missing() {
    let shop = MySqlOutbox::without_table();
    let missing = shop.with_url(format!("mysql://root@{}/no_such_database", shop.host()));
    assert_snapshot!(missing.run("status"), @"
    --- stderr
    error: the outbox in mysql://***@db.example/no_such_database cannot be opened
      because: there is no database no_such_database on db.example: create it with CREATE DATABASE, or correct the URL
      because: error returned from database: 1049 (42000): Unknown database 'no_such_database'
    --- exit code 1
    ");
    shop.end();
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn table_is_missing() {
    let shop = MySqlOutbox::without_table();
    assert_snapshot!(shop.run("dead list --table billing"), @"
    --- stderr
    error: the outbox in mysql://***@db.example/shop cannot be opened
      because: there is no outbox table billing: create it with `posthaste migrate apply --table billing`, or with `.migrate()` on the store's builder
    --- exit code 1
    ");
    assert_snapshot!(shop.run("status"), @"
    --- stderr
    error: the outbox in mysql://***@db.example/shop cannot be opened
      because: there is no outbox table outbox_event: create it with `posthaste migrate apply --table outbox_event`, or with `.migrate()` on the store's builder
    --- exit code 1
    ");
    shop.end();
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn table_of_somebody_else() {
    let shop = MySqlOutbox::without_table();
    shop.sql("CREATE TABLE outbox_event (id integer)");
    let output = shop.run("migrate apply --adopt");
    assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{output}");
    assert!(output.stderr.contains("choose another table name for the outbox"), "{output}");
    shop.end();
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn server_is_too_old() {
    let shop = MySqlOutbox::without_table();
    for (version, args) in [("10.3.39-MariaDB", "migrate apply"), ("8.0.12", "migrate check")] {
        let server = block_on(MariaDbServer::of_version(version));
        let old = shop.with_url(format!("mysql://root@127.0.0.1:{}/information_schema", server.port()));
        let output = old.run(args);
        assert_eq!(output.code, 1, "{output}");
        assert!(output.stderr.contains(&format!("has version {version}")), "{output}");
        assert!(output.stderr.contains("upgrade it"), "{output}");
    }
    shop.end();
}
