//! Savepoints: an event that is rolled back in one is never delivered, whether the Writer or the service opened it.

#![allow(missing_docs, reason = "the name of a case is the claim that it proves")]

use super::WriterHarness;
use super::writer_script::{End, SavepointEnd, Step, commit, ending, savepoint, write, write_all};

use SavepointEnd::{Drop, Release, Rollback};

// T12
pub async fn rolled_back_savepoint_undoes_its_event(h: &dyn WriterHarness) {
    let s = h.scene();
    let script = commit([
        write("before"),
        savepoint(Rollback, [write("undone")]),
        savepoint(Drop, [write_all(&["dropped-1", "dropped-2"])]),
        write("after"),
    ]);
    h.run(script).await.expect("the commit works");
    s.wait_for(2).await;
    assert_eq!(s.delivered().await, ["after", "before"]);
    assert_eq!(s.stored().await, ["after", "before"]);
    assert_eq!(s.calls_of("after_rollback"), ["undone", "dropped-1,dropped-2"]);
    assert_eq!(s.calls_of("after_commit"), ["before", "after"]);
    let hooks = s.hooks();
    let place_of = |line: &str| hooks.iter().position(|call| call == line);
    assert!(
        place_of("after_rollback dropped-1,dropped-2") < place_of("before_write after"),
        "immediately: {hooks:?}"
    );
}

// T12
pub async fn released_savepoint_passes_its_events_up(h: &dyn WriterHarness) {
    let s = h.scene();
    let inner = savepoint(Release, [write("kept-1"), write_all(&["kept-2", "kept-3"])]);
    h.run(commit([inner.clone()])).await.expect("the commit works");
    s.wait_for(3).await;
    assert_eq!(s.delivered().await, ["kept-1", "kept-2", "kept-3"], "once each");
    assert_eq!(s.calls_of("after_commit"), ["kept-1", "kept-2,kept-3"]);
    let undone = savepoint(Release, [write("undone")]);
    h.run(ending(End::Rollback, [undone])).await.expect("the rollback works");
    assert_eq!(s.calls_of("after_rollback"), ["undone"], "with the transaction around it");
    assert_eq!(s.stored().await, ["kept-1", "kept-2", "kept-3"]);
}

// T12
pub async fn nested_savepoints_end_from_the_inside(h: &dyn WriterHarness) {
    let s = h.scene();
    let kept = savepoint(Release, [write("kept")]);
    let dropped = savepoint(Drop, [write("dropped")]);
    let outer = savepoint(Release, [write("outer"), kept, dropped]);
    let in_vain = savepoint(Release, [write("in-vain")]);
    let undone = savepoint(Rollback, [in_vain]);
    h.run(commit([outer, undone])).await.expect("the commit works");
    s.wait_for(2).await;
    assert_eq!(s.delivered().await, ["kept", "outer"]);
    assert_eq!(s.stored().await, ["kept", "outer"]);
    assert_eq!(s.calls_of("after_rollback"), ["dropped", "in-vain"]);
}

// S2-12, T12: through the connection, behind the back of the transaction.
pub async fn raw_savepoint_that_is_rolled_back_undoes_its_event(h: &dyn WriterHarness) {
    let s = h.scene();
    let undone = Step::Undone(vec![write("undone-1"), write_all(&["undone-2", "undone-3"])]);
    h.run(commit([write("before"), undone])).await.expect("the commit works");
    s.wait_for(1).await;
    assert_eq!(s.delivered().await, ["before"]);
    assert_eq!(s.stored().await, ["before"]);
    assert_eq!(s.calls_of("after_rollback"), ["undone-1", "undone-2,undone-3"]);
    assert_eq!(s.calls_of("after_commit"), ["before"]);
}

/// A database may assign the number of a row that was rolled back to the next row.
pub async fn event_of_a_rolled_back_savepoint_is_not_mistaken_for_the_next_row(h: &dyn WriterHarness) {
    let s = h.scene();
    let script = commit([Step::Undone(vec![write("undone")]), write("kept")]);
    h.run(script).await.expect("the commit works");
    s.wait_for(1).await;
    assert_eq!(s.delivered().await, ["kept"]);
    assert_eq!(s.calls_of("after_rollback"), ["undone"]);
    assert_eq!(s.calls_of("after_commit"), ["kept"]);
}

/// An event that is written, rolled back and written again under the same id, as a retried step would do.
pub async fn event_that_is_written_again_after_a_rollback_is_delivered_once(h: &dyn WriterHarness) {
    let s = h.scene();
    let raw = commit([Step::Undone(vec![write("again-1")]), write_all(&["other", "again-1"])]);
    h.run(raw).await.expect("the commit works");
    let own = commit([savepoint(Rollback, [write("again-2")]), write("again-2")]);
    h.run(own).await.expect("the commit works");
    s.wait_for(3).await;
    assert_eq!(s.delivered().await, ["again-1", "again-2", "other"]);
    assert_eq!(s.calls_of("after_commit"), ["other,again-1", "again-2"]);
}

/// Rolling back recovers a transaction that a failed statement has aborted.
pub async fn failed_statement_in_a_savepoint_affects_nothing_around_it(h: &dyn WriterHarness) {
    let s = h.scene();
    let script = commit([
        write("before"),
        savepoint(Rollback, [write("undone-1"), Step::FailedStatement]),
        Step::Undone(vec![write("undone-2"), Step::FailedStatement]),
        write("after"),
    ]);
    h.run(script).await.expect("the commit works");
    s.wait_for(2).await;
    assert_eq!(s.delivered().await, ["after", "before"]);
    assert_eq!(s.stored().await, ["after", "before"]);
}
