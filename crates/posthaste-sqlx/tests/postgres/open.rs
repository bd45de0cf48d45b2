//! Opening an outbox on PostgreSQL: what is refused and with which advice, and migrations.

use std::error::Error;
use std::fmt::Debug;
use std::process::Stdio;

use posthaste::{Admin as _, Recorder, StoreError};
use posthaste_sqlx::postgres::PgStoreBuilder;
use posthaste_sqlx::{OpenError, PgStore, SchemaName, SchemaState, TableName};
use proptest::prelude::*;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _};

use crate::support::log::Log;
use crate::support::*;

const SECRET: &str = "s3ntinel-PW-9f";

/// A schema in which this was executed.
async fn schema_with(sql: &str) -> SchemaName {
    let schema = new_schema();
    administer(&format!(r#"CREATE SCHEMA "{schema}"; SET search_path = "{schema}"; {sql}"#)).await;
    schema
}

async fn administer(sql: &str) {
    let done = administrator().await.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn builder(schema: &SchemaName) -> PgStoreBuilder {
    PgStore::builder(&server()).schema(schema.clone())
}

/// Opens it both as it is and with migrations, and answers the error of each.
async fn errors_of(builder: PgStoreBuilder) -> [OpenError; 2] {
    let plain = builder.clone().connect().await.expect_err("it cannot be opened");
    [plain, builder.migrate().connect().await.expect_err("it cannot be migrated")]
}

/// Everything that is defined in a schema, without the schema's own name.
async fn contents(schema: &SchemaName) -> Vec<String> {
    let sql = "SELECT 'column ' || table_name || ' ' || column_name || ' ' || data_type || ' '
          || coalesce(column_default, '') || is_nullable || is_identity
        FROM information_schema.columns WHERE table_schema = $1
        UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = $1
        UNION ALL SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = $1::regnamespace
        UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = $1::regnamespace
        ORDER BY 1";
    let rows = sqlx::query_scalar(sql).bind(schema.as_str()).fetch_all(&mut administrator().await).await;
    let rows: Vec<String> = rows.expect("a schema");
    rows.iter().map(|row| row.replace(schema.as_str(), "…")).collect()
}

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
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn wrong_password_is_refused_and_stands_in_no_text() {
    let log = Log::of_thread();
    let options = server().username("with_password").password(SECRET);
    for error in errors_of(PgStore::builder(&options)).await {
        assert!(matches!(error, OpenError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("correct them in the URL"), "{error}");
        assert_no_secret("an error", &all_texts(&error));
    }
    assert_no_secret("the log", &log.text());
}

// S3
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn password_stands_in_no_text_of_what_was_opened_or_could_not_be() {
    let schema = new_schema();
    let role = format!("r{schema}");
    administer(&format!(r#"CREATE ROLE "{role}" LOGIN SUPERUSER PASSWORD '{SECRET}'"#)).await;
    let log = Log::of_thread();
    let options = server().username(&role).password(SECRET);
    let builder = PgStore::builder(&options).schema(schema.clone()).listen_on(&options);
    let store = builder.clone().migrate().connect().await.expect("the password is right");
    let outbox = engine(&store, &Recorder::new()).start().unwrap();
    let writer = store.writer(&outbox);
    let things: [(&str, &dyn Debug); 5] = [
        ("a builder", &builder),
        ("migrations", &builder.migrations()),
        ("a store", &store),
        ("a writer", &writer),
        ("an outbox", &outbox),
    ];
    for (what, thing) in things {
        assert_no_secret(what, &format!("{thing:?} {thing:#?}"));
    }
    let broken = [
        options.clone().database("there_is_none"),
        options.clone().host("nobody.invalid"),
        options.clone().port(1),
        options.clone().options([("no_such_setting", "1")]),
    ];
    for options in broken {
        for error in errors_of(PgStore::builder(&options).schema(schema.clone())).await {
            assert_no_secret("an error", &all_texts(&error));
        }
    }
    outbox.shutdown().await;
    store.stats().await.expect("it works");
    terminate(&format!("usename = '{role}'")).await;
    // The driver may notice in time that its session is gone.
    if let Err(error) = store.stats().await {
        assert_no_secret("an error", &all_texts(&error));
    }
    store.close().await;
    assert_no_secret("an error", &all_texts(&store.stats().await.expect_err("closed")));
    assert!(!log.text().is_empty(), "something was logged");
    assert_no_secret("the log", &log.text());
    drop_schema(&schema).await;
    administer(&format!(r#"DROP ROLE "{role}""#)).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn unknown_database_is_refused() {
    for error in errors_of(PgStore::builder(&server().database("there_is_none"))).await {
        assert!(matches!(error, OpenError::NoDatabase { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("there_is_none on 127.0.0.1") && text.contains("CREATE DATABASE"), "{text}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn server_that_is_not_there_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for options in [server().port(port), server().host("nobody.invalid"), server().socket("/nowhere")] {
        for error in errors_of(PgStore::builder(&options)).await {
            assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
            assert!(error.source().is_some(), "{error:?}");
        }
    }
    let error = PgStore::connect(&server().port(port)).await.unwrap_err().to_string();
    assert!(error.contains(&format!("postgres on 127.0.0.1:{port}")), "{error}");
}

/// Something answers, but it is no PostgreSQL.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn server_that_speaks_another_language_is_refused() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let web_server = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let _ =
                tokio::io::AsyncWriteExt::write_all(&mut client, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    for error in errors_of(PgStore::builder(&server().port(port))).await {
        assert!(!error.to_string().is_empty(), "{error:?}");
    }
    web_server.abort();
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn database_without_an_outbox_is_refused_and_left_alone() {
    let schema = schema_with("CREATE TABLE orders (id int PRIMARY KEY)").await;
    let before = contents(&schema).await;
    let error = builder(&schema).connect().await.expect_err("no outbox");
    assert!(matches!(error, OpenError::NoSchema { .. }), "{error:?}");
    assert!(error.to_string().contains(".migrate()"), "{error}");
    assert_eq!(contents(&schema).await, before);
    let missing = new_schema();
    let error = builder(&missing).connect().await.expect_err("no schema");
    assert!(matches!(error, OpenError::NoSchema { .. }), "{error:?}");
    drop_schema(&schema).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn newer_and_older_schemas_are_refused_with_advice() {
    let schema = new_schema();
    builder(&schema).migrate().connect().await.expect("an outbox").close().await;
    administer(&format!(r#"INSERT INTO "{schema}".outbox_event_schema VALUES (98, 'next', 1)"#)).await;
    builder(&schema).migrate().connect().await.expect("the next release lets this one work").close().await;
    administer(&format!(r#"INSERT INTO "{schema}".outbox_event_schema VALUES (99, 'future', 2)"#)).await;
    for error in errors_of(builder(&schema)).await {
        assert!(matches!(error, OpenError::NewerSchema { found: 99, .. }), "{error:?}");
        assert!(error.to_string().contains("newer release"), "{error}");
    }
    let state = builder(&schema).migrations().check().await.unwrap();
    assert_eq!(state, SchemaState::Newer { version: 99, latest: 1 });

    administer(&format!(r#"DELETE FROM "{schema}".outbox_event_schema"#)).await;
    let error = builder(&schema).connect().await.expect_err("from the past");
    assert!(matches!(error, OpenError::OldSchema { found: 0, needed: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("posthaste migrate apply"), "{error}");
    drop_schema(&schema).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn table_of_that_name_that_is_not_ours_is_refused_and_left_alone() {
    for sql in [
        "CREATE TABLE outbox_event (id int PRIMARY KEY, body text)",
        "CREATE VIEW outbox_event AS SELECT 1 AS id",
    ] {
        let schema = schema_with(sql).await;
        let before = contents(&schema).await;
        let adopted = builder(&schema).migrations().adopt().await;
        let [plain, migrated] = errors_of(builder(&schema)).await;
        for error in [plain, migrated, adopted.expect_err("somebody else's table")] {
            assert!(matches!(error, OpenError::ForeignTable { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("another table name") && text.contains("event_id"), "{text}");
        }
        assert_eq!(contents(&schema).await, before);
        drop_schema(&schema).await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn table_that_goes_away_under_a_store_is_named_and_can_come_back() {
    let db = Db::new().await;
    db.execute("DROP TABLE outbox_event CASCADE").await;
    let error = db.store.stats().await.expect_err("it is gone");
    let StoreError::Backend { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.to_string().contains("posthaste migrate apply"), "{source}");
    db.close().await;
}

/// As a replica answers, and a database that was told so.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn database_that_only_reads_is_refused_unless_one_only_looks() {
    let read_only = || server().options([("default_transaction_read_only", "on")]);
    let (fresh, ready) = (new_schema(), new_schema());
    builder(&ready).migrate().connect().await.expect("an outbox").close().await;
    let on = |schema: &SchemaName| PgStore::builder(&read_only()).schema(schema.clone());
    let errors = [
        on(&fresh).migrate().connect().await.unwrap_err(),
        on(&ready).migrate().connect().await.unwrap_err(),
        on(&ready).connect().await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, OpenError::ReadOnlyServer { .. }), "{error:?}");
        assert!(error.to_string().contains("connect to its primary"), "{error}");
    }
    let store = on(&ready).read_only().connect().await.expect("it can be read");
    assert_eq!(store.stats().await.unwrap().new, 0);
    let error = store.pause("orders", "me").await.expect_err("it cannot be written");
    assert!(error.source().expect("a source").to_string().contains("only reads"), "{error:?}");
    store.close().await;
    drop_schema(&ready).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn full_server_is_refused_with_advice() {
    let schema = new_schema();
    let role = format!("r{schema}");
    administer(&format!(r#"CREATE ROLE "{role}" LOGIN CONNECTION LIMIT 1"#)).await;
    let options: PgConnectOptions = server().username(&role);
    let held = options.connect().await.expect("the only one");
    for error in errors_of(PgStore::builder(&options).schema(schema.clone())).await {
        assert!(matches!(error, OpenError::NoConnectionLeft { .. }), "{error:?}");
        assert!(error.to_string().contains("PgBouncer"), "{error}");
    }
    drop(held);
    terminate(&format!("usename = '{role}'")).await;
    administer(&format!(r#"DROP ROLE "{role}""#)).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn database_with_another_encoding_is_refused_and_left_alone() {
    for encoding in ["SQL_ASCII", "LATIN1"] {
        let database = new_schema();
        administer(&format!(
            r#"CREATE DATABASE "{database}" ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"#
        ))
        .await;
        let options = server().database(database.as_str());
        for error in errors_of(PgStore::builder(&options)).await {
            assert!(matches!(&error, OpenError::Encoding(name) if name == encoding), "{error:?}");
            assert!(!error.to_string().contains("PRAGMA"), "that is SQLite's: {error}");
        }
        administer(&format!(r#"DROP DATABASE "{database}" WITH (FORCE)"#)).await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn migrations_are_idempotent() {
    let schema = new_schema();
    let migrations = builder(&schema).migrations();
    assert_eq!(migrations.check().await.unwrap(), SchemaState::Missing);
    let applied = migrations.apply().await.unwrap();
    assert_eq!(applied.iter().map(|step| step.version).collect::<Vec<_>>(), [1]);
    let before = contents(&schema).await;
    assert!(migrations.apply().await.unwrap().is_empty());
    assert!(migrations.adopt().await.unwrap().is_empty());
    builder(&schema).migrate().connect().await.expect("it opens").close().await;
    assert_eq!(contents(&schema).await, before);
    assert_eq!(migrations.check().await.unwrap(), SchemaState::Current { version: 1 });
    drop_schema(&schema).await;
}

/// A deployment in which every instance migrates when it starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn ten_instances_that_start_at_once_all_succeed_and_migrate_once() {
    for round in 0..3 {
        let schema = new_schema();
        let start = |_| tokio::spawn(builder(&schema).migrate().connect());
        for start in (0..10).map(start).collect::<Vec<_>>() {
            let opened = start.await.expect("no panic");
            let store = opened.unwrap_or_else(|error| panic!("round {round}: {error}: {error:?}"));
            store.stats().await.expect("it works");
            store.close().await;
        }
        let steps = format!(r#"SELECT count(*) FROM "{schema}".outbox_event_schema"#);
        let steps = sqlx::query_scalar::<_, i64>(AssertSqlSafe(steps));
        assert_eq!(steps.fetch_one(&mut administrator().await).await.unwrap(), 1, "applied once");
        drop_schema(&schema).await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn printed_migrations_make_the_same_schema() {
    let [applied, by_driver, by_psql] = [new_schema(), new_schema(), new_schema()];
    builder(&applied).migrate().connect().await.expect("an outbox").close().await;
    administer(&builder(&by_driver).migrations().sql()).await;
    let text = builder(&by_psql).migrations().sql();
    assert!(psql().arg("-c").arg(text).stdout(Stdio::null()).status().unwrap().success());
    for schema in [&by_driver, &by_psql] {
        assert_eq!(contents(schema).await, contents(&applied).await);
        let state = builder(schema).migrations().check().await.unwrap();
        assert_eq!(state, SchemaState::Current { version: 1 });
        builder(schema).connect().await.expect("it is an outbox").close().await;
    }
    for schema in [applied, by_driver, by_psql] {
        drop_schema(&schema).await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn migrations_of_the_service_are_not_touched() {
    let schema = schema_with(
        "CREATE TABLE _sqlx_migrations (version bigint PRIMARY KEY, description text NOT NULL);
         INSERT INTO _sqlx_migrations VALUES (20260101, 'orders')",
    )
    .await;
    builder(&schema).migrate().connect().await.expect("an outbox").close().await;
    let sql = format!(r#"SELECT version || description FROM "{schema}"._sqlx_migrations"#);
    let theirs: Vec<String> =
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut administrator().await).await.unwrap();
    assert_eq!(theirs, ["20260101orders"]);
    drop_schema(&schema).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn engine_recovers_by_itself_when_all_its_sessions_are_ended() {
    let db = Db::new().await;
    let recorder = Recorder::new();
    let outbox = db.engine(&recorder).poll_interval(std::time::Duration::from_millis(100)).start().unwrap();
    let writer = db.plain_writer();
    for round in 0..3 {
        let mut tx = writer.begin(&db.pool).await.unwrap();
        tx.write(event(&format!("event{round}"))).await.unwrap();
        tx.commit().await.unwrap();
        within_timeout("it is delivered", recorder.wait_for(round + 1)).await;
        wait_until("it is settled", async || {
            let done = db.int("SELECT count(*) FROM outbox_event WHERE status = 1").await;
            usize::try_from(done).is_ok_and(|done| done == round + 1)
        })
        .await;
        assert!(terminate(&format!("application_name LIKE '{}: posthaste%'", db.schema)).await > 0);
    }
    outbox.shutdown().await;
    db.close().await;
}

// S3-125
#[test]
fn schema_names_are_words_of_letters_digits_and_underscores() {
    let long = "x".repeat(SchemaName::MAX_CHARS);
    for good in ["public", "_", "A", "order", "SELECT", "a1", "xpg_", long.as_str()] {
        assert_eq!(good.parse::<SchemaName>().expect(good).as_str(), good);
    }
    let longer = "x".repeat(SchemaName::MAX_CHARS + 1);
    for bad in ["", "1a", "a b", "a\"b", "a;b", "a.b", "a-b", "é", "a\0", "pg_a", "PG_", longer.as_str()] {
        let error = bad.parse::<SchemaName>().expect_err(bad).to_string();
        assert!(error.contains("letters, digits"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    // S1, S2-25, S3-125
    #[test]
    fn hostile_name_is_refused(name in "\\PC*['\"`;\\-\\[\\]() .\\x00\u{ff}\u{430}]\\PC*") {
        prop_assert!(name.parse::<SchemaName>().is_err(), "{name:?}");
        prop_assert!(name.parse::<TableName>().is_err(), "{name:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    // S1
    #[test]
    #[ignore = "needs PostgreSQL: cargo xtask test"]
    fn name_is_refused_or_works_as_a_plain_name(
        table in prop_oneof!["[A-Za-z_][A-Za-z0-9_]{0,50}", "\\PC{0,8}", "(?i)(select|table|user|order|oid|ctid)", "[a-z]{48}"],
        rest in prop_oneof!["[A-Za-z0-9_]{0,30}", "[\"';. -]{1,3}", "[a-z]{35}"],
    ) {
        let (table, schema) = (table.parse::<TableName>(), format!("{}{rest}", new_schema()).parse::<SchemaName>());
        let (Ok(table), Ok(schema)) = (table, schema) else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let store = builder(&schema).table(table.clone()).migrate().connect().await;
            let store = store.unwrap_or_else(|error| panic!("{schema} {table}: {error:?}"));
            let pool = pool_in(&schema, server(), 1).await;
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
            drop_schema(&schema).await;
        });
    }
}
