//! Opening an outbox on MySQL and MariaDB: what is refused and with which advice, and migrations.

use std::error::Error as _;
use std::time::Duration;

use posthaste::{Admin as _, Outbox, Recorder, Route, Routes, StoreError};
use posthaste_sqlx::mysql::MySqlStoreBuilder;
use posthaste_sqlx::{MySqlStore, OpenError, SchemaState, TableName};
use proptest::prelude::*;
use sqlx::ConnectOptions as _;
use sqlx::mysql::MySqlPoolOptions;

use crate::support::*;

/// A database in which this was executed.
async fn database_with(sql: &str) -> String {
    let name = new_database().await;
    administrate(&format!("USE {name}; {sql}")).await;
    name
}

fn builder(database: &str) -> MySqlStoreBuilder {
    MySqlStore::builder(&server().database(database))
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn unknown_database_is_refused() {
    for error in errors_of(builder("there_is_none")).await {
        assert!(matches!(error, OpenError::NoDatabase { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("there_is_none on 127.0.0.1") && text.contains("CREATE DATABASE"), "{text}");
    }
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn url_without_a_database_is_refused() {
    let url = server().to_url_lossy();
    let options = format!("mysql://{}@{}:{}", url.username(), server().get_host(), server().get_port());
    for error in errors_of(MySqlStore::builder(&options.parse().unwrap())).await {
        assert!(matches!(error, OpenError::NoDatabase { .. }), "{error:?}");
    }
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn server_that_is_not_there_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for options in [server().port(port), server().host("nobody.invalid"), server().socket("/nowhere")] {
        for error in errors_of(MySqlStore::builder(&options)).await {
            assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
            assert!(error.source().is_some(), "{error:?}");
        }
    }
    let error = MySqlStore::connect(&server().database("shop").port(port)).await.unwrap_err().to_string();
    assert!(error.contains(&format!("shop on 127.0.0.1:{port}")), "{error}");
}

/// Something answers, but it is no MySQL.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn server_that_speaks_another_language_is_refused() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let web_server = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let _ =
                tokio::io::AsyncWriteExt::write_all(&mut client, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    for error in errors_of(MySqlStore::builder(&server().port(port))).await {
        assert!(!error.to_string().is_empty(), "{error:?}");
    }
    web_server.abort();
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn database_without_an_outbox_is_refused_and_left_alone() {
    let database = database_with("CREATE TABLE orders (id INT PRIMARY KEY)").await;
    let before = contents(&database).await;
    let error = builder(&database).connect().await.expect_err("no outbox");
    assert!(matches!(error, OpenError::NoSchema { .. }), "{error:?}");
    assert!(error.to_string().contains(".migrate()"), "{error}");
    assert_eq!(contents(&database).await, before);
    drop_database(&database).await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn newer_and_older_schemas_are_refused_with_advice() {
    let database = new_database().await;
    builder(&database).migrate().connect().await.expect("an outbox").close().await;
    let next = "INSERT INTO {}.outbox_event_schema (version, name, works_with) VALUES (98, 'next', 1)";
    administrate(&next.replace("{}", &database)).await;
    builder(&database).migrate().connect().await.expect("the next release lets this one work").close().await;
    let future = "INSERT INTO {}.outbox_event_schema (version, name, works_with) VALUES (99, 'future', 2)";
    administrate(&future.replace("{}", &database)).await;
    for error in errors_of(builder(&database)).await {
        assert!(matches!(error, OpenError::NewerSchema { found: 99, .. }), "{error:?}");
        assert!(error.to_string().contains("newer release"), "{error}");
    }
    let state = builder(&database).migrations().check().await.unwrap();
    assert_eq!(state, SchemaState::Newer { version: 99, latest: 1 });

    administrate(&format!("DELETE FROM {database}.outbox_event_schema")).await;
    let error = builder(&database).connect().await.expect_err("from the past");
    assert!(matches!(error, OpenError::OldSchema { found: 0, needed: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("posthaste migrate apply"), "{error}");
    drop_database(&database).await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn table_of_that_name_that_is_not_ours_is_refused_and_left_alone() {
    for sql in [
        "CREATE TABLE outbox_event (id INT PRIMARY KEY, body TEXT)",
        "CREATE VIEW outbox_event AS SELECT 1 AS id",
    ] {
        let database = database_with(sql).await;
        let before = contents(&database).await;
        let adopted = builder(&database).migrations().adopt().await;
        let [plain, migrated] = errors_of(builder(&database)).await;
        for error in [plain, migrated, adopted.expect_err("somebody else's table")] {
            assert!(matches!(error, OpenError::ForeignTable { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("another table name") && text.contains("event_id"), "{text}");
        }
        assert_eq!(contents(&database).await, before);
        drop_database(&database).await;
    }
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn table_that_goes_away_under_a_store_is_named() {
    let db = Db::new().await;
    db.execute("DROP TABLE outbox_event").await;
    let error = db.store.stats().await.expect_err("it is gone");
    let StoreError::Backend { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.to_string().contains("posthaste migrate apply"), "{source}");
    db.close().await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn user_who_may_not_is_told_where_the_grants_are() {
    let (database, user) = (new_database().await, new_user("", "").await);
    administrate(&format!("REVOKE ALL ON *.* FROM {user}@'%'; GRANT SELECT ON {database}.* TO {user}@'%'"))
        .await;
    let options = server().username(&user).database(&database);
    let error =
        MySqlStore::builder(&options).migrate().connect().await.expect_err("it may not create a table");
    assert!(matches!(error, OpenError::NotAllowed { .. }), "{error:?}");
    assert!(error.to_string().contains("docs/mysql.md"), "{error}");
    drop_database(&database).await;
    drop_user(&user).await;
}

/// As a replica answers, and a server that was told so.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn server_that_only_reads_is_refused_unless_one_only_looks() {
    let own = OwnServer::start().await;
    let root = MySqlPoolOptions::new().connect_with(options_of(&own)).await.unwrap();
    // Who has all rights may write even there.
    run(&root, "CREATE USER relay@'%'; GRANT ALL ON shop.* TO relay@'%'").await.unwrap();
    let on = |table: &str| {
        MySqlStore::builder(&options_of(&own).username("relay")).table(table.parse().expect("a good name"))
    };
    on("ready").migrate().connect().await.expect("an outbox").close().await;
    run(&root, "SET GLOBAL read_only = ON").await.unwrap();
    let errors = [
        on("fresh").migrate().connect().await.unwrap_err(),
        on("ready").migrate().connect().await.unwrap_err(),
        on("ready").connect().await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, OpenError::ReadOnlyServer { .. }), "{error:?}");
        assert!(error.to_string().contains("connect to its primary"), "{error}");
    }
    let store = on("ready").read_only().connect().await.expect("it can be read");
    assert_eq!(store.stats().await.unwrap().new, 0);
    let error = store.pause("orders", "me").await.expect_err("it cannot be written");
    assert!(error.source().expect("a source").to_string().contains("only reads"), "{error:?}");
    store.close().await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn full_server_is_refused_with_advice() {
    let user = new_user("", "WITH MAX_USER_CONNECTIONS 1").await;
    let options = server().username(&user);
    let held = options.connect().await.expect("the only one");
    for error in errors_of(MySqlStore::builder(&options)).await {
        assert!(matches!(error, OpenError::NoConnectionLeft { .. }), "{error:?}");
        assert!(error.to_string().contains("max_connections"), "{error}");
    }
    drop(held);
    drop_user(&user).await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn migrations_are_idempotent() {
    let database = new_database().await;
    let migrations = builder(&database).migrations();
    assert_eq!(migrations.check().await.unwrap(), SchemaState::Missing);
    let applied = migrations.apply().await.unwrap();
    assert_eq!(applied.iter().map(|step| step.version).collect::<Vec<_>>(), [1]);
    let before = contents(&database).await;
    assert!(migrations.apply().await.unwrap().is_empty());
    assert!(migrations.adopt().await.unwrap().is_empty());
    builder(&database).migrate().connect().await.expect("it opens").close().await;
    assert_eq!(contents(&database).await, before);
    assert_eq!(migrations.check().await.unwrap(), SchemaState::Current { version: 1 });
    drop_database(&database).await;
}

/// A deployment in which every instance migrates when it starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn ten_instances_that_start_at_once_all_succeed_and_migrate_once() {
    for round in 0..3 {
        let database = new_database().await;
        let start = |_| tokio::spawn(builder(&database).migrate().connect());
        for start in (0..10).map(start).collect::<Vec<_>>() {
            let opened = start.await.expect("no panic");
            let store = opened.unwrap_or_else(|error| panic!("round {round}: {error}: {error:?}"));
            store.stats().await.expect("it works");
            store.close().await;
        }
        let steps = lines(&format!("SELECT name FROM {database}.outbox_event_schema")).await;
        assert_eq!(steps, ["outbox"], "applied once");
        drop_database(&database).await;
    }
}

/// Also in a database whose character set is another one.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn printed_migrations_make_the_same_schema() {
    let [applied, by_driver, by_shell] =
        [new_database().await, new_database().await, new_database_with("CHARACTER SET latin1").await];
    builder(&applied).migrate().connect().await.expect("an outbox").close().await;
    administrate(&format!("USE {by_driver}; {}", builder(&by_driver).migrations().sql())).await;
    shell(&by_shell, &builder(&by_shell).migrations().sql());
    for database in [&by_driver, &by_shell] {
        assert_eq!(contents(database).await, contents(&applied).await);
        let state = builder(database).migrations().check().await.unwrap();
        assert_eq!(state, SchemaState::Current { version: 1 });
        builder(database).connect().await.expect("it is an outbox").close().await;
    }
    for database in [applied, by_driver, by_shell] {
        drop_database(&database).await;
    }
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn migration_that_was_interrupted_anywhere_is_finished_by_the_next_one() {
    let whole = new_database().await;
    builder(&whole).migrate().connect().await.expect("an outbox").close().await;
    let printed = builder(&whole).migrations().sql();
    let steps: Vec<&str> = printed.split_inclusive(";\n").collect();
    for done in 1..steps.len() {
        let database = new_database().await;
        shell(&database, &steps[..done].concat());
        builder(&database).connect().await.expect_err("half an outbox");
        let store = builder(&database).migrate().connect().await;
        store.unwrap_or_else(|error| panic!("after {done} steps: {error:?}")).close().await;
        assert_eq!(contents(&database).await, contents(&whole).await, "after {done} steps");
        drop_database(&database).await;
    }
    drop_database(&whole).await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn engine_recovers_by_itself_when_all_its_sessions_are_killed() {
    let db = Db::new().await;
    let recorder = Recorder::new();
    let outbox = db.engine(&recorder).poll_interval(Duration::from_millis(100)).start().unwrap();
    let writer = db.plain_writer();
    for round in 0..3 {
        let mut tx = writer.begin(&db.pool).await.unwrap();
        tx.write(event(&format!("event{round}"))).await.unwrap();
        tx.commit().await.unwrap();
        within_timeout("it is delivered", recorder.wait_for(round + 1)).await;
        wait_until("it is settled", async || {
            let done = db.int("SELECT COUNT(*) FROM outbox_event WHERE status = 1").await;
            usize::try_from(done).is_ok_and(|done| done == round + 1)
        })
        .await;
        // Those of the pool as well.
        assert!(kill_connections(&format!("db = '{}'", db.name)).await > 0);
    }
    outbox.shutdown().await;
    db.close().await;
}

/// Beside each other, and in a database of another name, with tables of odd names.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn several_outboxes_do_not_see_each_others_rows() {
    let db = Db::new().await;
    let elsewhere = new_database().await;
    let beside = builder(&db.name).table("Order".parse().unwrap());
    let far = builder(&elsewhere).table("User".parse().unwrap());
    let mut stores = vec![("here", &db.name, db.store.clone())];
    for (name, database, builder) in [("beside", &db.name, beside), ("far", &elsewhere, far)] {
        stores.push((name, database, builder.migrate().connect().await.expect("another outbox")));
    }
    let mut engines = Vec::new();
    for (name, database, store) in &stores {
        let recorder = Recorder::new();
        let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
        let outbox = Outbox::builder(store.clone(), routes).start().unwrap();
        let pool = MySqlPoolOptions::new().connect_with(server().database(database)).await.unwrap();
        // The same id in all, which is no duplicate.
        let mut tx = store.writer(&outbox).begin(&pool).await.unwrap();
        tx.write_all(events(&["same", name])).await.unwrap();
        tx.commit().await.unwrap();
        engines.push((name, outbox, recorder));
    }
    db.store.pause("fallback", "somebody").await.unwrap();
    for (name, outbox, recorder) in &engines {
        within_timeout("the engine is idle", outbox.idle()).await.unwrap();
        assert_eq!(set_of(recorder.ids()), set_of(["same", **name]));
        assert_eq!(recorder.count(), 2);
        outbox.shutdown().await;
    }
    for (name, _, store) in &stores {
        let stats = store.stats().await.unwrap();
        assert_eq!((stats.done, stats.paused.len()), (2, usize::from(*name == "here")), "{name}");
        store.close().await;
    }
    drop_database(&elsewhere).await;
    db.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    // S1
    #[test]
    #[ignore = "needs MariaDB: cargo xtask test"]
    fn name_is_refused_or_works_as_a_plain_name(
        table in prop_oneof!["[A-Za-z_][A-Za-z0-9_]{0,50}", "\\PC{0,8}", "(?i)(select|table|user|order|key|rows)", "[a-z]{48}"],
    ) {
        let Ok(table) = table.parse::<TableName>() else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let database = new_database().await;
            let store = builder(&database).table(table.clone()).migrate().connect().await;
            let store = store.unwrap_or_else(|error| panic!("{table}: {error:?}"));
            let pool = MySqlPoolOptions::new().connect_with(server().database(&database)).await.expect("a pool");
            let mut tx = plain_writer(&store).begin(&pool).await.expect("a transaction");
            tx.write_all(events(&["a", "b"])).await.expect("written");
            tx.commit().await.expect("committed");
            let recorder = Recorder::new();
            let purge = posthaste::config::PurgeConfig::default().with_on_done(posthaste::store::OnDone::Archive);
            let outbox = engine(&store, &recorder).purge(purge).start().expect("a good configuration");
            within_timeout("the engine is idle", outbox.idle()).await.expect("the store answers");
            assert_eq!((delivered(&recorder).len(), store.stats().await.expect("it works").archived), (2, 2));
            outbox.shutdown().await;
            store.close().await;
            pool.close().await;
            drop_database(&database).await;
        });
    }
}
