//! Receipts, in transactions of the service: an event is delivered only if its commit is confirmed.

#![allow(missing_docs, reason = "the name of each case states what it proves")]

use std::time::{Duration, Instant};

use super::WriterHarness;
use super::writer_script::{OwnEnd, commit, event, events, write};
use crate::destination::Source;
use crate::error::{StoreError, WriteError};
use crate::event::EventId;

// S0-23, S2-14, S3-24
pub async fn outside_a_transaction_is_refused(h: &dyn WriterHarness) {
    let Some(answer) = h.insert_outside(event("outside")).await else {
        println!("refused by the compiler: outside a transaction there is nothing to call the Writer with");
        return;
    };
    assert!(matches!(answer, Err(WriteError::Store(StoreError::NoTransaction))), "{answer:?}");
    // The lookup left nothing open.
    h.run(commit([write("kept")])).await.expect("the commit works");
    assert_eq!(h.scene().stored().await, ["kept"]);
    assert_eq!(h.scene().delivered().await, ["kept"]);
}

pub async fn dropped_receipt_is_delivered_within_the_hot_lease(h: &dyn WriterHarness) {
    let s = h.scene();
    drop(h.insert(vec![event("dropped")], OwnEnd::Commit).await.expect("the insert works"));
    let started = Instant::now();
    s.wait_for(1).await;
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(s.recorder().deliveries()[0].source, Source::Cold);
}

// S0-04
pub async fn receipt_of_a_rolled_back_transaction_delivers_nothing(h: &dyn WriterHarness) {
    let s = h.scene();
    let lie = h.insert(vec![event("undone")], OwnEnd::Rollback).await.expect("the insert works");
    // The number of the rolled-back row may be assigned again.
    h.run(commit([write("kept")])).await.expect("the commit works");
    s.outbox().committed(lie);
    assert_eq!(s.delivered().await, ["kept"]);
    assert_eq!(s.stored().await, ["kept"]);
}

/// The COMMIT of an aborted transaction may have returned `Ok`.
pub async fn receipt_of_an_aborted_transaction_delivers_nothing(h: &dyn WriterHarness) {
    let s = h.scene();
    let lie = h.insert(vec![event("undone")], OwnEnd::Aborted).await.expect("the insert works");
    s.outbox().committed(lie);
    assert!(s.delivered().await.is_empty());
    assert!(s.stored().await.is_empty());
}

// T12: other code may still roll the savepoint back.
pub async fn receipt_of_a_savepoint_is_only_a_wake_up(h: &dyn WriterHarness) {
    let s = h.scene();
    let direct = h.insert(vec![event("direct")], OwnEnd::Commit).await.expect("the insert works");
    let nested = h.insert(events(&["nested-1", "nested-2"]), OwnEnd::SavepointReleased).await;
    let nested = nested.expect("the insert works");
    // No engine holds the rows of the savepoint, so a poll finds them. The row of `direct` is held while its receipt
    // exists.
    assert_eq!(s.delivered().await, ["nested-1", "nested-2"]);
    s.outbox().committed(nested);
    s.outbox().committed(direct);
    s.wait_for(3).await;
    assert_eq!(s.delivered().await, ["direct", "nested-1", "nested-2"], "once each");
    let hot = |source| move |delivery: &crate::Delivery| delivery.source == source;
    assert_eq!(s.recorder().deliveries().into_iter().filter(hot(Source::Hot)).count(), 1);
}

// T12
pub async fn receipt_of_a_rolled_back_savepoint_delivers_nothing(h: &dyn WriterHarness) {
    let s = h.scene();
    let lie = h.insert(vec![event("undone")], OwnEnd::SavepointRolledBack).await.expect("the insert works");
    h.run(commit([write("kept")])).await.expect("the commit works");
    s.outbox().committed(lie);
    assert_eq!(s.delivered().await, ["kept"]);
    assert_eq!(s.stored().await, ["kept"]);
}

pub async fn receipt_lists_written_ids_and_duplicates(h: &dyn WriterHarness) {
    let s = h.scene();
    h.run(commit([write("b")])).await.expect("the commit works");
    let single = h.insert(vec![event("b")], OwnEnd::Commit).await.expect("the insert works");
    assert!(single.is_empty());
    assert_eq!(single.duplicates(), [EventId::from("b")]);
    let batch = h.insert(events(&["a", "b", "c", "c"]), OwnEnd::Commit).await.expect("the insert works");
    assert_eq!(batch.ids().map(EventId::as_str).collect::<Vec<_>>(), ["a", "c"]);
    let mut duplicates: Vec<&str> = batch.duplicates().iter().map(EventId::as_str).collect();
    duplicates.sort_unstable();
    assert_eq!(duplicates, ["b", "c"]);
    let none = h.insert(events(&["a", "b", "c"]), OwnEnd::Commit).await.expect("the insert works");
    assert_eq!((none.is_empty(), none.duplicates().len()), (true, 3));
    for receipt in [single, batch, none] {
        s.outbox().committed(receipt);
    }
    s.wait_for(3).await;
    assert_eq!(s.delivered().await, ["a", "b", "c"], "once each");
    let deliveries = s.recorder().deliveries();
    assert!(deliveries.iter().all(|delivery| delivery.source == Source::Hot), "{deliveries:?}");
}
