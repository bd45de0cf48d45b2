//! Logins with the least rights, as `grants.sql` of a database grants them: each can do its work through the API, and
//! nothing else.

use std::error::Error as _;
use std::fmt::Debug;
use std::time::Duration;

use posthaste::admin::{Filter, PageRequest, Replay, Tolerance};
use posthaste::config::{PurgeConfig, Retention};
use posthaste::store::OnDone;
use posthaste::{Admin as _, Outcome, Recorder, Source, Status, StoreError};

use crate::grants::{ADVICE, FORBIDDEN_TO_RELAYS, FORBIDDEN_TO_WRITERS, Logins};
use crate::support::*;

/// The tests of this file.
macro_rules! grant_tests {
    ($($attribute:tt)*) => {
        posthaste_testkit::case_tests!(
            [$($attribute)*] crate::cases::grants:
            writer_writes_and_does_nothing_else,
            relay_delivers_archives_and_purges_and_does_nothing_else,
            viewer_reads_everything_and_changes_nothing,
            operator_replays_discards_pauses_and_resumes,
        );
    };
}
pub(crate) use grant_tests;

/// The roles in the grants.
pub(crate) const ROLES: [&str; 4] = ["writer", "relay", "viewer", "operator"];

/// The grants for logins of one test, including the rights of operators.
pub(crate) fn grants_for(grants: &str, login: impl Fn(&str) -> String) -> String {
    let for_operators: String = grants.lines().filter_map(|line| line.strip_prefix("--   ")).collect();
    ROLES.iter().fold(format!("{grants}\n{for_operators}"), |text, role| {
        text.replace(&format!(" {role},"), &format!(" {},", login(role)))
            .replace(&format!(" {role};"), &format!(" {};", login(role)))
    })
}

impl Logins {
    pub(crate) async fn store(&self, role: &str) -> Store {
        self.builder(role).connect().await.unwrap_or_else(|error| panic!("{role}: {error:?}"))
    }

    /// Asserts that the server refuses these statements to a role.
    async fn assert_refused(&self, role: &str, statements: &[&str]) {
        let pool = self.pool(role).await;
        for statement in statements {
            let error = run(&pool, statement).await.expect_err(statement);
            assert!(Self::is_denied(&error), "{role}: {statement}: {error}");
        }
        pool.close().await;
    }

    async fn insert(&self, id: &str, status: u8) {
        let insert = "INSERT INTO outbox_event (event_id, event_type, payload, status)";
        self.db.execute(&format!("{insert} VALUES ('{id}', 'T', '{{}}', {status})")).await;
    }
}

fn assert_not_allowed<T: Debug>(what: &str, result: Result<T, StoreError>) {
    let error = result.expect_err(what);
    let source = error.source().unwrap_or_else(|| panic!("{what}: {error:?}"));
    assert!(source.to_string().contains(ADVICE), "{what}: {error:?}");
}

// S12
pub(crate) async fn writer_writes_and_does_nothing_else() {
    let w = Logins::new().await;
    w.insert("dead", 3).await;
    let (store, pool) = (w.store("writer").await, w.pool("writer").await);
    let writer = plain_writer(&store);
    let mut tx = writer.begin(&pool).await.unwrap();
    tx.write(event("single")).await.unwrap();
    tx.write_all(events(&["batch-1", "batch-2", "single"])).await.unwrap();
    sqlx::query("SELECT 1").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let _ = writer.insert(&mut tx, event("receipt")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.db.ids().await, ["dead", "single", "batch-1", "batch-2", "receipt"]);

    assert_not_allowed("stats", store.stats().await);
    assert_not_allowed("replay", store.replay_all(&Filter::default(), 5, &Replay::by("me")).await);
    assert_not_allowed("pause", store.pause("a", "me").await);
    w.assert_refused("writer", FORBIDDEN_TO_WRITERS).await;
    pool.close().await;
    store.close().await;
    w.close().await;
}

