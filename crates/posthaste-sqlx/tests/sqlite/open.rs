//! Opening an outbox on SQLite: files that are missing, locked, read-only or not a database, and names.

use std::error::Error as _;

use posthaste::{Admin as _, Store as _};
use posthaste_sqlx::{OpenError, SqliteStore, TableName};
use proptest::prelude::*;
use sqlx::sqlite::SqliteConnectOptions;

use crate::cases::open::assert_name_works;
use crate::support::*;

crate::cases::open::open_tests!();

const ORDERS_SQL: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY)";

/// A path without a file, and options that do not create it.
async fn missing() -> Place {
    let mut place = Place::new().await;
    place.options = place.options.create_if_missing(false);
    place
}

#[tokio::test]
async fn missing_file_is_named_and_not_created() {
    let place = missing().await;
    for error in errors_of(place.builder()).await {
        assert!(matches!(&error, OpenError::MissingFile(path) if *path == place.path()), "{error:?}");
        assert!(error.to_string().contains("posthaste migrate apply"), "{error}");
    }
    assert!(!place.path().exists());
}

#[tokio::test]
async fn missing_file_is_created_when_the_options_say_so() {
    let place = missing().await;
    SqliteStore::builder(&place.options().create_if_missing(true))
        .migrate()
        .connect()
        .await
        .expect("an outbox");
    assert!(place.open().await.wake().is_some(), "it is there now");
}

fn read_only(place: &Place) -> SqliteConnectOptions {
    format!("sqlite://{}?mode=ro", place.path().display()).parse().expect("a good URL")
}

#[tokio::test]
async fn read_only_database_is_refused_when_it_is_opened() {
    let (fresh, ready) = (Place::with(ORDERS_SQL).await, Place::migrated().await);
    let (fresh_options, ready_options) = (read_only(&fresh), read_only(&ready));
    for (place, builder) in [
        (&fresh, SqliteStore::builder(&fresh_options).migrate()),
        (&ready, SqliteStore::builder(&ready_options).migrate()),
        (&ready, SqliteStore::builder(&ready_options)),
    ] {
        let error = builder.connect().await.expect_err("it cannot be written");
        assert!(matches!(&error, OpenError::ReadOnly(path) if *path == place.path()), "{error:?}");
        assert!(error.to_string().contains("mode=ro"), "{error}");
    }
}

#[tokio::test]
async fn read_only_store_reads_without_changing_the_file() {
    let place = Place::with("PRAGMA journal_mode = DELETE").await;
    place.execute(&place.builder().migrations().sql()).await;
    for options in [place.options(), read_only(&place)] {
        let store = SqliteStore::builder(&options).read_only().connect().await.expect("it can be read");
        assert_eq!(store.stats().await.unwrap().new, 0);
        store.close().await;
    }
    assert_eq!(place.texts("PRAGMA journal_mode").await, ["delete"]);
    let store = SqliteStore::builder(&read_only(&place)).read_only().connect().await.unwrap();
    let error = store.pause("orders", "me").await.expect_err("it cannot be written");
    let error = error.source().expect("a source").to_string();
    assert!(error.contains("cannot be written"), "{error}");
}

#[tokio::test]
async fn database_that_another_connection_keeps_locked_is_refused_with_advice() {
    let place = Place::with(ORDERS_SQL).await;
    let mut other = place.connect().await;
    run(&mut other, "BEGIN EXCLUSIVE").await.unwrap();
    let error = place.builder().migrate().connect().await.expect_err("it is locked");
    assert!(matches!(&error, OpenError::Locked(path) if *path == place.path()), "{error:?}");
    assert!(error.to_string().contains("end the transaction"), "{error}");
    run(&mut other, "ROLLBACK").await.unwrap();
    place.builder().migrate().connect().await.expect("the connection works");
}

#[tokio::test]
async fn file_that_is_no_database_is_refused() {
    let place = Place::new().await;
    std::fs::write(place.path(), "A letter to a friend, long enough to be looked at. ".repeat(100)).unwrap();
    for error in errors_of(place.builder()).await {
        assert!(matches!(&error, OpenError::NotADatabase(path) if *path == place.path()), "{error:?}");
    }
}

#[tokio::test]
async fn utf_16_database_is_refused_and_left_alone() {
    let place = Place::with(&format!("PRAGMA encoding = 'UTF-16le'; {ORDERS_SQL}")).await;
    let before = place.contents().await;
    for error in errors_of(place.builder()).await {
        assert!(matches!(&error, OpenError::Encoding(name) if name == "UTF-16le"), "{error:?}");
    }
    assert_eq!(place.contents().await, before);
}

// S3-12
#[tokio::test]
async fn failure_of_the_database_keeps_its_source() {
    // A folder instead of a file.
    let place = missing().await;
    std::fs::create_dir(place.path()).unwrap();
    let error = place.builder().connect().await.expect_err("a folder");
    assert!(error.source().is_some() || matches!(error, OpenError::Database(_)), "{error:?}");
}

// S3-125
#[test]
fn table_names_are_words_of_letters_digits_and_underscores() {
    let long = "x".repeat(TableName::MAX_CHARS);
    for good in ["outbox_event", "_", "A", "order", "SELECT", "a1", "xsqlite_", long.as_str()] {
        assert_eq!(good.parse::<TableName>().expect(good).as_str(), good);
    }
    let longer = "x".repeat(TableName::MAX_CHARS + 1);
    for bad in
        ["", "1a", "a b", "a\"b", "a;b", "a.b", "a-b", "é", "a\0", "sqlite_a", "SQLite_", longer.as_str()]
    {
        let error = bad.parse::<TableName>().expect_err(bad).to_string();
        assert!(error.contains("letters, digits"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn table_name_is_refused_or_works_as_a_plain_name(
        name in prop_oneof!["[A-Za-z_][A-Za-z0-9_]{0,50}", "\\PC{0,8}", "(?i)(select|table|index|order|group|sqlite_x)"],
    ) {
        let Ok(table) = name.parse::<TableName>() else { return Ok(()) };
        assert_name_works(Place::new, table.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (opened, contents) = runtime.block_on(async {
            let place = Place::with(ORDERS_SQL).await;
            let opened = place.builder().table(table).migrate().connect().await;
            (opened.map(drop), place.contents().await)
        });
        let theirs = format!("table orders {ORDERS_SQL}");
        prop_assert!(contents.contains(&theirs), "{contents:?}");
        if let Err(error) = opened {
            prop_assert!(name.eq_ignore_ascii_case("orders"), "{name}: {error}");
            return Ok(());
        }
        // All other names begin with the name of the outbox.
        for line in contents.iter().filter(|line| **line != theirs && !line.contains("sqlite_sequence")) {
            let object = line.split(' ').nth(1).expect("a name").trim_start_matches("sqlite_autoindex_");
            prop_assert!(object.starts_with(&name), "{line}");
        }
    }
}
