//! Transactions of a Writer: what is stored and delivered, for every way in which they can end.

#![allow(missing_docs, reason = "the name of each case states what it proves")]

use futures_util::future::join_all;

use super::WriterHarness;
use super::writer_script::{
    End, OwnEnd, ScriptError, Step, Way, commit, ending, event, events, failed_write, write, write_all,
};
use crate::destination::Source;
use crate::error::{CommitError, StoreError, WriteError};
use crate::event::EventId;

// S0-04, S2-01, S2-13
pub async fn rolled_back_event_is_never_delivered(h: &dyn WriterHarness) {
    let s = h.scene();
    let undone = [write("undone-1"), write_all(&["undone-2", "undone-3"])];
    h.run(ending(End::Rollback, undone)).await.expect("the rollback works");
    h.run(ending(End::Drop, [write("dropped")])).await.expect("it can be left unfinished");
    h.run(commit([write("kept")])).await.expect("the commit works");
    assert_eq!(s.delivered().await, ["kept"]);
    assert_eq!(s.stored().await, ["kept"]);
    assert_eq!(s.calls_of("after_rollback"), ["undone-1", "undone-2,undone-3", "dropped"]);
    assert_eq!(s.calls_of("after_commit"), ["kept"]);
}

// S2-02
pub async fn hot_path_delivers_after_commit(h: &dyn WriterHarness) {
    let s = h.scene();
    h.run(commit([write("single"), write_all(&["batch-1", "batch-2"])])).await.expect("the commit works");
    s.wait_for(3).await;
    let receipt = h.insert(vec![event("by-receipt")], OwnEnd::Commit).await.expect("the insert works");
    s.outbox().committed(receipt);
    s.wait_for(4).await;
    let deliveries = s.recorder().deliveries();
    assert!(deliveries.iter().all(|delivery| delivery.source == Source::Hot), "{deliveries:?}");
    assert_eq!(s.delivered().await, ["batch-1", "batch-2", "by-receipt", "single"], "once each");
}

/// Statements of the service in between change nothing: the commit has to prove its rows and finds them.
pub async fn event_is_delivered_hot_whatever_the_service_does_after_it(h: &dyn WriterHarness) {
    let s = h.scene();
    h.run(commit([Step::Business, write("first"), Step::Business])).await.expect("the commit works");
    h.run(commit([write("second"), Step::Business, write("third")])).await.expect("the commit works");
    s.wait_for(3).await;
    let deliveries = s.recorder().deliveries();
    assert!(deliveries.iter().all(|delivery| delivery.source == Source::Hot), "{deliveries:?}");
    assert_eq!(s.delivered().await, ["first", "second", "third"], "once each");
}

// S0-04
pub async fn event_and_business_data_end_together(h: &dyn WriterHarness) {
    let s = h.scene();
    if h.business_rows().await.is_none() {
        println!("skipped: there is no table but the outbox");
        return;
    }
    for end in [End::Rollback, End::Drop] {
        let script = ending(end, [Step::Business, write("undone"), Step::Business]);
        h.run(script).await.expect("the end works");
        assert_eq!(h.business_rows().await, Some(0), "{end:?}");
    }
    h.run(commit([Step::Business, write("kept")])).await.expect("the commit works");
    assert_eq!(h.business_rows().await, Some(1));
    assert_eq!(s.delivered().await, ["kept"]);
}

/// A COMMIT may return `Ok` although nothing was committed. The Writer must report that.
pub async fn commit_of_an_aborted_transaction_delivers_nothing(h: &dyn WriterHarness) {
    let s = h.scene();
    for steps in [vec![write("undone"), Step::Abort], vec![write_all(&["undone", "undone-2"]), Step::Abort]] {
        let answer = h.run(commit(steps)).await;
        let rolled_back = matches!(answer, Err(ScriptError::Commit(CommitError::RolledBack(_))));
        assert!(rolled_back, "{answer:?}");
    }
    assert_eq!(s.calls_of("after_rollback"), ["undone", "undone,undone-2"]);
    // The next transaction on the same connection is not affected.
    h.run(commit([write("kept")])).await.expect("the commit works");
    assert_eq!(s.delivered().await, ["kept"]);
    assert_eq!(s.stored().await, ["kept"]);
    assert_eq!(s.calls_of("after_commit"), ["kept"]);
}

