//! The Writer on PostgreSQL.

use posthaste::{Source, StoreError, WriteError};
use sqlx::Executor as _;

use crate::cases::writer::Fixture;
use crate::support::*;

crate::cases::writer::writer_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);
crate::cases::refused_commit::refused_commit_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);

/// In an aborted raw transaction the check for a transaction fails, which must not be taken for "no transaction".
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn insert_into_an_aborted_raw_transaction_fails_with_the_error_of_the_server() {
    let w = Fixture::new().await;
    let mut connection = w.db.pool.acquire().await.unwrap();
    connection.execute("BEGIN").await.unwrap();
    let _ = connection.execute("SELECT 1/0").await.expect_err("a wrong statement");
    let error = w.writer.insert(&mut connection, event("a")).await.expect_err("aborted");
    assert!(matches!(error, WriteError::Store(StoreError::Backend { .. })), "{error:?}");
    assert!(format!("{error:?}").contains("25P02"), "{error:?}");
    connection.execute("ROLLBACK").await.unwrap();
    drop(connection);
    assert!(w.db.ids().await.is_empty());
    w.close().await;
}

/// The clock of a transaction shows the time of its beginning: a lease that counted from there would have expired
/// before the commit.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn born_leased_row_counts_from_its_statement_and_not_from_the_start_of_its_transaction() {
    let w = Fixture::new().await;
    let mut tx = w.begin().await;
    tx.execute("SELECT pg_sleep(1.5)").await.unwrap();
    tx.write(event("single")).await.unwrap();
    tx.write_all(events(&["batch-1", "batch-2"])).await.unwrap();
    let late = "SELECT count(*) FROM outbox_event WHERE locked_by IS NOT NULL
        AND least(locked_at, inserted_at, available_at, lease_until - interval '10 seconds')
          > now() + interval '1.4 seconds'";
    let late: i64 = sqlx::query_scalar(late).fetch_one(&mut *tx).await.unwrap();
    assert_eq!(late, 3, "all of them, by all their times");
    tx.commit().await.unwrap();
    within_timeout("the hot path delivers", w.recorder.wait_for(3)).await;
    assert!(w.recorder.deliveries().iter().all(|delivery| delivery.source == Source::Hot));
    w.close().await;
}

/// Shards often have the same database name.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn database_of_the_same_name_on_another_server_is_refused() {
    let db = Db::new().await;
    let another = OwnServer::start().await;
    let other = db.builder_on(&options_of(&another)).migrate().connect().await.expect("the store opens");
    let pool = pool_in(&db.schema, options_of(&another), 1).await;
    let mut tx = db.plain_writer().begin(&pool).await.unwrap();
    let refused = tx.write(event("lost")).await.expect_err("it is another server").to_string();
    for port in [server().get_port(), another.port()] {
        assert!(refused.contains(&format!("postgres on 127.0.0.1:{port}")), "{refused}");
    }
    drop(tx);
    pool.close().await;
    other.close().await;
    db.close().await;
}
