//! The Writer on MySQL and MariaDB: transactions that the server ends, by a deadlock or by a statement that commits
//! implicitly.

use posthaste::CommitError;
use posthaste_sqlx::MySqlTx;
use sqlx::Executor as _;

use crate::cases::writer::Fixture;
use crate::support::*;

crate::cases::writer::writer_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);

/// With two orders to lock.
async fn fixture() -> Fixture {
    let w = Fixture::new().await;
    w.db.execute("ALTER TABLE orders ADD total INT NOT NULL").await;
    w.db.execute("INSERT INTO orders VALUES (1, 0), (2, 0)").await;
    w
}

/// Makes the server choose this transaction as the victim of a deadlock, during a statement whose error is ignored.
async fn deadlock(w: &Fixture, victim: &mut MySqlTx) {
    let mut other = w.db.pool.begin().await.expect("a transaction");
    // The server rolls back the transaction that has changed less.
    for id in 10..30 {
        other.execute(sqlx::query("INSERT INTO orders VALUES (?, 0)").bind(id)).await.expect("inserted");
    }
    other.execute("UPDATE orders SET total = 2 WHERE id = 2").await.expect("done");
    victim.execute("UPDATE orders SET total = 1 WHERE id = 1").await.expect("done");
    let (victims, others) = tokio::join!(
        victim.execute("UPDATE orders SET total = 1 WHERE id = 2"),
        other.execute("UPDATE orders SET total = 2 WHERE id = 1"),
    );
    others.expect("the other one continues");
    let error = victims.expect_err("a deadlock");
    assert!(error.to_string().contains("Deadlock"), "{error}");
    other.rollback().await.expect("done");
}

/// The driver's own COMMIT returns `Ok`.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn transaction_that_a_deadlock_rolled_back_delivers_nothing_although_commit_returns_ok() {
    let w = fixture().await;
    let mut tx = w.begin().await;
    tx.write(event("undone")).await.unwrap();
    deadlock(&w, &mut tx).await;
    let result = tx.commit().await;
    assert!(matches!(result, Err(CommitError::RolledBack(_))), "{result:?}");
    assert_eq!(w.log.lines().last().unwrap(), "after_rollback undone");

    let mut tx = w.db.pool.begin().await.unwrap();
    let receipt = w.writer.insert(&mut tx, event("undone-2")).await.unwrap();
    tx.execute("ROLLBACK").await.unwrap();
    tx.commit().await.expect("the driver believes it");
    w.outbox.committed(receipt);

    w.write("kept").await;
    assert_eq!(w.delivered().await, ["kept"]);
    assert_eq!(w.db.ids().await, ["kept"]);
    w.close().await;
}

/// A later write would be committed on its own, without the changes of the service.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn write_after_a_deadlock_is_refused() {
    let w = fixture().await;
    let mut tx = w.begin().await;
    deadlock(&w, &mut tx).await;
    assert_no_transaction(tx.write(event("invented")).await);
    assert_no_transaction(tx.write_all(events(&["invented-2", "invented-3"])).await);
    let result = tx.commit().await;
    assert!(matches!(result, Err(CommitError::Unknown(_))), "{result:?}");
    assert!(w.delivered().await.is_empty());
    assert!(w.db.ids().await.is_empty());
    assert_eq!(w.db.int("SELECT total FROM orders WHERE id = 1").await, 0);
    w.close().await;
}

/// Two transactions that wait for each other's ids: the deadlock hits an INSERT of the Writer.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn write_after_a_deadlock_in_a_write_is_refused() {
    let w = fixture().await;
    let (mut one, mut other) = (w.begin().await, w.begin().await);
    one.write(event("a")).await.unwrap();
    other.write(event("b")).await.unwrap();
    let (first, second) = tokio::join!(one.write(event("b")), other.write(event("a")));
    let (mut victim, winner) = match (first.is_err(), second.is_err()) {
        (true, false) => (one, other),
        (false, true) => (other, one),
        both => panic!("one of them is the victim: {both:?}"),
    };
    assert_no_transaction(victim.write(event("invented")).await);
    let result = victim.commit().await;
    assert!(matches!(result, Err(CommitError::RolledBack(_))), "{result:?}");
    winner.commit().await.unwrap();
    let delivered = w.delivered().await;
    assert_eq!(delivered.len(), 2, "{delivered:?}");
    assert_eq!(set_of(w.db.ids().await), set_of(delivered));
    assert!(!w.db.ids().await.contains(&"invented".to_owned()));
    w.close().await;
}

/// A statement that creates a table commits everything before it.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn event_committed_by_a_ddl_statement_is_delivered_and_none_follows_it() {
    let w = fixture().await;
    let mut tx = w.begin().await;
    tx.write(event("committed")).await.unwrap();
    tx.execute("CREATE TABLE surprise (id INT)").await.unwrap();
    assert_no_transaction(tx.write(event("outside")).await);
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["committed"]);
    w.close().await;
}

/// The second transaction waits for the first one and then finds its id.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn id_that_another_transaction_commits_meanwhile_is_a_no_op() {
    let w = fixture().await;
    let mut first = w.begin().await;
    let mut second = w.begin().await;
    // Its snapshot of the table is older than the row.
    second.execute("SELECT * FROM outbox_event").await.unwrap();
    first.write(event("same")).await.unwrap();
    let wait = tokio::spawn(async move {
        let ids = second.write_all(events(&["same", "other"])).await;
        (ids, second.commit().await)
    });
    wait_until("the second one waits", async || {
        let waiting =
            "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'INSERT INTO `outbox%'";
        w.db.int(waiting).await > 0
    })
    .await;
    first.commit().await.unwrap();
    let (ids, committed) = within_timeout("the second one continues", wait).await.unwrap();
    assert_eq!(ids.unwrap().len(), 2);
    committed.unwrap();
    assert_eq!(w.delivered().await, ["other", "same"]);
    w.close().await;
}

/// A duplicate key in another table does not mean that the event exists already.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn duplicate_key_in_a_trigger_of_the_service_is_an_error() {
    let w = fixture().await;
    let trigger =
        "CREATE TRIGGER mine BEFORE INSERT ON outbox_event FOR EACH ROW INSERT INTO orders VALUES (1, 1)";
    w.db.execute(trigger).await;
    let mut tx = w.begin().await;
    let refused = tx.write(event("a")).await.expect_err("the trigger fails");
    assert!(format!("{refused:?}").contains("Duplicate entry"), "{refused:?}");
    drop(tx);
    w.close().await;
}