/// Other writes of the transaction are lost even if no event was written. Without events, not every database can tell
/// how the transaction ended, but none may report it as committed.
pub async fn aborted_transaction_without_events_is_not_reported_as_committed(h: &dyn WriterHarness) {
    let answer = h.run(commit([Step::Business, Step::Abort])).await;
    assert!(matches!(answer, Err(ScriptError::Commit(_))), "{answer:?}");
    assert_eq!(h.business_rows().await.unwrap_or(0), 0);
}

/// The event must be neither written outside the transaction nor reported as written.
pub async fn write_into_an_aborted_transaction_is_refused(h: &dyn WriterHarness) {
    let s = h.scene();
    for late in [write("late"), write_all(&["late", "later"])] {
        let answer = h.run(commit([write("undone"), Step::Abort, late])).await;
        assert!(matches!(answer, Err(ScriptError::Write(_))), "{answer:?}");
    }
    assert!(s.stored().await.is_empty());
    assert!(s.delivered().await.is_empty());
    assert!(s.calls_of("after_commit").is_empty());
}

pub async fn failed_statement_aborts_or_changes_nothing(h: &dyn WriterHarness) {
    let s = h.scene();
    let answer = h.run(commit([write("before"), Step::FailedStatement])).await;
    if h.capabilities().failed_statement_aborts {
        let rolled_back = matches!(answer, Err(ScriptError::Commit(CommitError::RolledBack(_))));
        assert!(rolled_back, "{answer:?}");
        assert!(s.stored().await.is_empty());
        assert!(s.delivered().await.is_empty());
    } else {
        answer.expect("the commit works");
        assert_eq!(s.stored().await, ["before"]);
        assert_eq!(s.delivered().await, ["before"]);
    }
}

/// The Writer's own INSERT can fail like any other statement, and its caller may continue.
pub async fn failed_write_is_neither_committed_nor_reported_as_committed(h: &dyn WriterHarness) {
    let s = h.scene();
    let answer = h.run(commit([write("good"), failed_write("bad")])).await;
    if h.capabilities().failed_statement_aborts {
        let rolled_back = matches!(answer, Err(ScriptError::Commit(CommitError::RolledBack(_))));
        assert!(rolled_back, "{answer:?}");
        assert_eq!(s.calls_of("after_rollback"), ["good"]);
    } else {
        assert_eq!(answer.expect("the commit works"), [EventId::from("good")]);
        assert_eq!(s.calls_of("after_commit"), ["good"]);
        s.wait_for(1).await;
    }
    let alone = h.run(commit([Step::Business, failed_write("bad")])).await;
    assert_eq!(alone.is_ok(), !h.capabilities().failed_statement_aborts, "{alone:?}");
    assert_eq!(s.delivered().await, s.stored().await, "what is stored, and nothing else");
}

pub async fn write_after_a_failed_write_is_refused_or_kept(h: &dyn WriterHarness) {
    let s = h.scene();
    let answer = h.run(commit([write("before"), failed_write("bad"), write("after")])).await;
    if h.capabilities().failed_statement_aborts {
        assert!(matches!(answer, Err(ScriptError::Write(_))), "{answer:?}");
        assert!(s.stored().await.is_empty());
    } else {
        answer.expect("the commit works");
        s.wait_for(2).await;
        assert_eq!(s.stored().await, ["after", "before"]);
    }
    assert_eq!(s.delivered().await, s.stored().await, "what is stored, and nothing else");
}

