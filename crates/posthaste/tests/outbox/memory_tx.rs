//! Transactions of the memory store: what is stored, what is dispatched and which hooks run, for every way in which a
//! transaction can end.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use posthaste::memory::{CommitFault, MemoryConnection, MemoryStore, MemoryTx};
use posthaste::writer::NewRow;
use posthaste::{
    BoxError, CommitError, Event, EventId, MemoryWriter, Outbox, Routes, StoreError, WriteError, WriterHook,
};
use posthaste_testkit::{HookCalls, event, events};

struct Fixture {
    store: MemoryStore,
    writer: MemoryWriter,
    log: HookCalls,
}

/// A store and a Writer without an engine, with a hook that records its calls.
fn fixture() -> Fixture {
    let (store, log) = (MemoryStore::new(), HookCalls::default());
    let outbox = Outbox::builder(store.clone(), Routes::new())
        .writer_only()
        .hook(log.clone())
        .build()
        .expect("a good configuration");
    Fixture { writer: MemoryWriter::new(&store, &outbox), store, log }
}

fn writer_with(store: &MemoryStore, hook: impl WriterHook) -> MemoryWriter {
    MemoryWriter::new(
        store,
        &Outbox::builder(store.clone(), Routes::new())
            .writer_only()
            .hook(hook)
            .build()
            .expect("a good configuration"),
    )
}

fn stored(store: &MemoryStore) -> Vec<String> {
    store.rows().into_iter().map(|row| row.id.to_string()).collect()
}

// S0-04, S2-01, S3-55
#[tokio::test]
async fn uncommitted_rows_are_not_visible() {
    let w = fixture();
    let mut tx = w.writer.begin().await.unwrap();
    tx.write(event("a")).await.unwrap();
    assert!(w.store.is_empty());
    tx.commit().await.unwrap();
    assert_eq!(w.store.len(), 1);
}

