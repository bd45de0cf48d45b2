//! Tests of the Writer on SeaORM beyond the Writer conformance suite.

use posthaste::{Admin as _, BoxError, CommitError, Event, EventId, Outbox, Recorder, Route, Routes};
use posthaste_sea_orm::{SeaTx, SeaWriter};
use posthaste_sql_writer::{Postgres, Sqlite, WriterContext};
use posthaste_sqlx::{PgStore, SqliteStore};
use posthaste_testkit::{drop_after, variable};
use sea_orm::{ConnectionTrait as _, Database, DatabaseConnection, TransactionTrait as _};

use crate::support::{connect, new_name};

async fn pool_of_one() -> DatabaseConnection {
    connect(&variable("POSTHASTE_TEST_POSTGRES_URL"), 1, None).await
}

// F36
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn dropped_begin_leaves_no_transaction_behind() {
    let (db, writer) =
        (pool_of_one().await, SeaWriter::from_context(WriterContext::<Postgres>::writer_only().build()));
    let mut dropped = 0;
    for round in 0..2_000 {
        dropped += usize::from(drop_after(fastrand::usize(1..6), writer.begin(&db)).await.is_none());
        // PostgreSQL refuses a savepoint outside a transaction, so this must fail.
        let savepoint = db.execute_unprepared("SAVEPOINT mine").await;
        assert!(savepoint.is_err(), "round {round} left a transaction open");
        if dropped == 250 {
            return;
        }
    }
    // A fast server replies to many calls before they are dropped.
    assert!(dropped >= 25, "only {dropped} calls were dropped");
}

#[tokio::test]
async fn writer_context_of_another_database_is_refused() {
    let db = Database::connect("sqlite::memory:").await.unwrap();
    let writer = SeaWriter::from_context(WriterContext::<Postgres>::writer_only().build());
    let refused = writer.begin(&db).await.expect_err("SQLite is not PostgreSQL");
    assert!(format!("{refused:?}").contains("the outbox is on Postgres"), "{refused:?}");
}

/// An error of the closure rolls back and reaches the caller unchanged.
#[tokio::test]
async fn closure_that_fails_rolls_back() {
    let db = connect("sqlite::memory:", 1, None).await;
    db.execute_unprepared("CREATE TABLE orders (item TEXT)").await.unwrap();
    let writer = SeaWriter::from_context(WriterContext::<Sqlite>::writer_only().build());
    let result = writer.transaction(&db, async |tx: &SeaTx| {
        tx.execute_unprepared("INSERT INTO orders VALUES ('tea')").await?;
        tx.write(Event::json("OrderPlaced", &17)?).await?;
        Ok::<_, BoxError>(())
    });
    let error = result.await.expect_err("there is no outbox table");
    assert!(format!("{error:?}").contains("outbox_event"), "{error:?}");
    let rows = sea_orm::Statement::from_string(db.get_database_backend(), "SELECT * FROM orders");
    assert!(db.query_one_raw(rows).await.unwrap().is_none());
}

/// A nested transaction that is open during a write contains the event.
#[tokio::test]
async fn event_of_a_nested_transaction_that_is_rolled_back_later_is_never_delivered() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}?mode=rwc", dir.path().join("shop.db").display());
    let store = SqliteStore::builder(&url.parse().unwrap()).migrate().connect().await.unwrap();
    let db = Database::connect(&url).await.unwrap();
    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let outbox = Outbox::builder(store.clone(), routes).single_node().start().unwrap();
    let writer = SeaWriter::new(&store, &outbox);
    let tx = writer.begin(&db).await.unwrap();
    let nested = tx.begin().await.unwrap();
    tx.write(Event::builder("Tested").id("undone").json_text("{}").build().unwrap()).await.unwrap();
    nested.rollback().await.unwrap();
    tx.write(Event::builder("Tested").id("kept").json_text("{}").build().unwrap()).await.unwrap();
    tx.commit().await.unwrap();
    outbox.shutdown().await;
    assert_eq!(recorder.ids().iter().map(ToString::to_string).collect::<Vec<_>>(), ["kept"]);
}

/// Only the server itself can report a violated constraint. PgBouncer reports the other code for a server that it has
/// lost, which may have committed.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn commit_is_reported_as_rolled_back_only_if_the_server_itself_refused_it() {
    let (url, schema) = (variable("POSTHASTE_TEST_POSTGRES_URL"), new_name());
    let builder = PgStore::builder(&url.parse().unwrap()).schema(schema.parse().unwrap());
    builder.migrate().connect().await.unwrap().close().await;
    let db = connect(&url, 1, Some(&schema)).await;
    db.execute_unprepared(
        "CREATE TABLE failing (code text);
         CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = NEW.code; END $$;
         CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON failing DEFERRABLE INITIALLY DEFERRED
           FOR EACH ROW EXECUTE FUNCTION fail()",
    )
    .await
    .unwrap();
    let writer = SeaWriter::from_context(
        WriterContext::<Postgres>::writer_only().schema(schema.parse().unwrap()).build(),
    );
    for (code, is_rolled_back) in [("23514", true), ("08P01", false)] {
        let tx = writer.begin(&db).await.unwrap();
        tx.execute_unprepared(&format!("INSERT INTO failing VALUES ('{code}')")).await.unwrap();
        tx.write(Event::json("OrderPlaced", &17).unwrap()).await.unwrap();
        match tx.commit().await {
            Err(CommitError::RolledBack(_)) => assert!(is_rolled_back, "{code}: the outcome is unknown"),
            Err(CommitError::Unknown(_)) => assert!(!is_rolled_back, "{code}: the server refused it"),
            result => panic!("{code}: {result:?}"),
        }
    }
    db.execute_unprepared(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}

/// Written once for the transactions of all drivers.
async fn place(mut tx: impl posthaste::writer::Tx, id: &str) -> Result<(), BoxError> {
    tx.write(Event::builder("Tested").id(id).json_text("{}").build()?).await?;
    Ok(tx.commit().await?)
}

#[tokio::test]
async fn function_over_any_transaction_takes_one_of_sea_orm() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}?mode=rwc", dir.path().join("shop.db").display());
    let store = SqliteStore::builder(&url.parse().unwrap()).migrate().connect().await.unwrap();
    let outbox = Outbox::builder(store.clone(), Routes::new()).writer_only().build().unwrap();
    let db = Database::connect(&url).await.unwrap();

    place(SeaWriter::new(&store, &outbox).begin(&db).await.unwrap(), "placed").await.unwrap();

    assert!(store.get(&EventId::from("placed")).await.unwrap().is_some());
}
