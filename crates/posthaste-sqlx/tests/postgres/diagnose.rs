//! Diagnosis of an outbox on PostgreSQL and of its server. Each test causes the finding.

use std::time::Duration;

use posthaste::Admin as _;
use posthaste::admin::{Severity, Tolerance};
use posthaste_sqlx::{OpenError, PgStore};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::support::*;

crate::cases::diagnose::diagnose_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn declared_pooler_is_no_finding() {
    let db = Db::new().await;
    let declared = db.builder_on(&pgbouncer()).pgbouncer().connect().await.unwrap();
    assert_eq!(diagnosed(&declared).await, []);
    declared.close().await;
    db.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn dropped_key_is_found_and_the_advice_brings_it_back() {
    let db = Db::new().await;
    for key in ["seq", "id"] {
        db.execute(&format!("ALTER TABLE outbox_event DROP CONSTRAINT outbox_event_{key}_key")).await;
        let findings = diagnosed(&db.store).await;
        let finding =
            assert_found(&findings, "missing-index", &[&format!("outbox_event_{key}_key is missing")]);
        for statement in statement_of(finding, "create it again: ").split(", then ") {
            db.execute(statement).await;
        }
        assert_eq!(diagnosed(&db.store).await, [], "{key}");
    }
    db.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn invalid_index_is_found_and_the_advice_rebuilds_it() {
    let db = Db::new().await;
    // What a cancelled CREATE INDEX CONCURRENTLY leaves behind.
    db.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outbox_event_due'::regclass")
        .await;
    let findings = diagnosed(&db.store).await;
    let finding = assert_found(&findings, "unused-index", &["outbox_event_due", "INVALID"]);
    db.execute(&statement_of(finding, "build it again: ")).await;
    assert_eq!(diagnosed(&db.store).await, []);
    db.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn index_that_the_planner_does_not_use_is_found() {
    let db = Db::new().await;
    db.execute("DROP INDEX outbox_event_due; CREATE INDEX outbox_event_due ON outbox_event (event_type)")
        .await;
    let findings = diagnosed(&db.store).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    let finding = assert_found(&findings, "unused-index", &["outbox_event_due", "Scan", "migrate print"]);
    assert_eq!(finding.severity, Severity::Problem);
    db.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn dead_rows_without_vacuum_are_found_and_the_advice_repairs_it() {
    let db = Db::new().await;
    db.execute("ALTER TABLE outbox_event SET (autovacuum_enabled = off)").await;
    let mut updates = PgConnection::connect_with(&db.pool.connect_options()).await.unwrap();
    sqlx::raw_sql(
        "INSERT INTO outbox_event (event_id, event_type, payload) SELECT 'e' || n, 'T', '{}' FROM generate_series(1, 50) n;
         UPDATE outbox_event SET status = 1; UPDATE outbox_event SET attempts = 1; UPDATE outbox_event SET attempts = 2",
    )
    .execute(&mut updates)
    .await
    .unwrap();
    // A session reports its statistics when it ends.
    updates.close().await.unwrap();
    let strict = Tolerance::default().with_dead_rows(100);
    let mut findings = Vec::new();
    wait_until("the server has counted", async || {
        findings = diagnosed_with(&db.store, strict.clone()).await;
        !findings.is_empty()
    })
    .await;
    let words = ["has 150 dead rows and 50 live ones", "autovacuum is off for this table"];
    let finding = assert_found(&findings, "dead-tuples", &words);
    for statement in finding.advice.split(", then ") {
        db.execute(statement).await;
    }
    wait_until("they are cleaned up", async || diagnosed_with(&db.store, strict.clone()).await.is_empty())
        .await;
    db.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn claims_that_write_index_entries_are_found_and_the_advice_repairs_it() {
    let db = Db::new().await;
    db.execute(
        "ALTER TABLE outbox_event RESET (fillfactor);
         CREATE INDEX of_an_operator ON outbox_event (status, locked_by)",
    )
    .await;
    let findings = diagnosed(&db.store).await;
    assert_eq!(findings.len(), 2, "{findings:?}");
    for finding in &findings {
        assert_eq!((finding.code, finding.severity), ("expensive-claims", Severity::Warning));
        db.execute(finding.advice.rsplit(": ").next().unwrap()).await;
    }
    assert!(diagnosed(&db.store).await.is_empty());
    db.close().await;
}

/// The server's clock, as this store sees it, is an hour ahead.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn clocks_that_are_apart_are_found() {
    let db = Db::new().await;
    db.execute(
        "CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql
           RETURN pg_catalog.clock_timestamp() + interval '1 hour'",
    )
    .await;
    let path = format!("{},pg_catalog", db.schema);
    let options = server().options([("search_path", &*path)]);
    let store = PgStore::builder(&options).schema(db.schema.clone()).connect().await.unwrap();
    let mut findings = diagnosed(&store).await;
    // By such a clock, transactions of other tests look old.
    findings.retain(|finding| finding.code != "open-transaction");
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_found(&findings, "clock-skew", &["this machine is 59m 59s behind the store's", "NTP"]);
    store.close().await;
    db.close().await;
}

/// A store that is not configured for the pooler, which has two server connections.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn pooler_in_transaction_mode_is_found() {
    let db = Db::new().await;
    let pooled = pgbouncer().extra_float_digits(None);
    let builder = PgStore::builder(&pooled).schema(db.schema.clone()).read_only();
    let mut store = None;
    // If another client has prepared its statements in the same server session, opening fails and reports the pooler.
    wait_until("it opens", async || match builder.clone().connect().await {
        Ok(opened) => store.replace(opened).is_none(),
        Err(OpenError::Pooler { .. }) => false,
        Err(error) => panic!("{error}"),
    })
    .await;
    let store = store.unwrap();
    for _ in 0..5 {
        let findings = diagnosed(&store).await;
        let finding =
            assert_found(&findings, "pgbouncer", &["transaction mode", "--pgbouncer", "pgbouncer = true"]);
        assert_eq!(finding.severity, Severity::Problem);
    }
    store.close().await;
    db.close().await;
}

/// Findings about the whole server, on a server of the test.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn session_that_holds_back_vacuum_is_found_with_its_user() {
    let mut server = OwnServer::start().await;
    let store = PgStore::builder(&options_of(&server)).migrate().connect().await.unwrap();
    let setting = "ALTER SYSTEM SET max_prepared_transactions = 5";
    let mut connection = PgConnection::connect_with(&options_of(&server)).await.unwrap();
    sqlx::raw_sql(setting).execute(&mut connection).await.unwrap();
    drop(connection);
    server.restart(ServerShutdown::Fast).await;
    wait_until("the store is back", async || store.diagnose(&Tolerance::default()).await.is_ok()).await;
    assert_eq!(diagnosed(&store).await, []);

    let options = options_of(&server).application_name("report");
    let mut forgotten = PgConnection::connect_with(&options).await.unwrap();
    let text = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox_event";
    sqlx::raw_sql(text).execute(&mut forgotten).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut forgotten).await.unwrap();
    assert_eq!(diagnosed(&store).await, [], "a short transaction is tolerated");
    let strict = Tolerance::default().with_transaction(Duration::ZERO);
    let findings = diagnosed_with(&store, strict.clone()).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    let who = format!(
        "the process {pid} of PostgreSQL (user \"postgres\", application \"report\", idle in transaction)"
    );
    let end = format!("SELECT pg_terminate_backend({pid})");
    assert_found(&findings, "open-transaction", &[&who, "has had a transaction open for", "since 20", &end]);
    drop(forgotten);
    wait_until("the session is gone", async || diagnosed_with(&store, strict.clone()).await.is_empty()).await;

    let mut prepared = PgConnection::connect_with(&options_of(&server)).await.unwrap();
    let text = "BEGIN; DELETE FROM outbox_event; PREPARE TRANSACTION 'left''over'";
    sqlx::raw_sql(text).execute(&mut prepared).await.unwrap();
    let findings = diagnosed_with(&store, strict.clone()).await;
    let finding =
        assert_found(&findings, "open-transaction", &["PREPARE TRANSACTION \"left'over\"", "\"postgres\""]);
    let rollback = statement_of(finding, "COMMIT PREPARED or ");
    sqlx::raw_sql(AssertSqlSafe(rollback)).execute(&mut prepared).await.unwrap();
    assert_eq!(diagnosed_with(&store, strict).await, []);
    store.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn limits_of_a_server_are_found_before_they_are_reached() {
    let server = OwnServer::start().await;
    let store = PgStore::builder(&options_of(&server)).migrate().connect().await.unwrap();
    assert_eq!(diagnosed(&store).await, []);
    let mut connection = PgConnection::connect_with(&options_of(&server)).await.unwrap();
    let mut run = async |text: &str| {
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
    };
    run("ALTER ROLE postgres CONNECTION LIMIT 3; ALTER DATABASE postgres CONNECTION LIMIT 2").await;
    let findings = diagnosed(&store).await;
    assert_found(
        &findings,
        "connection-limit",
        &["of the 2 connections of the database are taken", "ALTER DATABASE"],
    );
    run("ALTER DATABASE postgres CONNECTION LIMIT -1; ALTER ROLE postgres CONNECTION LIMIT 2").await;
    let findings = diagnosed(&store).await;
    assert_found(
        &findings,
        "connection-limit",
        &["of the 2 connections of the user are taken", "ALTER ROLE"],
    );
    run("ALTER ROLE postgres CONNECTION LIMIT -1").await;
    assert_eq!(diagnosed(&store).await, []);
    let none_borne = Tolerance::default().with_used(0);
    let findings = diagnosed_with(&store, none_borne.clone()).await;
    assert_found(&findings, "connection-limit", &["connections of the server are taken", "max_connections"]);
    assert!(found(&findings, "notify-queue").is_none(), "{findings:?}");

    // A session that listens and then stays in a transaction.
    let mut deaf = PgConnection::connect_with(&options_of(&server)).await.unwrap();
    sqlx::raw_sql("LISTEN outbox_event").execute(&mut deaf).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT 1").execute(&mut deaf).await.unwrap();
    for _ in 0..20 {
        run("SELECT pg_notify('outbox_event', repeat('x', 7000) || random())").await;
    }
    let findings = diagnosed_with(&store, none_borne).await;
    assert_found(
        &findings,
        "notify-queue",
        &["the queue of NOTIFY", "a listening session stays in a transaction"],
    );
    store.close().await;
}

/// A replica can be diagnosed too. If it disappears, its slot stays.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn replication_slot_without_a_replica_is_found() {
    let server = OwnServer::start().await;
    let store = PgStore::builder(&options_of(&server)).migrate().connect().await.unwrap();
    let mut connection = PgConnection::connect_with(&options_of(&server)).await.unwrap();
    let slot = "SELECT pg_create_physical_replication_slot('replica')";
    sqlx::raw_sql(slot).execute(&mut connection).await.unwrap();
    let replica = server.start_replica("replica").await;
    let looking = PgStore::builder(&options_of(&replica)).read_only().connect().await.unwrap();
    assert_eq!(diagnosed(&looking).await, []);
    wait_until("the replica has said what it needs", async || {
        let needs = "SELECT count(*) FROM pg_replication_slots WHERE xmin IS NOT NULL";
        sqlx::query_scalar::<_, i64>(needs).fetch_one(&mut connection).await.unwrap() == 1
    })
    .await;
    assert_eq!(diagnosed(&store).await, []);
    looking.close().await;
    drop(replica);
    let mut findings = Vec::new();
    wait_until("the server sees that it is gone", async || {
        findings = diagnosed(&store).await;
        !findings.is_empty()
    })
    .await;
    let words =
        ["the replication slot \"replica\"", "holds back vacuum", "pg_drop_replication_slot('replica')"];
    assert_found(&findings, "replication-slot", &words);
    store.close().await;
}
