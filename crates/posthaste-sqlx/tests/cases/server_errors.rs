//! Servers that are unreachable, refuse the login or are read-only, and servers that end sessions or lose a table.

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use posthaste::{Admin as _, Recorder, StoreError};
use posthaste_sqlx::OpenError;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::support::log::Log;
use crate::support::*;

/// The tests of this file.
macro_rules! server_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::server_errors:
            unknown_database_is_refused,
            unreachable_server_is_named,
            server_with_another_protocol_is_refused,
            full_server_is_refused_with_advice,
            read_only_server_is_refused_unless_the_store_is_read_only,
            wrong_password_is_refused_and_never_shown,
            password_is_in_no_debug_output_or_error,
            missing_table_of_an_open_store_is_named,
            engine_recovers_by_itself_when_all_its_sessions_are_ended,
            slow_queries_do_not_keep_operators_from_pausing,
        );
    };
}
pub(crate) use server_tests;

pub(crate) async fn unknown_database_is_refused() {
    for error in errors_of(Store::builder(&server().database("there_is_none"))).await {
        assert!(matches!(error, OpenError::NoDatabase { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("there_is_none on 127.0.0.1") && text.contains("CREATE DATABASE"), "{text}");
    }
}

pub(crate) async fn unreachable_server_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for options in [server().port(port), server().host("server.invalid"), server().socket("/nowhere")] {
        for error in errors_of(Store::builder(&options)).await {
            assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
            assert!(error.source().is_some(), "{error:?}");
        }
    }
    let error = Store::connect(&server().database("shop").port(port)).await.unwrap_err().to_string();
    assert!(error.contains(&format!("shop on 127.0.0.1:{port}")), "{error}");
}

/// A server that replies with another protocol.
pub(crate) async fn server_with_another_protocol_is_refused() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let web_server = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let _ =
                tokio::io::AsyncWriteExt::write_all(&mut client, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    for error in errors_of(Store::builder(&server().port(port))).await {
        assert!(!error.to_string().is_empty(), "{error:?}");
    }
    web_server.abort();
}

pub(crate) async fn full_server_is_refused_with_advice() {
    let login = Login::with_one_connection().await;
    let held = login.options.connect().await.expect("the only one");
    for error in errors_of(Store::builder(&login.options)).await {
        assert!(matches!(error, OpenError::NoConnectionLeft { .. }), "{error:?}");
        assert!(error.to_string().contains(CONNECTION_LIMIT_ADVICE), "{error}");
    }
    held.close().await.unwrap();
    login.remove().await;
}

/// The server is read-only because it is a replica, or because the server or the database is configured so.
pub(crate) async fn read_only_server_is_refused_unless_the_store_is_read_only() {
    let server = ReadOnlyServer::new().await;
    let errors = [
        server.without_outbox().migrate().connect().await.unwrap_err(),
        server.with_outbox().migrate().connect().await.unwrap_err(),
        server.with_outbox().connect().await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, OpenError::ReadOnlyServer { .. }), "{error:?}");
        assert!(error.to_string().contains("connect to its primary"), "{error}");
    }
    let store = server.with_outbox().read_only().connect().await.expect("it can be read");
    assert_eq!(store.stats().await.unwrap().new, 0);
    let error = store.pause("orders", "me").await.expect_err("it cannot be written");
    assert!(error.source().expect("a source").to_string().contains("is read-only"), "{error:?}");
    store.close().await;
    server.remove().await;
}

const SECRET: &str = "s3ntinel-PW-9f";

/// The error, its sources, and what a log would show of each.
fn all_texts(error: &(dyn Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    chain.map(|error| format!("{error}\n{error:?}\n{error:#?}\n")).collect()
}

fn assert_no_secret(what: &str, text: &str) {
    assert!(!text.contains(SECRET), "the password is in {what}: {text}");
}

// S3
pub(crate) async fn wrong_password_is_refused_and_never_shown() {
    let options = login_with_a_password().await.password(SECRET);
    let log = Log::of_thread();
    for error in errors_of(Store::builder(&options)).await {
        assert!(matches!(error, OpenError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("correct them in the URL"), "{error}");
        assert_no_secret("an error", &all_texts(&error));
    }
    assert_no_secret("the log", &log.text());
}

// S3
pub(crate) async fn password_is_in_no_debug_output_or_error() {
    let (login, place) = (Login::new(SECRET).await, Place::new().await);
    let log = Log::of_thread();
    let builder = place.builder_as(&login);
    let store = builder.clone().migrate().connect().await.expect("the password is right");
    let outbox = engine(&store, &Recorder::new()).start().unwrap();
    let writer = Writer::new(&store, &outbox);
    let pool = place.pool_as(&login).await;
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
        login.options.clone().database("there_is_none"),
        login.options.clone().host("server.invalid"),
        login.options.clone().port(1),
        with_bad_setting(login.options.clone()),
    ];
    for options in broken {
        for error in errors_of(Store::builder(&options)).await {
            assert_no_secret("an error", &all_texts(&error));
        }
    }
    drop(tx);
    outbox.shutdown().await;
    login.end_sessions().await;
    // The driver may notice in time that its session has ended.
    if let Err(error) = store.stats().await {
        assert_no_secret("an error", &all_texts(&error));
    }
    store.close().await;
    assert_no_secret("an error", &all_texts(&store.stats().await.expect_err("closed")));
    assert!(!log.text().is_empty(), "something was logged");
    assert_no_secret("the log", &log.text());
    place.remove().await;
    login.remove().await;
}

pub(crate) async fn missing_table_of_an_open_store_is_named() {
    let db = Db::new().await;
    db.execute("DROP TABLE outbox_event").await;
    let error = db.store.stats().await.expect_err("it is gone");
    let StoreError::Backend { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.to_string().contains("posthaste migrate apply"), "{source}");
    db.close().await;
}

pub(crate) async fn engine_recovers_by_itself_when_all_its_sessions_are_ended() {
    let db = Db::new().await;
    let recorder = Recorder::new();
    let outbox = db.engine(&recorder).poll_interval(Duration::from_millis(100)).start().unwrap();
    let writer = db.plain_writer();
    for round in 0..3 {
        db.write(&writer, &[&format!("event{round}")]).await;
        within_timeout("it is delivered", recorder.wait_for(round + 1)).await;
        wait_until("it is settled", async || {
            let done = db.int("SELECT count(*) FROM outbox_event WHERE status = 1").await;
            usize::try_from(done).is_ok_and(|done| done == round + 1)
        })
        .await;
        assert!(db.end_sessions().await > 0);
    }
    outbox.shutdown().await;
    db.close().await;
}

/// Slow queries have taken all connections for queries.
pub(crate) async fn slow_queries_do_not_keep_operators_from_pausing() {
    let db = Db::new().await;
    let mut locker = db.pool.acquire().await.unwrap();
    run(&mut *locker, LOCK_OUTBOX_SQL).await.unwrap();
    let ask = || {
        let store = db.store.clone();
        tokio::spawn(async move { store.stats().await })
    };
    let questions = [ask(), ask(), ask()];
    wait_until("two questions wait", async || db.waiting_for_locks().await == 2).await;
    assert!(db.store.pause("mail", "ann").await.expect("a pause"));
    assert!(db.store.resume("mail", "ann").await.expect("a resumption"));
    run(&mut *locker, UNLOCK_OUTBOX_SQL).await.unwrap();
    for question in questions {
        question.await.expect("no panic").expect("the query succeeds");
    }
    drop(locker);
    db.close().await;
}
