//! Cancelled calls: on a pool of one connection, no borrower finds an open transaction of another, and exactly what is
//! stored is delivered.

use std::collections::BTreeSet;

use deadpool_postgres::Pool;
use posthaste::{BoxError, Outbox, Recorder, Route, Routes};
use posthaste_tokio_postgres::PgWriter;
use tokio_postgres::SimpleQueryMessage;

use crate::support::{Db, drop_after, event, wait_until};

const ROUNDS: usize = 400;

/// Uses the simple protocol, in which the clock of a statement is that of its transaction unless the transaction began
/// before.
async fn is_in_a_stale_transaction(pool: &Pool) -> bool {
    let client = pool.get().await.expect("a connection");
    let rows = client.simple_query("SELECT now() = statement_timestamp()").await.expect("the query works");
    let is_outside = rows.iter().any(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0) == Some("t"),
        _ => false,
    });
    !is_outside
}

async fn write(writer: &PgWriter, pool: &Pool, round: usize) -> Result<(), BoxError> {
    let mut client = pool.get().await?;
    let mut tx = writer.begin(&mut client).await?;
    let order = tx.batch_execute("INSERT INTO orders DEFAULT VALUES");
    let (order, written) = tokio::join!(order, tx.write(event(&format!("{round}-a"))));
    order?;
    written?;
    let savepoint = tx.savepoint().await?;
    savepoint.write(event(&format!("{round}-b"))).await?;
    savepoint.release().await?;
    tx.commit().await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn cancelled_calls_leave_no_transaction_to_the_next_borrower() {
    let db = Db::new().await;
    let recorder = Recorder::new();
    let routes = Routes::new().add(Route::fallback().deliver_to(recorder.clone()));
    let outbox =
        Outbox::builder(db.store.clone(), routes).single_node().start().expect("a valid configuration");
    let writer = PgWriter::new(&db.store, &outbox);
    let pool = db.pool(1);
    write(&writer, &pool, ROUNDS).await.expect("the first is not cancelled");

    let (mut stale, mut cancelled) = (0, 0);
    for round in 0..ROUNDS {
        match drop_after(fastrand::usize(1..12), write(&writer, &pool, round)).await {
            Some(result) => result.expect("a call that is not cancelled works"),
            None => cancelled += 1,
        }
        stale += usize::from(is_in_a_stale_transaction(&pool).await);
    }
    assert_eq!(stale, 0, "borrowers in a stale transaction, after {cancelled} cancelled calls");
    assert!(cancelled > ROUNDS / 4, "{cancelled} calls were cancelled");

    let stored: BTreeSet<String> = db.ids().await.into_iter().collect();
    assert_eq!(stored.len() as i64, 2 * db.int("SELECT count(*) FROM orders").await, "all or nothing");
    let delivered = || -> BTreeSet<String> { recorder.ids().iter().map(ToString::to_string).collect() };
    wait_until("everything that is stored is delivered", async || delivered() == stored).await;
    outbox.shutdown().await;
    db.close().await;
}
