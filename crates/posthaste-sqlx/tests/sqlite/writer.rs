//! The Writer on SQLite: transactions that end without the driver's knowledge, and databases in files and in memory.

use posthaste::{CommitError, Outbox, Routes, StoreError};
use sqlx::Executor as _;

use crate::cases::writer::Fixture;
use crate::support::*;

crate::cases::writer::writer_tests!();
crate::cases::refused_commit::refused_commit_tests!();

/// The number of a rolled back row is assigned again to the next row of any client.
#[tokio::test]
async fn event_of_a_rolled_back_savepoint_is_not_taken_for_a_foreign_row_that_has_its_number_now() {
    let w = Fixture::new().await;
    let mut tx = w.begin().await;
    tx.execute("SAVEPOINT mine").await.unwrap();
    tx.write(event("undone")).await.unwrap();
    tx.execute("ROLLBACK TO mine").await.unwrap();
    let by_hand =
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('by-hand', 'Tested', '{}')";
    tx.execute(by_hand).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.delivered().await, ["by-hand"]);
}

// S0-23, S2-14, S3-24
#[tokio::test]
async fn nothing_is_written_by_a_transaction_that_was_ended_by_text() {
    let w = Fixture::new().await;
    for end in ["ROLLBACK", "COMMIT"] {
        let mut tx = w.db.pool.begin().await.unwrap();
        tx.execute(end).await.unwrap();
        assert_no_transaction(w.writer.insert(&mut tx, event("b")).await);
        assert_no_transaction(w.writer.insert_all(&mut tx, events(&["c", "d"])).await);
        drop(tx);
        // A new pool for each, because the driver does not notice that its transaction has ended.
        let own = Writer::new(&w.db.store, &w.outbox);
        let pool = sqlx::SqlitePool::connect_with(w.db.options.clone()).await.unwrap();
        let mut tx = own.begin(&pool).await.unwrap();
        tx.execute(end).await.unwrap();
        assert_no_transaction(tx.write(event("e")).await);
    }
    assert!(w.db.ids().await.is_empty());
}

#[tokio::test]
async fn commit_of_a_transaction_that_was_ended_behind_its_back_says_what_is_known() {
    let w = Fixture::new().await;
    let mut tx = w.begin().await;
    tx.write(event("undone")).await.unwrap();
    tx.execute("ROLLBACK").await.unwrap();
    let result = tx.commit().await;
    assert!(matches!(result, Err(CommitError::RolledBack(_))), "{result:?}");
    assert_eq!(w.log.lines().last().unwrap(), "after_rollback undone");

    let mut tx = w.begin().await;
    tx.write(event("committed")).await.unwrap();
    tx.execute("COMMIT").await.unwrap();
    let result = tx.commit().await;
    assert!(matches!(result, Err(CommitError::Unknown(_))), "{result:?}");
    assert!(!w.log.lines().iter().any(|line| line.ends_with("commit committed")), "{:?}", w.log.lines());
    within_timeout("the poller delivers it", w.recorder.wait_for(1)).await;
    assert_eq!(delivered(&w.recorder), ["committed"]);
}

/// The driver still counts a transaction that SQLite has ended by itself.
#[tokio::test]
async fn pool_is_usable_after_a_transaction_was_ended_behind_its_back() {
    let w = Fixture::with_pool(1).await;
    w.db.execute("INSERT INTO orders VALUES (1)").await;
    for end in ["ROLLBACK", "COMMIT", "INSERT OR ROLLBACK INTO orders VALUES (1)"] {
        for commits in [true, false] {
            let mut tx = w.begin().await;
            let _ = tx.execute(end).await;
            if commits {
                let _ = tx.commit().await;
            }
        }
    }
    w.write("kept").await;
    assert_eq!(w.delivered().await, ["kept"]);
}

/// A file can have several names, and all of them are accepted.
#[cfg(unix)]
#[tokio::test]
async fn pool_of_the_same_file_by_another_name_is_accepted() {
    let w = Fixture::new().await;
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(w.db.path(), &link).unwrap();
    let path = w.db.path();
    let folder = w.db.dir.path().join("..").join(w.db.dir.path().file_name().unwrap());
    let roundabout = folder.join(path.file_name().unwrap());
    for (id, name) in [("link", link), ("roundabout", roundabout)] {
        let pool = sqlx::SqlitePool::connect_with(w.db.options.clone().filename(&name)).await.unwrap();
        let mut tx = w.writer.begin(&pool).await.unwrap();
        tx.write(event(id)).await.unwrap();
        tx.commit().await.unwrap();
        pool.close().await;
    }
    assert_eq!(w.db.ids().await, ["link", "roundabout"]);
}

#[tokio::test]
async fn databases_in_memory_are_told_apart() {
    let memory = async || {
        let pool = sqlx::SqlitePool::connect("sqlite::memory:").await.unwrap();
        let store = posthaste_sqlx::SqliteStore::builder(&pool.connect_options()).migrate().connect().await;
        (pool, store.unwrap())
    };
    let ((pool, store), (other, _other_store)) = (memory().await, memory().await);
    let outbox = Outbox::builder(store.clone(), Routes::new()).writer_only().build().unwrap();
    let writer = Writer::new(&store, &outbox);
    let mut tx = writer.begin(&pool).await.unwrap();
    tx.write(event("kept")).await.unwrap();
    tx.commit().await.unwrap();
    let refused = writer.begin(&other).await.expect_err("it is another one");
    assert!(matches!(refused, StoreError::OtherDatabase { .. }), "{refused:?}");
    let w = Fixture::new().await;
    let refused = writer.begin(&w.db.pool).await.expect_err("it is a file");
    assert!(refused.to_string().contains("test.db"), "{refused}");
}
