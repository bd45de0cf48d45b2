//! Purges: delivered events are kept, deleted or archived.

use std::time::Duration;

use posthaste::config::{PurgeConfig, Retention};
use posthaste::store::OnDone;
use posthaste::{Admin as _, EventId, Outcome, Recorder, RetryPolicy, Status};

use crate::client_rows::NEVER_SQL;
use crate::support::*;

/// The tests of this file.
macro_rules! purge_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::purge:
            delivered_rows_are_kept_deleted_or_archived,
            purge_removes_only_rows_that_are_old_enough,
        );
    };
}
pub(crate) use purge_tests;

pub(crate) async fn delivered_rows_are_kept_deleted_or_archived() {
    for on_done in [OnDone::Keep, OnDone::Delete, OnDone::Archive] {
        let db = Db::new().await;
        let recorder = Recorder::with(|delivery| match delivery.id().as_str() {
            "fails-once" if delivery.attempt == 1 => Outcome::retry("once"),
            _ => Outcome::done(),
        });
        let base_delay = Duration::from_millis(20);
        let retry = RetryPolicy::default().with_max_attempts(3).with_base_delay(base_delay);
        let purge = PurgeConfig::default().with_on_done(on_done);
        let outbox = db.engine(&recorder).retry(retry).purge(purge).start().unwrap();
        db.write(&Writer::new(&db.store, &outbox), &["a", "fails-once", "b"]).await;
        within_timeout("all are delivered", recorder.wait_for(4)).await;
        db.until_nothing_waits().await;
        let stats = db.store.stats().await.unwrap();
        let row = db.store.get(&EventId::from("fails-once")).await.unwrap();
        let row = row.map(|detail| (detail.row.status, detail.row.attempts, detail.event.payload().to_vec()));
        let expected = match on_done {
            OnDone::Keep => ((3, 0), Some((Status::Done, 1, b"{}".to_vec()))),
            OnDone::Delete => ((0, 0), None),
            OnDone::Archive => ((0, 3), Some((Status::Archived, 1, b"{}".to_vec()))),
        };
        assert_eq!(((stats.done, stats.archived), row), expected, "{on_done:?}");
        outbox.shutdown().await;
        db.close().await;
    }
}

pub(crate) async fn purge_removes_only_rows_that_are_old_enough() {
    let db = Db::new().await;
    let recorder = Recorder::with(|delivery| match delivery.id().as_str() {
        id if id.starts_with("dead") => Outcome::Dead("no".to_owned()),
        _ => Outcome::done(),
    });
    let purge = PurgeConfig::default()
        .with_done(Retention::delete_after(Duration::from_secs(60)))
        .with_dead(Retention::archive_after(Duration::from_secs(60)))
        .with_batch(2);
    let outbox = db.engine(&recorder).purge(purge).start().unwrap();
    let ids = ["old1", "old2", "old3", "old4", "old5", "young", "dead1", "dead2", "dead-young"];
    db.write(&Writer::new(&db.store, &outbox), &ids).await;
    wait_until("all are settled", async || {
        db.count(Status::Done).await == 6 && db.count(Status::Dead).await == 3
    })
    .await;
    let done_at = plus_seconds_sql("done_at", -61);
    db.execute(&format!("UPDATE outbox_event SET done_at = {done_at} WHERE event_id NOT LIKE '%young'"))
        .await;
    let insert = "INSERT INTO outbox_event (event_id, event_type, payload, available_at, inserted_at)";
    db.execute(&format!("{insert} VALUES ('pending', 'Tested', '{{}}', {NEVER_SQL}, {LONG_AGO_SQL})")).await;
    assert_eq!(outbox.purge_once().await.unwrap(), 7);
    assert_eq!(db.ids().await, ["young", "dead-young", "pending"]);
    assert_eq!(db.store.stats().await.unwrap().archived, 2);
    assert_eq!(outbox.purge_once().await.unwrap(), 0);
    outbox.shutdown().await;
    db.close().await;
}
