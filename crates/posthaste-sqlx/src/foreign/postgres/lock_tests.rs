//! Tests of the table lock on PostgreSQL: a vanished machine loses it, and operators delay nothing.

use std::sync::Arc;

use posthaste_testkit::variable;
use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;

use super::PgServer;
use crate::foreign::Layout;
use crate::foreign::lock_tests::{
    TestPlace, lock_of_a_silent_leader_is_free_again, row_written_at_another_time_is_not_read, run, shown,
    slow_queries_block_nothing,
};
use crate::postgres::connection::Login;

const TABLE: &str = "CREATE TABLE outboxevent (id UUID PRIMARY KEY, aggregatetype TEXT NOT NULL,
  aggregateid TEXT NOT NULL, type TEXT NOT NULL, payload JSONB)";

/// A new schema.
async fn schema(test: &str) -> TestPlace {
    let url = variable("POSTHASTE_TEST_POSTGRES_URL");
    let options: PgConnectOptions = url.parse().expect("a good URL");
    let mut owner = Box::new(options.connect().await.expect("a connection"));
    let name = format!("{test}_{}", std::process::id());
    for text in [format!("CREATE SCHEMA {name}"), format!("SET search_path = {name}")] {
        run(&mut *owner, &text).await;
    }
    let (schema, port) = (name.parse().ok(), options.get_port());
    let connect = Box::new(move |port: Option<u16>| {
        let options = options.clone();
        let options = port.map_or(options.clone(), |port| options.host("127.0.0.1").port(port));
        Arc::new(PgServer::new(&Login::new(options))) as Arc<_>
    });
    TestPlace { owner, schema, connect, port, drop: format!("DROP SCHEMA {name} CASCADE") }
}

/// The same with the table of the order service and one pending row.
async fn one_order(test: &str) -> TestPlace {
    let row = "INSERT INTO outbox VALUES (gen_random_uuid(), 'Order', gen_random_uuid(), 'Made', '{}', 'NEW', now())";
    schema(test).await.with(&[include_str!("../../../tests/layouts/postgres/order-service.sql"), row]).await
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn server_soon_checks_that_the_leader_is_alive() {
    let place = schema("layout_signs").await.with(&[TABLE]).await;
    let table = place.open(Layout::debezium(), None).await;
    let mut guard = table.session.take().await.expect("a session");
    for (setting, expected) in [
        ("tcp_keepalives_idle", "10"),
        ("tcp_keepalives_interval", "5"),
        ("tcp_keepalives_count", "3"),
        ("tcp_user_timeout", "25000"),
    ] {
        let query = format!("SELECT current_setting('{setting}') AS shown");
        let shown = shown(&mut *guard.open.session, &query).await;
        assert_eq!(shown.as_deref(), Some(expected), "{setting}");
    }
    drop(guard);
    place.drop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn lock_of_a_leader_that_fell_silent_is_free_again() {
    let place = schema("layout_lock").await.with(&[TABLE]).await;
    let limit = "SELECT current_setting('idle_session_timeout', true) AS shown";
    lock_of_a_silent_leader_is_free_again(place, limit, "1min", "SET idle_session_timeout = '1s'").await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn engine_of_a_foreign_table_does_not_wait_for_operators() {
    slow_queries_block_nothing(one_order("layout_questions").await, "SELECT pg_sleep(60)::text").await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn new_row_with_the_key_of_a_claimed_one_is_not_read() {
    row_written_at_another_time_is_not_read(one_order("layout_keys").await).await;
}
