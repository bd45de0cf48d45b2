//! Runs the programs on PostgreSQL that are not web services as processes.

use std::process::{Command, Output};
use std::time::Duration;

use posthaste::{Outbox, Recorder, Route, Routes};
use posthaste_sqlx::PgStore;
use posthaste_testkit::within_timeout;
use sqlx::PgPool;

use crate::support::Database;

const TWO_DATABASES: &str = env!("CARGO_BIN_EXE_two_postgres_databases");
const DIESEL_ASYNC: &str = env!("CARGO_BIN_EXE_diesel_async");
const TOKIO_POSTGRES: &str = env!("CARGO_BIN_EXE_tokio_postgres");
const WRITER_ONLY: &str = env!("CARGO_BIN_EXE_writer_only");

async fn run(program: &'static str, variables: Vec<(&'static str, String)>) -> Output {
    let output =
        move || Command::new(program).env_clear().envs(variables).output().expect("the program runs");
    tokio::task::spawn_blocking(output).await.expect("no panic")
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn program_without_a_database_names_the_variable_it_needs() {
    for program in
        [TWO_DATABASES, WRITER_ONLY, TOKIO_POSTGRES, DIESEL_ASYNC, env!("CARGO_BIN_EXE_axum_postgres")]
    {
        let output = run(program, Vec::new()).await;
        assert!(!output.status.success());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("DATABASE_URL is not set: name a PostgreSQL database"), "{error}");
    }
}

// S3-23
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn each_database_delivers_the_events_of_its_own_transactions() {
    let (europe, america) = (Database::create().await, Database::create().await);
    let both = vec![("DATABASE_URL", europe.url()), ("DATABASE_URL_US", america.url())];

    let first = printed(&run(TWO_DATABASES, both.clone()).await);
    let second = printed(&run(TWO_DATABASES, both).await);

    let mut lines: Vec<&str> = first.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["eu: welcome, ada", "us: welcome, bob"]);
    assert_eq!(second, "", "the accounts are there already");
    assert_eq!(owners_in_the_outbox(&europe).await, ["ada"]);
    assert_eq!(owners_in_the_outbox(&america).await, ["bob"]);
    europe.remove().await;
    america.remove().await;
}

/// The owners in the payloads of the delivered events.
async fn owners_in_the_outbox(database: &Database) -> Vec<String> {
    let pool = PgPool::connect_with(database.options()).await.expect("the database is up");
    let query = "SELECT payload::json ->> 'owner' FROM outbox_event WHERE status = 1 ORDER BY seq";
    let owners = sqlx::query_scalar(query).fetch_all(&pool).await.expect("a table");
    pool.close().await;
    owners
}

// S3-23, S3-130
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn event_of_one_process_is_delivered_by_another_immediately_and_purged_by_age() {
    let database = Database::create().await;
    let seen = Recorder::new();
    let store = PgStore::builder(&database.options()).migrate().connect().await.unwrap();
    let routes = Routes::new().add(Route::event("OrderPlaced").deliver_to(seen.clone()));
    let lease = Duration::from_secs(30);
    // Polls only when it is notified.
    let hour = Duration::from_secs(3600);
    let relay = Outbox::builder(store.clone(), routes).lease(lease).poll_interval(hour).start().unwrap();
    let pool = PgPool::connect_with(database.options()).await.unwrap();
    within_timeout("the relay listens", has_listener(&pool)).await;
    relay.idle().await.unwrap();

    let first = run(WRITER_ONLY, vec![("DATABASE_URL", database.url())]).await;
    assert_eq!(printed(&first), "order 1 is placed\npurged: 0\n");
    within_timeout("NOTIFY wakes the relay", seen.wait_for(1)).await;
    relay.idle().await.unwrap();

    let age = "UPDATE outbox_event SET inserted_at = inserted_at - interval '8 days'";
    sqlx::query(age).execute(&pool).await.unwrap();
    let second = run(WRITER_ONLY, vec![("DATABASE_URL", database.url())]).await;
    assert_eq!(printed(&second), "order 2 is placed\npurged: 1\n");

    within_timeout("NOTIFY wakes the relay", seen.wait_for(2)).await;
    relay.shutdown().await;
    store.close().await;
    pool.close().await;
    database.remove().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn order_of_another_driver_is_delivered_and_one_that_was_rolled_back_is_not() {
    let database = Database::create().await;
    let output = printed(&run(TOKIO_POSTGRES, vec![("DATABASE_URL", database.url())]).await);
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, [r#"delivered: {"item":"tea"}"#, "sold out: coffee"]);
    // A second order in the same outbox.
    let output = printed(&run(DIESEL_ASYNC, vec![("DATABASE_URL", database.url())]).await);
    assert_eq!(output, "delivered: {\"item\":\"tea\"}\n");
    database.remove().await;
}

async fn has_listener(pool: &PgPool) {
    let query = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND state = 'idle' AND query LIKE 'LISTEN %'";
    while sqlx::query_scalar::<_, i64>(query).fetch_one(pool).await.expect("a number") == 0 {}
}
