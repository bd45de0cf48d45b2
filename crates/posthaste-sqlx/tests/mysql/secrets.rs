//! The password of a MySQL or MariaDB store stands in no text.

use std::error::Error;
use std::fmt::Debug;

use posthaste::{Admin as _, Recorder};
use posthaste_sqlx::{MySqlStore, OpenError};
use sqlx::mysql::MySqlPoolOptions;

use crate::support::log::Log;
use crate::support::*;

const SECRET: &str = "s3ntinel-PW-9f";

/// The error, its sources and what a log would show of each.
fn all_texts(error: &(dyn Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    chain.map(|error| format!("{error}\n{error:?}\n{error:#?}\n")).collect()
}

fn assert_no_secret(what: &str, text: &str) {
    assert!(!text.contains(SECRET), "the password stands in {what}: {text}");
}

// S3
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn wrong_password_is_refused_and_stands_in_no_text() {
    let user = new_user("the right one", "").await;
    let log = Log::of_thread();
    for error in errors_of(MySqlStore::builder(&server().username(&user).password(SECRET))).await {
        assert!(matches!(error, OpenError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("correct them in the URL"), "{error}");
        assert_no_secret("an error", &all_texts(&error));
    }
    assert_no_secret("the log", &log.text());
    drop_user(&user).await;
}

// S3
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn password_stands_in_no_text_of_what_was_opened_or_could_not_be() {
    let (database, user) = (new_database().await, new_user(SECRET, "").await);
    let log = Log::of_thread();
    let options = server().username(&user).password(SECRET).database(&database);
    let builder = MySqlStore::builder(&options);
    let store = builder.clone().migrate().connect().await.expect("the password is right");
    let outbox = engine(&store, &Recorder::new()).start().unwrap();
    let writer = store.writer(&outbox);
    let pool = MySqlPoolOptions::new().connect_with(options.clone()).await.unwrap();
    let tx = writer.begin(&pool).await.unwrap();
    let things: [(&str, &dyn Debug); 6] = [
        ("a builder", &builder),
        ("migrations", &builder.migrations()),
        ("a store", &store),
        ("a writer", &writer),
        ("a transaction", &tx),
        ("an outbox", &outbox),
    ];
    for (what, thing) in things {
        assert_no_secret(what, &format!("{thing:?} {thing:#?}"));
    }
    let broken = [
        options.clone().database("there_is_none"),
        options.clone().host("nobody.invalid"),
        options.clone().port(1),
        options.clone().charset("no_such_charset"),
    ];
    for options in broken {
        for error in errors_of(MySqlStore::builder(&options)).await {
            assert_no_secret("an error", &all_texts(&error));
        }
    }
    drop(tx);
    outbox.shutdown().await;
    kill_connections(&format!("user = '{user}'")).await;
    // The driver may notice in time that its session is gone.
    if let Err(error) = store.stats().await {
        assert_no_secret("an error", &all_texts(&error));
    }
    store.close().await;
    assert_no_secret("an error", &all_texts(&store.stats().await.expect_err("closed")));
    assert!(!log.text().is_empty(), "something was logged");
    assert_no_secret("the log", &log.text());
    drop_database(&database).await;
    drop_user(&user).await;
}
