//! Tests: the server finds out that whoever had the lock of a table has vanished, who is there keeps it, and operators
//! hold nothing up.

use std::time::Duration;

use posthaste_sql_writer::mysql::Flavour;
use posthaste_testkit::proxy::BlackHole;
use posthaste_testkit::variable;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{ConnectOptions as _, MySql, MySqlConnection};
use tokio::time::interval;

use super::MySqlForeignTable;
use crate::foreign::Layout;
use crate::foreign::foreign_table::tests::{
    leads, row_of_another_time_is_not_read, slow_questions_hold_nothing_up, takes_over,
};
use crate::foreign::foreign_table::{BoundQuery, Caller, ForeignTable as _};
use crate::foreign::lock_session::{LockSession, SessionGuard};
use crate::mysql::connection::Login;
use crate::sql::ready;

const TABLE: &str = "CREATE TABLE outboxevent (id CHAR(36) PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL,
  aggregateid VARCHAR(255) NOT NULL, type VARCHAR(255) NOT NULL, payload JSON)";

/// A database of its own with a table, and its owner.
async fn database(test: &str) -> (MySqlConnectOptions, MySqlConnection, String) {
    let url = variable("POSTHASTE_TEST_MYSQL_URL");
    let options: MySqlConnectOptions = url.parse().expect("a good URL");
    let mut owner = options.connect().await.expect("a connection");
    let name = format!("{test}_{}", std::process::id());
    run(&mut owner, &format!("CREATE DATABASE {name}")).await;
    let options = options.database(&name);
    run(&mut options.connect().await.expect("a connection"), TABLE).await;
    (options, owner, name)
}

async fn run(connection: &mut MySqlConnection, text: &str) {
    ready::<MySql>(&text.into()).execute(connection).await.expect("the server does it");
}

async fn open(options: &MySqlConnectOptions) -> MySqlForeignTable {
    open_as(options, Layout::debezium()).await
}

async fn open_as(options: &MySqlConnectOptions, layout: Layout) -> MySqlForeignTable {
    let table_ref = posthaste_sql_writer::TableRef::new(layout.table_name().clone());
    MySqlForeignTable::open(&Login(options.clone()), &table_ref, &layout, false)
        .await
        .expect("the table opens")
}

async fn number(session: &mut SessionGuard<'_, MySql>, text: &'static str) -> i64 {
    sqlx::query_scalar(text).fetch_one(&mut session.open.connection).await.expect("a number")
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn lock_of_a_leader_that_fell_silent_is_free_again() {
    let (options, mut owner, name) = database("layout_lock").await;
    let proxy = BlackHole::before(options.get_port()).await;
    let first = open(&options.clone().host("127.0.0.1").port(proxy.port())).await;
    let second = open(&options).await;
    assert!(leads(&first).await && !leads(&second).await);
    let mut session = first.session.take().await.expect("a session");
    let patience = number(&mut session, "SELECT CAST(@@SESSION.wait_timeout AS SIGNED)").await;
    assert_eq!(patience, 60, "the server's own would be eight hours");
    // The same sooner: nobody waits a minute for a test.
    run(&mut session.open.connection, "SET SESSION wait_timeout = 1").await;
    session.give_back();

    proxy.swallow();
    takes_over(&second).await;
    second.close().await;
    run(&mut owner, &format!("DROP DATABASE {name}")).await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn leader_that_polls_seldom_keeps_its_session() {
    let (options, mut owner, name) = database("layout_pulse").await;
    let session = LockSession::<MySql>::new(options, &["SET SESSION wait_timeout = 2"]);
    let session = session.with_keepalive_interval(Duration::from_millis(500));
    let mut used = session.take().await.expect("a session");
    let before = number(&mut used, "SELECT CAST(CONNECTION_ID() AS SIGNED)").await;
    used.give_back();
    // Twice as long as the server waits for somebody who is silent.
    let mut seconds = interval(Duration::from_secs(1));
    for _ in 0..5 {
        seconds.tick().await;
    }
    let mut used = session.take().await.expect("a session");
    assert_eq!(number(&mut used, "SELECT CAST(CONNECTION_ID() AS SIGNED)").await, before);
    used.give_back();
    session.close().await;
    run(&mut owner, &format!("DROP DATABASE {name}")).await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn engine_of_a_foreign_table_does_not_wait_for_operators() {
    let (table, mut owner, name) = one_order("layout_questions").await;
    slow_questions_hold_nothing_up(table, "SELECT SLEEP(60)").await;
    run(&mut owner, &format!("DROP DATABASE {name}")).await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn row_with_the_key_of_one_that_was_to_be_claimed_is_not_read_for_it() {
    let (table, mut owner, name) = one_order("layout_keys").await;
    row_of_another_time_is_not_read(&table).await;
    run(&mut owner, &format!("DROP DATABASE {name}")).await;
}

/// The table of the order service with a row that waits, in a database of its own.
async fn one_order(test: &str) -> (MySqlForeignTable, MySqlConnection, String) {
    let (options, owner, name) = database(test).await;
    let mut connection = options.connect().await.expect("a connection");
    let table = include_str!("../../../tests/layouts/mysql/order-service.sql");
    let row = "INSERT INTO outbox VALUES (UUID(), 'Order', UUID(), 'Made', '{}', 'NEW', UTC_TIMESTAMP(6), NULL, NULL)";
    for text in [table.trim_end().trim_end_matches(';'), row] {
        run(&mut connection, text).await;
    }
    (open_as(&options, Layout::order_service()).await, owner, name)
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn questions_about_a_foreign_table_are_ended_by_the_server() {
    let (options, mut owner, name) = database("layout_limits").await;
    let table = open(&options).await;
    let version: String =
        sqlx::query_scalar("SELECT VERSION()").fetch_one(&mut owner).await.expect("a version");
    let limit = match Flavour::of(&version) {
        Flavour::MariaDb => "SELECT CAST(@@SESSION.max_statement_time * 1000 AS SIGNED) AS ms",
        Flavour::MySql => "SELECT CAST(@@SESSION.max_execution_time AS SIGNED) AS ms",
    };
    for (caller, expected) in [(Caller::Operator, 15_000), (Caller::Engine, 0)] {
        let rows = table.query(caller, BoundQuery::new(limit.to_owned())).await.expect("an answer");
        assert_eq!(rows[0].number("ms").expect("a number"), Some(expected), "{caller:?}");
    }
    table.close().await;
    run(&mut owner, &format!("DROP DATABASE {name}")).await;
}
