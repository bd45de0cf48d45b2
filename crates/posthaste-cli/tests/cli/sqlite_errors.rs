//! Errors of SQLite: databases that are missing, broken, locked or of another release. The exit code is 1, and the
//! message has advice.

use insta::assert_snapshot;
use sqlx::Connection as _;

use crate::shop::StoreKind::Sqlite;
use crate::shop::{Shop, block_on};

const NOT_OPENED: &str = "the outbox in sqlite:shop.db cannot be opened";
const NOT_MIGRATED: &str = "the outbox table outbox_event in sqlite:shop.db cannot be migrated";

#[test]
fn missing_file() {
    let shop = Shop::bare(Sqlite);
    let cause = "there is no database file shop.db: create it with `posthaste migrate apply`, with `?mode=rwc` in the URL, \
                 or with `create_if_missing(true)`";
    shop.run("status").assert_error(NOT_OPENED, &[cause]);
    let not_read = "the outbox table outbox_event in sqlite:shop.db cannot be read";
    shop.run("migrate check").assert_error(not_read, &[cause]);
    assert!(!shop.path("shop.db").exists(), "reading creates nothing");
}

#[test]
fn missing_folder() {
    let output = Shop::bare(Sqlite).run("migrate apply --store sqlite:no/such/shop.db");
    output.assert_error("the folder no/such does not exist: create it, or check the path", &[]);
}

#[test]
fn folder_instead_of_a_file() {
    assert_snapshot!(Shop::bare(Sqlite).run("status --store sqlite:."), @"
    --- stderr
    error: the outbox in sqlite:. cannot be opened
      because: the database failed: error returned from database: (code: 14) unable to open database file
      what to do: check that the path leads to a database file that this user may read and write
    --- exit code 1
    ");
}

#[test]
fn missing_table() {
    let cause = "there is no outbox table billing: create it with `posthaste migrate apply --table billing`, or with \
                 `.migrate()` on the store's builder";
    Shop::empty(Sqlite).run("dead list --table billing").assert_error(NOT_OPENED, &[cause]);
}

#[test]
fn read_only_database() {
    let shop = Shop::seeded(Sqlite);
    for args in ["dead replay d-1", "purge --done --older-than 1d --yes"] {
        let causes = [
            "the SQLite store failed",
            "the database shop.db cannot be written: check the permissions of the file and of its folder, \
             and that the URL does not contain mode=ro",
        ];
        shop.run(&format!("{args} --store sqlite:shop.db?mode=ro"))
            .assert_error("nothing was changed", &causes);
    }
}

#[test]
fn file_that_is_not_a_database() {
    let shop = Shop::bare(Sqlite);
    let text = "a letter to the bank, longer than the header of a database ".repeat(9);
    shop.write_file("shop.db", text);
    for (args, error) in [("status", NOT_OPENED), ("migrate apply", NOT_MIGRATED)] {
        let cause = "shop.db is not a SQLite database, or is encrypted: check the path";
        shop.run(args).assert_error(error, &[cause]);
    }
}

#[test]
fn schema_of_a_newer_release() {
    let shop = Shop::empty(Sqlite);
    shop.sql("INSERT INTO outbox_event_schema VALUES (99, 'future', 2, 0)");
    for (args, error) in [("status", NOT_OPENED), ("migrate apply", NOT_MIGRATED)] {
        let cause = "the outbox table outbox_event has schema version 99, this program knows only 1: use a newer release of \
                     Posthaste";
        shop.run(args).assert_error(error, &[cause]);
    }
    assert_snapshot!(shop.run("migrate check"), @"
    the table outbox_event is newer (version 99; this program has 1): a newer release made it: use that release
    --- exit code 1
    ");
}

#[test]
fn locked_database() {
    let shop = Shop::seeded(Sqlite);
    block_on(async {
        let mut connection = shop.sqlite().await;
        let tx = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let causes = [
            "the SQLite store failed",
            "the database shop.db has been locked by another connection for longer than the busy timeout: \
             end the transaction that holds the lock, then try again",
        ];
        shop.run("dead discard d-1").assert_error("nothing was changed", &causes);
        assert_eq!(shop.run("status").code, 0, "reading commands do not wait");
        drop(tx);
    });
}
