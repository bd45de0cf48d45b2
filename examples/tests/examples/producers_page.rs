//! Tests the page about producers: it shows the programs unchanged, and its SQL runs with the privileges that it
//! grants.

use std::time::{SystemTime, UNIX_EPOCH};

use posthaste::{Outbox, Recorder, Route, Routes, Store};
use posthaste_sqlx::{MySqlStore, PgStore};
use posthaste_testkit::variable;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, PgConnection};

use crate::support::Database;

const PAGE: &str = include_str!("../../../docs/producers.md");

/// The code blocks of the page in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    PAGE.split(&*fence).skip(1).map(|rest| rest.split_once("```").expect("the block ends").0).collect()
}

/// The SQL for a database: the grants to `user`, and the statements that this user executes.
fn sql(database: &str, user: &str) -> (String, String) {
    let names_it = |block: &&str| block.lines().next().is_some_and(|label| label.contains(database));
    let (rights, written): (Vec<&str>, Vec<&str>) =
        blocks("sql").into_iter().filter(names_it).partition(|block| block.contains("GRANT"));
    (rights.concat().replace("TO shop", &format!("TO {user}")), written.concat())
}

/// A name that no other test uses.
fn fresh_user() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    format!("writer_{}", now.as_nanos())
}

/// Delivers what is due; returns the ids.
async fn delivered(store: impl Store) -> Vec<String> {
    let seen = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(seen.clone()));
    let relay = Outbox::builder(store, routes).start().expect("it starts");
    relay.idle().await.expect("the store works");
    relay.shutdown().await;
    let mut ids: Vec<String> = seen.ids().iter().map(|id| id.as_str().to_owned()).collect();
    ids.sort_unstable();
    ids
}

/// All events of the page except the one that is due in an hour.
const DUE_EVENT_IDS: [&str; 2] = ["019a8f3e-7c51-7d2a-9b1e-6f0c2d4a8e17", "order-17-paid"];

const ORDERS_TABLE_SQL: &str = "CREATE TABLE orders (id int, item text)";

#[test]
fn page_shows_the_programs_unchanged() {
    for (language, program) in [
        ("python", include_str!("../../producers/python/place_order.py")),
        ("js", include_str!("../../producers/node/place_order.js")),
        ("go", include_str!("../../producers/go/main.go")),
        ("java", include_str!("../../producers/java/PlaceOrder.java")),
    ] {
        let [block] = blocks(language)[..] else { panic!("one block in {language}") };
        // Code inside a class is indented there.
        let indented = format!("    {}\n", block.trim_end().replace('\n', "\n    ").replace("    \n", "\n"));
        assert!(program.contains(block) || program.contains(&indented), "{block}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn minimal_privileges_are_enough_for_the_page_on_postgres() {
    let database = Database::create().await;
    let store = PgStore::builder(&database.options()).migrate().connect().await.unwrap();
    let mut connection = PgConnection::connect_with(&database.options()).await.unwrap();
    let user = fresh_user();
    let (rights, written) = sql("PostgreSQL", &user);
    for statements in [
        format!("{ORDERS_TABLE_SQL}; CREATE ROLE {user}; GRANT INSERT ON orders TO {user}; {rights}"),
        format!("SET ROLE {user}; {written}"),
    ] {
        sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut connection).await.expect("the statements run");
    }

    assert_eq!(delivered(store.clone()).await, DUE_EVENT_IDS);

    let forget = format!("RESET ROLE; DROP OWNED BY {user}; DROP ROLE {user}");
    sqlx::raw_sql(AssertSqlSafe(forget)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    store.close().await;
    database.remove().await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn minimal_privileges_are_enough_for_the_page_on_mysql() {
    let url = variable("POSTHASTE_TEST_MYSQL_URL");
    let server: MySqlConnectOptions = url.parse().expect("a URL");
    let mut root = MySqlConnection::connect_with(&server).await.expect("the server is up");
    // The database has the same name as its user.
    let user = fresh_user();
    let (rights, written) = sql("MySQL", &user);
    let create = format!("CREATE DATABASE {user}; USE {user}; CREATE USER {user}; {ORDERS_TABLE_SQL}");
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut root).await.expect("a database");
    let store = MySqlStore::builder(&server.clone().database(&user)).migrate().connect().await.unwrap();
    let grant = format!("GRANT INSERT ON orders TO {user}; {rights}");
    sqlx::raw_sql(AssertSqlSafe(grant)).execute(&mut root).await.expect("rights");

    let writer = MySqlConnectOptions::new().host(server.get_host()).port(server.get_port());
    let writer = writer.username(&user).database(&user);
    let mut connection = MySqlConnection::connect_with(&writer).await.expect("the writer may connect");
    sqlx::raw_sql(AssertSqlSafe(written)).execute(&mut connection).await.expect("the statements run");
    connection.close().await.unwrap();

    assert_eq!(delivered(store.clone()).await, DUE_EVENT_IDS);

    store.close().await;
    let forget = format!("DROP DATABASE {user}; DROP USER {user}");
    sqlx::raw_sql(AssertSqlSafe(forget)).execute(&mut root).await.unwrap();
    root.close().await.unwrap();
}