/// A service that delivers its own events is a writer through its pool and a relay through its store.
// S12
pub(crate) async fn relay_delivers_archives_and_purges_and_does_nothing_else() {
    let w = Logins::new().await;
    let (store, pool) = (w.store("relay").await, w.pool("writer").await);
    let recorder = Recorder::with(|delivery| match delivery.id().as_str() {
        "dead" => Outcome::Dead("no".to_owned()),
        _ => Outcome::done(),
    });
    let dead = Retention::delete_after(Duration::ZERO);
    let purge = PurgeConfig::default().with_on_done(OnDone::Archive).with_dead(dead);
    let outbox = engine(&store, &recorder).purge(purge).start().unwrap();
    write(&Writer::new(&store, &outbox), &pool, events(&["hot", "dead"])).await;
    within_timeout("the hot path delivers", recorder.wait_for(2)).await;
    assert!(recorder.deliveries().iter().all(|delivery| delivery.source == Source::Hot));
    w.insert("cold", 0).await;
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    assert_eq!(w.db.count(Status::Dead).await, 1);
    assert_eq!(outbox.purge_once().await.unwrap(), 1);
    let stats = store.stats().await.expect("a relay may read");
    assert_eq!((stats.archived, stats.dead), (2, 0), "{stats:?}");
    assert!(w.db.ids().await.is_empty());
    w.assert_archive_is_prepared().await;
    outbox.shutdown().await;
    assert_eq!(diagnosed(&store).await, []);

    assert_not_allowed("pause", store.pause("a", "me").await);
    assert_not_allowed("audit", store.audit(&PageRequest::first(1)).await);
    w.assert_refused("relay", FORBIDDEN_TO_RELAYS).await;
    pool.close().await;
    store.close().await;
    w.close().await;
}

// S12
pub(crate) async fn viewer_reads_everything_and_changes_nothing() {
    let w = Logins::new().await;
    w.insert("a", 0).await;
    w.insert("dead", 3).await;
    let store = w.builder("viewer").read_only().connect().await.expect("it may read");
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.new, stats.dead), (1, 1));
    assert_eq!(store.count(&Filter::default()).await.unwrap(), 2);
    assert_eq!(store.list(&Filter::default(), &PageRequest::first(10)).await.unwrap().items.len(), 2);
    assert!(store.get(&"a".into()).await.unwrap().is_some());
    assert!(store.get(&"no-event".into()).await.unwrap().is_none(), "not in the archive either");
    store.dead_groups(10).await.unwrap();
    w.db.store.pause("a", "me").await.unwrap();
    let strict = Tolerance::default()
        .with_paused(Duration::ZERO)
        .with_transaction(Duration::ZERO)
        .with_dead_rows(u64::MAX);
    let findings = diagnosed_with(&store, strict).await;
    assert_eq!(findings.len(), 2, "the transactions of others are not shown: {findings:?}");
    assert_found(&findings, "paused-route", &["by \"me\""]);
    assert_found(&findings, "dead-events", &["DEAD events: 1"]);
    store.audit(&PageRequest::first(10)).await.unwrap();
    assert_not_allowed("pause", store.pause("a", "me").await);
    assert_not_allowed("replay", store.replay_all(&Filter::default(), 5, &Replay::by("me")).await);
    // The server may still be undoing the replay, and a discard skips rows that are locked.
    wait_until("the replay is undone", async || w.db.open_transactions().await == 0).await;
    assert_not_allowed("discard", store.discard(&Filter::default(), 5, "me").await);
    let pool = w.pool("viewer").await;
    let mut tx = plain_writer(&store).begin(&pool).await.unwrap();
    let _ = tx.write(event("x")).await.expect_err("it may not write");
    drop(tx);
    pool.close().await;
    w.assert_refused("viewer", &["UPDATE outbox_event SET status = 1", "DELETE FROM outbox_event_audit"])
        .await;
    store.close().await;
    w.close().await;
}

pub(crate) async fn operator_replays_discards_pauses_and_resumes() {
    let w = Logins::new().await;
    for id in ["a", "b", "c"] {
        w.insert(id, 3).await;
    }
    let store = w.store("operator").await;
    assert!(store.replay(&"a".into(), &Replay::by("me")).await.unwrap());
    assert_eq!(store.replay_all(&Filter::id("b"), 5, &Replay::by("me")).await.unwrap(), 1);
    assert_eq!(store.discard(&Filter::dead(), 5, "me").await.unwrap(), 1);
    assert!(store.pause("r", "me").await.unwrap());
    assert!(store.resume("r", "me").await.unwrap());
    assert_eq!(store.audit(&PageRequest::first(10)).await.unwrap().items.len(), 5);
    store.close().await;
    w.close().await;
}
