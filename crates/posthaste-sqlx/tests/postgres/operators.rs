//! Operators' questions that take too long.

use posthaste::Admin as _;

use crate::support::*;

/// What nobody waits for any more must not go on for hours.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn question_that_takes_too_long_is_ended_by_the_server() {
    let db = Db::new().await;
    let mut tx = db.pool.begin().await.expect("a transaction");
    sqlx::raw_sql("LOCK TABLE outbox_event IN ACCESS EXCLUSIVE MODE").execute(&mut *tx).await.unwrap();
    let error = within_timeout("an end", db.store.stats()).await.expect_err("nobody waits for ever");
    assert!(format!("{error:?}").contains("57014"), "{error:?}");
    drop(tx);
    db.close().await;
}
