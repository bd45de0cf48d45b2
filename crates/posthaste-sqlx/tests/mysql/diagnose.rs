//! Diagnosis of an outbox on MySQL or MariaDB and of its server. Each test causes the finding.

use std::time::Duration;

use posthaste::admin::Tolerance;
use posthaste_sqlx::MySqlStore;
use sqlx::{Connection as _, MySqlConnection};

use crate::support::*;

crate::cases::diagnose::diagnose_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn disabled_index_is_found_and_the_advice_repairs_it() {
    let db = Db::new().await;
    let hidden = if is_mariadb().await { "IGNORED" } else { "INVISIBLE" };
    db.execute(&format!("ALTER TABLE outbox_event ALTER INDEX outbox_event_phase {hidden}")).await;
    let findings = diagnosed(&db.store).await;
    let finding = assert_found(&findings, "unused-index", &["outbox_event_phase", hidden]);
    db.execute(&statement_of(finding, "let it be used again: ")).await;
    assert_eq!(diagnosed(&db.store).await, []);
    db.close().await;
}

/// Findings about the whole server, on a server of the test, which has its own time zone.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn transaction_that_delays_clean_up_is_found_with_its_session() {
    let server = OwnServer::start().await;
    let store = MySqlStore::builder(&options_of(&server)).migrate().connect().await.unwrap();
    assert_eq!(diagnosed(&store).await, []);
    let mut forgotten = MySqlConnection::connect_with(&options_of(&server)).await.unwrap();
    let id: u64 = sqlx::query_scalar("SELECT CONNECTION_ID()").fetch_one(&mut forgotten).await.unwrap();
    sqlx::raw_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT").execute(&mut forgotten).await.unwrap();
    sqlx::raw_sql("SELECT COUNT(*) FROM outbox_event").execute(&mut forgotten).await.unwrap();
    let mut busy = MySqlConnection::connect_with(&options_of(&server)).await.unwrap();
    for n in 0..20 {
        let insert = "INSERT INTO outbox_event (event_id, event_type, payload) VALUES (?, 'T', '{}')";
        sqlx::query(insert).bind(n.to_string()).execute(&mut busy).await.unwrap();
        sqlx::query("UPDATE outbox_event SET attempts = attempts + 1").execute(&mut busy).await.unwrap();
    }
    assert_eq!(diagnosed(&store).await, [], "a short transaction is tolerated");
    let strict = Tolerance::default().with_transaction(Duration::ZERO).with_dead_rows(0);
    let mut findings = Vec::new();
    // The server refreshes its list of transactions only if no query has read it for a tenth of a second.
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    within_timeout("the server shows both", async {
        while findings.len() != 2 {
            ticks.tick().await;
            findings = diagnosed_with(&store, strict.clone()).await;
        }
    })
    .await;
    let who = format!("the connection {id} (user \"root\"");
    let words = [&*who, "Sleep", "has had a transaction open for", &*format!("KILL {id}")];
    let finding = assert_found(&findings, "open-transaction", &words);
    assert!(!finding.what.contains("open for 5h"), "a time zone is no age: {finding:?}");
    assert_found(&findings, "purge-lag", &["history list length", "innodb_trx"]);
    store.close().await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn limits_of_connections_are_found_before_they_are_reached() {
    let db = Db::new().await;
    let findings = diagnosed_with(&db.store, Tolerance::default().with_used(0)).await;
    assert_found(&findings, "connection-limit", &["connections of the server are taken", "max_connections"]);
    let login = Login::with_connections(2).await;
    let options = login.options.clone().database(&db.name);
    let mut other = MySqlConnection::connect_with(&options).await.unwrap();
    let store = MySqlStore::connect(&options).await.unwrap();
    other.ping().await.unwrap();
    let findings = diagnosed(&store).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_found(&findings, "connection-limit", &["2 of the 2 connections of the user are taken"]);
    store.close().await;
    other.close().await.unwrap();
    login.remove().await;
    db.close().await;
}
