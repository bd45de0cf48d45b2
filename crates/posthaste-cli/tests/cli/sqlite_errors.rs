//! Databases that are missing, broken, locked or of another release: exit code 1, and a way out.

use insta::assert_snapshot;
use sqlx::Connection as _;

use crate::sqlite_outbox::{SqliteOutbox, block_on};

#[test]
fn missing_file() {
    let shop = SqliteOutbox::without_file();
    assert_snapshot!(shop.run("status"), @"
    --- stderr
    error: the outbox in sqlite:shop.db cannot be opened
      because: there is no database file shop.db: create it with `posthaste migrate apply`, with `?mode=rwc` in the URL, or with `create_if_missing(true)`
    --- exit code 1
    ");
    assert_snapshot!(shop.run("migrate check"), @"
    --- stderr
    error: the outbox table outbox_event in sqlite:shop.db cannot be read
      because: there is no database file shop.db: create it with `posthaste migrate apply`, with `?mode=rwc` in the URL, or with `create_if_missing(true)`
    --- exit code 1
    ");
    assert!(!shop.path("shop.db").exists(), "looking creates nothing");
}

#[test]
fn missing_folder() {
    assert_snapshot!(SqliteOutbox::without_file().run("migrate apply --store sqlite:no/such/shop.db"), @"
    --- stderr
    error: there is no folder no/such: create it first, or see whether the path is right
    --- exit code 1
    ");
}

#[test]
fn folder_instead_of_a_file() {
    assert_snapshot!(SqliteOutbox::without_file().run("status --store sqlite:."), @"
    --- stderr
    error: the outbox in sqlite:. cannot be opened
      because: the database failed: error returned from database: (code: 14) unable to open database file
      what to do: see that the path leads to a database file which this user may read and write
    --- exit code 1
    ");
}

#[test]
fn missing_table() {
    assert_snapshot!(SqliteOutbox::empty().run("dead list --table billing"), @"
    --- stderr
    error: the outbox in sqlite:shop.db cannot be opened
      because: there is no outbox table billing: create it with `posthaste migrate apply --table billing`, or with `.migrate()` on the store's builder
    --- exit code 1
    ");
}

#[test]
fn read_only_database() {
    let shop = SqliteOutbox::seeded();
    assert_snapshot!(shop.run("dead replay d-1 --store sqlite:shop.db?mode=ro"), @"
    --- stderr
    error: nothing was changed
      because: the SQLite store failed
      because: the database shop.db cannot be written: see the rights of the file and of its folder, and that the URL does not say mode=ro
    --- exit code 1
    ");
    assert_snapshot!(shop.run("purge --done --older-than 1d --yes --store sqlite:shop.db?mode=ro"), @"
    --- stderr
    error: nothing was changed
      because: the SQLite store failed
      because: the database shop.db cannot be written: see the rights of the file and of its folder, and that the URL does not say mode=ro
    --- exit code 1
    ");
}

#[test]
fn something_else_than_a_database() {
    let shop = SqliteOutbox::without_file();
    std::fs::write(
        shop.path("shop.db"),
        "a letter to the bank, longer than the header of a database ".repeat(9),
    )
    .unwrap();
    assert_snapshot!(shop.run("status"), @"
    --- stderr
    error: the outbox in sqlite:shop.db cannot be opened
      because: shop.db is not a SQLite database, or is encrypted: see whether the path is right
    --- exit code 1
    ");
    assert_snapshot!(shop.run("migrate apply"), @"
    --- stderr
    error: the outbox table outbox_event in sqlite:shop.db cannot be migrated
      because: shop.db is not a SQLite database, or is encrypted: see whether the path is right
    --- exit code 1
    ");
}

#[test]
fn schema_of_a_newer_release() {
    let shop = SqliteOutbox::empty();
    shop.sql("INSERT INTO outbox_event_schema VALUES (99, 'future', 2, 0)");
    assert_snapshot!(shop.run("status"), @"
    --- stderr
    error: the outbox in sqlite:shop.db cannot be opened
      because: the outbox table outbox_event has schema version 99, this program knows only 1: use a newer release of Posthaste
    --- exit code 1
    ");
    assert_snapshot!(shop.run("migrate check"), @"
    the table outbox_event is newer (version 99; this program has 1): a newer release made it: use that release
    --- exit code 1
    ");
    assert_snapshot!(shop.run("migrate apply"), @"
    --- stderr
    error: the outbox table outbox_event in sqlite:shop.db cannot be migrated
      because: the outbox table outbox_event has schema version 99, this program knows only 1: use a newer release of Posthaste
    --- exit code 1
    ");
}

#[test]
fn locked_database() {
    let shop = SqliteOutbox::seeded();
    block_on(async {
        let mut connection = shop.connect().await;
        let tx = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
        assert_snapshot!(shop.run("dead discard d-1"), @"
        --- stderr
        error: nothing was changed
          because: the SQLite store failed
          because: the database shop.db is locked by another connection for longer than the busy timeout: end the transaction that holds it, then try again
        --- exit code 1
        ");
        assert_eq!(shop.run("status").code, 0, "who only looks does not wait");
        drop(tx);
    });
}
