//! Hooks: which of them run, in which order, and with which events.

#![allow(missing_docs, reason = "the name of a case is the claim that it proves")]

use super::writer_script::{End, OwnEnd, ScriptError, Step, commit, ending, event, write, write_all};
use super::{Scene, WriterHarness};
use crate::error::WriteError;
use crate::event::{Event, EventId};

fn of_type(event_type: &str, id: &str) -> Event {
    Event::builder(event_type).id(id).json_text("{}").build().expect("a good event")
}

// S2-11, S3-53, S3-56, S3-59
pub async fn hooks_run_in_order_and_once_per_batch(h: &dyn WriterHarness) {
    let s = h.scene();
    h.run(commit([write_all(&["a", "b"]), write("c")])).await.expect("the commit works");
    let order = [
        "before_write a,b",
        "after_write a,b",
        "before_write c",
        "after_write c",
        "after_commit a,b",
        "after_commit c",
    ];
    assert_eq!(s.hooks(), order);
}

// S2-11, S2-13, S3-59
pub async fn rollback_runs_after_rollback_and_nothing_else(h: &dyn WriterHarness) {
    let s = h.scene();
    for end in [End::Rollback, End::Drop] {
        let before = s.hooks().len();
        h.run(ending(end, [write("a")])).await.expect("the end works");
        assert_eq!(s.hooks()[before..], ["before_write a", "after_write a", "after_rollback a"], "{end:?}");
    }
}

pub async fn receipt_runs_after_commit_when_its_caller_reports_the_commit(h: &dyn WriterHarness) {
    let s = h.scene();
    let receipt = h.insert(vec![event("a")], OwnEnd::Commit).await.expect("the insert works");
    assert_eq!(s.hooks(), ["before_write a", "after_write a"]);
    s.outbox().committed(receipt);
    assert_eq!(s.hooks()[2..], ["after_commit a"]);
}

// S3-54
pub async fn refusing_hook_refuses_the_write(h: &dyn WriterHarness) {
    let s = h.scene();
    for refused in [
        Step::Write(of_type(Scene::REFUSED, "refused")),
        Step::WriteAll(vec![event("beside"), of_type(Scene::REFUSED, "refused")]),
    ] {
        let answer = h.run(commit([write("before"), refused])).await;
        assert!(matches!(answer, Err(ScriptError::Write(WriteError::Hook(_)))), "{answer:?}");
    }
    let answer = h.insert(vec![of_type(Scene::REFUSED, "refused")], OwnEnd::Commit).await;
    assert!(matches!(answer, Err(WriteError::Hook(_))), "{answer:?}");
    assert!(s.stored().await.is_empty());
    assert!(s.delivered().await.is_empty());
}

pub async fn writing_nothing_calls_no_hook(h: &dyn WriterHarness) {
    let s = h.scene();
    let ids = h.run(commit([Step::WriteAll(Vec::new())])).await.expect("the commit works");
    assert!(ids.is_empty());
    let receipt = h.insert(Vec::new(), OwnEnd::Commit).await.expect("the insert works");
    assert!(receipt.is_empty() && receipt.duplicates().is_empty());
    s.outbox().committed(receipt);
    assert!(s.hooks().is_empty(), "{:?}", s.hooks());
}

// S3-52, S3-54
pub async fn suppressed_write_stores_nothing_and_returns_no_id(h: &dyn WriterHarness) {
    let s = h.scene();
    let suppressed = || of_type(Scene::SUPPRESSED, "suppressed");
    let script = commit([
        Step::Write(suppressed()),
        Step::WriteAll(vec![suppressed(), suppressed()]),
        Step::WriteAll(vec![event("kept"), suppressed()]),
    ]);
    assert_eq!(h.run(script).await.expect("the commit works"), [EventId::from("kept")]);
    let receipt = h.insert(vec![suppressed()], OwnEnd::Commit).await.expect("the insert works");
    assert!(receipt.is_empty() && receipt.duplicates().is_empty());
    s.outbox().committed(receipt);
    assert_eq!(s.delivered().await, ["kept"]);
    assert_eq!(s.stored().await, ["kept"]);
    assert_eq!(
        (s.calls_of("after_write"), s.calls_of("after_commit")),
        (vec!["kept".into()], vec!["kept".into()])
    );
}
