//! Tests: the server finds out that whoever had the lock of a table has vanished, and operators hold nothing up.

use posthaste_testkit::proxy::BlackHole;
use posthaste_testkit::variable;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection, Postgres};

use super::PgForeignTable;
use crate::foreign::Layout;
use crate::foreign::foreign_table::ForeignTable as _;
use crate::foreign::foreign_table::tests::{
    leads, row_of_another_time_is_not_read, slow_questions_hold_nothing_up, takes_over,
};
use crate::postgres::connection::Login;
use crate::sql::ready;

const TABLE: &str = "CREATE TABLE outboxevent (id UUID PRIMARY KEY, aggregatetype TEXT NOT NULL,
  aggregateid TEXT NOT NULL, type TEXT NOT NULL, payload JSONB)";

/// A schema of its own with a table, and its owner.
async fn schema(test: &str) -> (PgConnectOptions, PgConnection, String) {
    let url = variable("POSTHASTE_TEST_POSTGRES_URL");
    let options: PgConnectOptions = url.parse().expect("a good URL");
    let mut owner = options.connect().await.expect("a connection");
    let name = format!("{test}_{}", std::process::id());
    for text in [&*format!("CREATE SCHEMA {name}"), &*format!("SET search_path = {name}"), TABLE] {
        run(&mut owner, text).await;
    }
    (options, owner, name)
}

async fn run(connection: &mut PgConnection, text: &str) {
    ready::<Postgres>(&text.into()).execute(connection).await.expect("the server does it");
}

async fn open(options: &PgConnectOptions, schema: &str) -> PgForeignTable {
    open_as(options, schema, Layout::debezium()).await
}

async fn open_as(options: &PgConnectOptions, schema: &str, layout: Layout) -> PgForeignTable {
    let table_ref = posthaste_sql_writer::TableRef::new(layout.table_name().clone());
    let table_ref = table_ref.in_schema(schema.parse().expect("a good name"));
    PgForeignTable::open(&Login(options.clone()), &table_ref, &layout, false).await.expect("the table opens")
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn server_asks_soon_whether_the_leader_is_there() {
    let (options, mut owner, name) = schema("layout_signs").await;
    let table = open(&options, &name).await;
    let mut session = table.session.take().await.expect("a session");
    for (setting, expected) in [
        ("tcp_keepalives_idle", "10"),
        ("tcp_keepalives_interval", "5"),
        ("tcp_keepalives_count", "3"),
        ("tcp_user_timeout", "25000"),
    ] {
        let shown = sqlx::query_scalar("SELECT current_setting($1)").bind(setting);
        let shown: String = shown.fetch_one(&mut session.open.connection).await.expect("a setting");
        assert_eq!(shown, expected, "{setting}");
    }
    drop(session);
    run(&mut owner, &format!("DROP SCHEMA {name} CASCADE")).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn lock_of_a_leader_that_fell_silent_is_free_again() {
    let (options, mut owner, name) = schema("layout_lock").await;
    let shown = "SELECT current_setting('idle_session_timeout', true)";
    let known: Option<String> = sqlx::query_scalar(shown).fetch_one(&mut owner).await.expect("an answer");
    let proxy = BlackHole::before(options.get_port()).await;
    let first = open(&options.clone().host("127.0.0.1").port(proxy.port()), &name).await;
    let second = open(&options, &name).await;
    assert!(leads(&first).await && !leads(&second).await);
    if known.is_some() {
        let mut session = first.session.take().await.expect("a session");
        let set: String =
            sqlx::query_scalar(shown).fetch_one(&mut session.open.connection).await.expect("a setting");
        assert_eq!(set, "1min");
        // The same sooner: nobody waits a minute for a test.
        run(&mut session.open.connection, "SET idle_session_timeout = '1s'").await;
        session.give_back();
        proxy.swallow();
        takes_over(&second).await;
    }
    second.close().await;
    run(&mut owner, &format!("DROP SCHEMA {name} CASCADE")).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn engine_of_a_foreign_table_does_not_wait_for_operators() {
    let (table, mut owner, name) = one_order("layout_questions").await;
    slow_questions_hold_nothing_up(table, "SELECT pg_sleep(60)::text").await;
    run(&mut owner, &format!("DROP SCHEMA {name} CASCADE")).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn row_with_the_key_of_one_that_was_to_be_claimed_is_not_read_for_it() {
    let (table, mut owner, name) = one_order("layout_keys").await;
    row_of_another_time_is_not_read(&table).await;
    run(&mut owner, &format!("DROP SCHEMA {name} CASCADE")).await;
}

/// The table of the order service with a row that waits, in a schema of its own.
async fn one_order(test: &str) -> (PgForeignTable, PgConnection, String) {
    let (options, mut owner, name) = schema(test).await;
    let table = include_str!("../../../tests/layouts/postgres/order-service.sql");
    let row = "INSERT INTO outbox VALUES (gen_random_uuid(), 'Order', gen_random_uuid(), 'Made', '{}', 'NEW', now())";
    for text in table.split_terminator(';').filter(|text| !text.trim().is_empty()).chain([row]) {
        run(&mut owner, text).await;
    }
    (open_as(&options, &name, Layout::order_service()).await, owner, name)
}