/// The engine would wait for rows that it can never find.
pub async fn write_on_another_database_is_refused(h: &dyn WriterHarness) {
    let s = h.scene();
    for way in [Way::Transaction, Way::Receipt] {
        let Some(elsewhere) = h.write_elsewhere(event("lost"), way).await else {
            println!("skipped: this Writer brings its own connection");
            continue;
        };
        match elsewhere.answer {
            Err(WriteError::Store(StoreError::OtherDatabase { outbox, connection })) => {
                assert!(!outbox.is_empty() && !connection.is_empty(), "{way:?}: both are named");
                assert_ne!(outbox, connection, "{way:?}");
            }
            other => panic!("{way:?}: {other:?}"),
        }
        assert_eq!(elsewhere.stored, 0, "{way:?}");
    }
    // The Writer keeps nothing of the refused write.
    h.run(commit([write("kept")])).await.expect("the commit works");
    assert_eq!(s.stored().await, ["kept"]);
    assert_eq!(s.delivered().await, ["kept"]);
    assert!(s.calls_of("after_write").iter().all(|ids| ids == "kept"), "{:?}", s.hooks());
}

// S2-21, S3-51
pub async fn write_returns_the_ids(h: &dyn WriterHarness) {
    let script = commit([write("a"), write_all(&["c", "b"]), write_all(&[]), write("d")]);
    let ids = h.run(script).await.expect("the commit works");
    assert_eq!(ids, ["a", "c", "b", "d"].map(EventId::from));
    assert_eq!(h.scene().stored().await, ["a", "b", "c", "d"]);
}

pub async fn existing_id_is_a_no_op(h: &dyn WriterHarness) {
    let s = h.scene();
    h.run(commit([write("b")])).await.expect("the commit works");
    // The id that exists is in the middle, so the numbers of the others are not consecutive.
    let script = commit([write("b"), write_all(&["a", "b", "c", "c"]), write_all(&["a", "b"]), write("c")]);
    let ids = h.run(script).await.expect("the commit works");
    assert_eq!(ids, ["b", "a", "b", "c", "a", "b", "c"].map(EventId::from), "returned like any other id");
    s.wait_for(3).await;
    assert_eq!(s.delivered().await, ["a", "b", "c"], "once each");
    let deliveries = s.recorder().deliveries();
    assert!(deliveries.iter().all(|delivery| delivery.source == Source::Hot), "{deliveries:?}");
    assert_eq!(s.calls_of("after_write"), ["b", "a,c"], "only for what was written");
    assert_eq!(s.calls_of("after_commit"), ["b", "a,c"]);
}

/// The second transaction waits for the first and sees what it committed, or its own insert has no effect.
pub async fn same_id_written_concurrently_is_stored_once(h: &dyn WriterHarness) {
    let s = h.scene();
    let ids = ["same", "same", "same", "other"];
    for answer in join_all(ids.map(|id| h.run(commit([write(id)])))).await {
        answer.expect("the commit works");
    }
    assert_eq!(s.delivered().await, ["other", "same"]);
    assert_eq!(s.stored().await, ["other", "same"]);
}

/// No engine holds what is written then, so the next engine finds it immediately.
pub async fn events_wait_while_no_engine_runs(h: &dyn WriterHarness) {
    let s = h.scene();
    s.outbox().shutdown().await;
    h.run(commit([write("single"), write_all(&["batch-1", "batch-2"])])).await.expect("the commit works");
    let receipt = h.insert(events(&["by-receipt"]), OwnEnd::Commit).await.expect("the insert works");
    s.outbox().committed(receipt);
    assert_eq!(s.calls_of("after_commit"), ["single", "batch-1,batch-2", "by-receipt"]);
    assert_eq!(s.recorder().count(), 0);
    let next = s.another();
    assert_eq!(next.delivered().await, ["batch-1", "batch-2", "by-receipt", "single"]);
    next.outbox().shutdown().await;
}
