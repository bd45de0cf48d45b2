//! Slow queries of operators.

use posthaste::Admin as _;

use crate::support::*;

/// A query whose caller has given up must not run for hours.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn slow_query_is_cancelled_by_the_server() {
    let db = Db::new().await;
    let mut tx = db.pool.begin().await.expect("a transaction");
    sqlx::raw_sql("LOCK TABLE outbox_event IN ACCESS EXCLUSIVE MODE").execute(&mut *tx).await.unwrap();
    let error = within_timeout("an end", db.store.stats()).await.expect_err("the query is cancelled");
    assert!(format!("{error:?}").contains("57014"), "{error:?}");
    drop(tx);
    db.close().await;
}
