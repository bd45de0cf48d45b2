//! Operators at work while a table is slow to answer.

use posthaste::Admin as _;

use crate::support::*;

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn slow_questions_do_not_keep_operators_from_pausing() {
    let db = Db::new().await;
    let mut tx = db.pool.begin().await.expect("a transaction");
    sqlx::raw_sql("LOCK TABLE outbox_event IN ACCESS EXCLUSIVE MODE").execute(&mut *tx).await.unwrap();
    let ask = || {
        let store = db.store.clone();
        tokio::spawn(async move { store.stats().await })
    };
    let questions = [ask(), ask(), ask()];
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE '{}: %'",
        db.schema
    );
    wait_until("two questions wait", async || db.int(&waiting).await == 2).await;
    assert!(db.store.pause("mail", "ann").await.expect("a pause"));
    assert!(db.store.resume("mail", "ann").await.expect("a resumption"));
    tx.rollback().await.expect("the lock goes");
    for question in questions {
        drop(question.await.expect("no panic"));
    }
    db.close().await;
}

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