// S3-54
#[tokio::test]
async fn transformed_events_are_what_is_stored() {
    struct Rename;
    impl WriterHook for Rename {
        fn before_write(&self, events: Vec<Event>) -> Result<Vec<Event>, BoxError> {
            let rename = |event: Event| {
                let mut parts = event.to_parts();
                parts.event_type = "Renamed".into();
                Event::from_parts(parts)
            };
            Ok(events.into_iter().map(rename).collect())
        }
    }
    let store = MemoryStore::new();
    let mut tx = writer_with(&store, Rename).begin().await.unwrap();
    tx.write(event("a")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(store.rows()[0].event_type, "Renamed");
}

// S3-57
#[tokio::test]
async fn panicking_hooks_change_nothing() {
    struct Panics;
    impl WriterHook for Panics {
        fn after_write(&self, _: &[Event]) {
            panic!("after_write");
        }
        fn after_commit(&self, _: &[Event]) {
            panic!("after_commit");
        }
        fn after_rollback(&self, _: &[Event]) {
            panic!("after_rollback");
        }
    }
    let store = MemoryStore::new();
    let writer = writer_with(&store, Panics);
    let mut tx = writer.begin().await.unwrap();
    tx.write(event("a")).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = writer.begin().await.unwrap();
    tx.write(event("b")).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(stored(&store), ["a"]);
}

// S3-51: limits also apply to what a hook returns.
#[tokio::test]
async fn event_that_breaks_a_rule_is_refused_before_the_insert() {
    struct Blank;
    impl WriterHook for Blank {
        fn before_write(&self, events: Vec<Event>) -> Result<Vec<Event>, BoxError> {
            let mut parts = events[0].to_parts();
            parts.event_type = " ".into();
            Ok(vec![Event::from_parts(parts)])
        }
    }
    let store = MemoryStore::new();
    let mut tx = writer_with(&store, Blank).begin().await.unwrap();
    assert!(matches!(tx.write(event("a")).await, Err(WriteError::Event(_))));
}

#[tokio::test]
async fn second_of_two_commits_with_one_id_keeps_the_first() {
    let w = fixture();
    let (mut first, mut second) = (w.writer.begin().await.unwrap(), w.writer.begin().await.unwrap());
    first.write(event("a")).await.unwrap();
    second.write_all(events(&["a", "b"])).await.unwrap();
    let first_seq = 1;
    first.commit().await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(stored(&w.store), ["a", "b"]);
    assert_eq!(w.store.rows()[0].seq, first_seq);
    let lines = w.log.lines();
    assert_eq!(lines[lines.len() - 2..], ["after_rollback a", "after_commit b"], "its own insert vanished");
}

// T2: what a reader of `seq > last seen` would lose.
#[tokio::test]
async fn late_commit_appears_behind_rows_that_came_after_it() {
    let w = fixture();
    let (mut early, mut late) = (w.writer.begin().await.unwrap(), w.writer.begin().await.unwrap());
    early.write(event("early")).await.unwrap();
    late.write(event("late")).await.unwrap();
    late.commit().await.unwrap();
    assert_eq!(stored(&w.store), ["late"]);
    early.commit().await.unwrap();
    assert_eq!(stored(&w.store), ["early", "late"]);
}

/// The behaviour of PostgreSQL, which makes the proof necessary.
#[tokio::test]
async fn raw_commit_of_an_aborted_transaction_returns_ok_and_stores_nothing() {
    let store = MemoryStore::new();
    let mut connection = store.connect();
    connection.begin().await.unwrap();
    connection.insert(&[NewRow::new(event("a"))]).await.unwrap();
    connection.abort();
    connection.commit().await.unwrap();
    assert!(store.is_empty());
    assert_eq!(connection.depth(), 0);
}

#[tokio::test]
async fn savepoint_recovers_an_aborted_transaction() {
    let w = fixture();
    let mut tx = w.writer.begin().await.unwrap();
    tx.write(event("a")).await.unwrap();
    let mut savepoint = tx.savepoint().await.unwrap();
    savepoint.write(event("b")).await.unwrap();
    savepoint.abort();
    assert!(savepoint.release().await.is_err());
    assert_eq!(tx.depth(), 1);
    tx.commit().await.unwrap();
    assert_eq!(stored(&w.store), ["a"]);
}

// S2-13, T9
#[tokio::test]
async fn lost_reply_runs_neither_hook() {
    for (fault, rows) in [(CommitFault::AnswerLostApplied, 1), (CommitFault::AnswerLostNotApplied, 0)] {
        let w = fixture();
        let mut tx = w.writer.begin().await.unwrap();
        tx.write(event("a")).await.unwrap();
        tx.fail_next_commit(fault);
        assert!(matches!(tx.commit().await, Err(CommitError::Unknown(_))), "{fault:?}");
        assert_eq!(w.store.len(), rows, "{fault:?}");
        assert_eq!(w.log.lines(), ["before_write a", "after_write a"], "{fault:?}");
    }
}

#[tokio::test]
async fn commit_that_the_server_rolls_back_runs_after_rollback() {
    let w = fixture();
    let mut tx = w.writer.begin().await.unwrap();
    tx.write(event("a")).await.unwrap();
    tx.fail_next_commit(CommitFault::RolledBack);
    assert!(matches!(tx.commit().await, Err(CommitError::RolledBack(_))));
    assert!(w.store.is_empty());
    assert_eq!(w.log.lines().last().unwrap(), "after_rollback a");
}

/// The service ended the transaction without the `Tx`, so its outcome is unknown.
#[tokio::test]
async fn commit_without_its_transaction_is_unknown() {
    let w = fixture();
    let mut tx = w.writer.begin().await.unwrap();
    tx.write(event("a")).await.unwrap();
    MemoryConnection::commit(&mut tx).await.unwrap();
    assert!(matches!(tx.commit().await, Err(CommitError::Unknown(StoreError::NoTransaction))));
    assert_eq!(w.log.lines(), ["before_write a", "after_write a"]);
}

// S3-11
#[tokio::test]
async fn transaction_commits_on_ok_and_rolls_back_on_err() {
    let w = fixture();
    let answer = w
        .writer
        .transaction(async |tx: &mut MemoryTx| {
            tx.write(event("a")).await?;
            Ok::<_, BoxError>(7)
        })
        .await;
    assert_eq!(answer.unwrap(), 7);
    let refused = w
        .writer
        .transaction(async |tx: &mut MemoryTx| {
            tx.write(event("b")).await?;
            Err::<(), BoxError>("no stock".into())
        })
        .await;
    assert_eq!(refused.unwrap_err().to_string(), "no stock");
    assert_eq!(stored(&w.store), ["a"]);
    assert_eq!(w.log.lines().last().unwrap(), "after_rollback b");
}

#[tokio::test]
async fn transaction_that_panics_is_rolled_back() {
    let w = fixture();
    let work = w.writer.transaction(async |tx: &mut MemoryTx| {
        tx.write(event("a")).await?;
        if tx.depth() == 1 {
            panic!("in the middle");
        }
        Ok::<_, BoxError>(())
    });
    assert!(AssertUnwindSafe(work).catch_unwind().await.is_err());
    assert!(w.store.is_empty());
    assert_eq!(w.log.lines().last().unwrap(), "after_rollback a");
}

#[tokio::test]
async fn transaction_can_be_spawned() {
    let w = fixture();
    let writer = w.writer.clone();
    let id = String::from("a");
    let task = tokio::spawn(async move {
        writer
            .transaction(async |tx: &mut MemoryTx| {
                tokio::task::yield_now().await;
                tx.write(event(&id)).await?;
                Ok::<_, BoxError>(())
            })
            .await
    });
    task.await.unwrap().unwrap();
    assert_eq!(stored(&w.store), ["a"]);
}

// S0-23, S2-11, S2-14, S3-24
#[tokio::test]
async fn insert_outside_a_transaction_is_refused_before_any_hook() {
    let w = fixture();
    let mut connection = w.store.connect();
    let refused = w.writer.insert(&mut connection, event("a")).await;
    assert!(matches!(refused, Err(WriteError::Store(StoreError::NoTransaction))));
    assert_eq!(w.log.lines(), [""; 0]);
    assert!(matches!(connection.rollback().await, Err(StoreError::NoTransaction)));
    assert!(matches!(connection.savepoint().await, Err(StoreError::NoTransaction)));
}

#[tokio::test]
async fn insert_returns_a_receipt_with_ids_and_duplicates() {
    let w = fixture();
    let mut connection = w.store.connect();
    connection.begin().await.unwrap();
    let receipt = w.writer.insert(&mut connection, event("a")).await.unwrap();
    assert_eq!(receipt.id(), Some(&EventId::from("a")));
    let receipt = w.writer.insert_all(&mut connection, events(&["a", "b"])).await.unwrap();
    assert!(receipt.ids().eq([&EventId::from("b")]));
    assert_eq!(receipt.duplicates(), [EventId::from("a")]);
    connection.commit().await.unwrap();
    assert_eq!(stored(&w.store), ["a", "b"]);
}

#[tokio::test]
async fn connection_refuses_calls_that_make_no_sense() {
    let store = MemoryStore::new();
    let mut connection = store.connect();
    assert!(matches!(connection.commit().await, Err(CommitError::Unknown(StoreError::NoTransaction))));
    connection.begin().await.unwrap();
    assert!(connection.begin().await.is_err());
    assert!(connection.release_savepoint().await.is_err());
    assert!(connection.rollback_to_savepoint().await.is_err());
    connection.savepoint().await.unwrap();
    assert_eq!(connection.depth(), 2);
    connection.release_savepoint().await.unwrap();
    assert_eq!(connection.depth(), 1);
    connection.rollback().await.unwrap();
    assert_eq!(connection.depth(), 0);
}
