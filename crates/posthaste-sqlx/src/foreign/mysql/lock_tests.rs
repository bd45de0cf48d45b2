//! Tests of the table lock on MySQL: a vanished machine loses it, a connected one keeps it, and operators delay
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use posthaste_sql_writer::mysql::Flavour;
use posthaste_testkit::variable;
use sqlx::ConnectOptions as _;
use sqlx::mysql::MySqlConnectOptions;
use tokio::time::interval;

use super::MySqlServer;
use crate::foreign::Layout;
use crate::foreign::lock_session::LockSession;
use crate::foreign::lock_tests::{
    TestPlace, lock_of_a_silent_leader_is_free_again, row_written_at_another_time_is_not_read, run, shown,
    slow_queries_block_nothing,
};
use crate::foreign::server::Caller;
use crate::mysql::connection::Login;

const TABLE: &str = "CREATE TABLE outboxevent (id CHAR(36) PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL,
  aggregateid VARCHAR(255) NOT NULL, type VARCHAR(255) NOT NULL, payload JSON)";

/// A new database with a user.
async fn database(test: &str) -> TestPlace {
    let url = variable("POSTHASTE_TEST_MYSQL_URL");
    let options: MySqlConnectOptions = url.parse().expect("a good URL");
    let name = format!("{test}_{}", std::process::id());
    run(&mut options.connect().await.expect("a connection"), &format!("CREATE DATABASE {name}")).await;
    let options = options.database(&name);
    let (owner, port) = (Box::new(options.connect().await.expect("a connection")), options.get_port());
    let connect = Box::new(move |port: Option<u16>| {
        let options = options.clone();
        let options = port.map_or(options.clone(), |port| options.host("127.0.0.1").port(port));
        Arc::new(MySqlServer::new(&Login::new(options))) as Arc<_>
    });
    TestPlace { owner, schema: None, connect, port, drop: format!("DROP DATABASE {name}") }
}

/// The same with the table of the order service and one pending row.
async fn one_order(test: &str) -> TestPlace {
    let row = "INSERT INTO outbox VALUES (UUID(), 'Order', UUID(), 'Made', '{}', 'NEW', UTC_TIMESTAMP(6), NULL, NULL)";
    database(test).await.with(&[include_str!("../../../tests/layouts/mysql/order-service.sql"), row]).await
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn lock_of_a_leader_that_fell_silent_is_free_again() {
    let place = database("layout_lock").await.with(&[TABLE]).await;
    let limit = "SELECT CAST(@@SESSION.wait_timeout AS CHAR) AS shown";
    // The default of the server would be eight hours.
    lock_of_a_silent_leader_is_free_again(place, limit, "60", "SET SESSION wait_timeout = 1").await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn leader_that_polls_rarely_keeps_its_session() {
    let place = database("layout_pulse").await;
    let session = LockSession::new((place.connect)(None));
    let session = session.with_keepalive_interval(Duration::from_millis(500));
    let connection_id = "SELECT CAST(CONNECTION_ID() AS CHAR) AS shown";
    let mut used = session.take().await.expect("a session");
    run(&mut *used.open.session, "SET SESSION wait_timeout = 2").await;
    let before = shown(&mut *used.open.session, connection_id).await.expect("an id");
    used.give_back();
    // Twice as long as the server waits for a silent session.
    let mut seconds = interval(Duration::from_secs(1));
    for _ in 0..5 {
        seconds.tick().await;
    }
    let mut used = session.take().await.expect("a session");
    assert_eq!(shown(&mut *used.open.session, connection_id).await, Some(before));
    used.give_back();
    session.close().await;
    place.drop().await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn engine_of_a_foreign_table_does_not_wait_for_operators() {
    slow_queries_block_nothing(one_order("layout_questions").await, "SELECT SLEEP(60)").await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn new_row_with_the_key_of_a_claimed_one_is_not_read() {
    row_written_at_another_time_is_not_read(one_order("layout_keys").await).await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn slow_queries_of_a_foreign_table_are_cancelled_by_the_server() {
    let mut place = database("layout_limits").await.with(&[TABLE]).await;
    let table = place.open(Layout::debezium(), None).await;
    let version = shown(&mut *place.owner, "SELECT VERSION() AS shown").await.expect("a version");
    let limit = match Flavour::of(&version) {
        Flavour::MariaDb => "SELECT CAST(@@SESSION.max_statement_time * 1000 AS SIGNED) AS ms",
        _ => "SELECT CAST(@@SESSION.max_execution_time AS SIGNED) AS ms",
    };
    for (caller, expected) in [(Caller::Operator, 15_000), (Caller::Engine, 0)] {
        let rows = table.query(caller, limit.to_owned(), Vec::new()).await.expect("a result");
        assert_eq!(rows[0].number("ms").expect("a number"), Some(expected), "{caller:?}");
    }
    table.close().await;
    place.drop().await;
}
