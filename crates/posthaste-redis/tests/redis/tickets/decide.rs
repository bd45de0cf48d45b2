//! Decisions: when a ticket expires, when it is revoked, and which event is stored.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use posthaste::{EventId, Status, WriteError, WriterHook};
use posthaste_redis::OpenError;
use posthaste_testkit::within_timeout;

use super::*;
use crate::support::{engine, event};

// S1-36, S1-40, S1-41, S1-43, S1-44
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn due_ticket_expires_with_the_id_of_its_expiry() {
    let fixture = on_one_server(4).await;
    let due = fixture.due_since("17", SECOND).await;
    let given = event(EXPIRED, "17");
    let decision = fixture.expiry.decide_expiry(&due, given.clone(), None).await.expect("it is decided");
    assert_eq!(decision, ExpiryDecision::Enqueued);
    let rows = fixture.rows().await;
    let [row] = rows.as_slice() else { panic!("one event: {rows:?}") };
    assert_eq!(row.id, due.event_id());
    assert_ne!(row.id, *given.id());
    assert_eq!((row.event_type.as_str(), row.status, row.attempts), (EXPIRED, Status::New, 0));
    assert_eq!(fixture.found().await, [], "a decided ticket is not due any more");
    fixture.end().await;
}

// S1-39
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn repeated_decision_stores_nothing() {
    let fixture = on_one_server(1).await;
    let due = fixture.due_since("17", SECOND).await;
    assert_eq!(fixture.decide(&due).await, ExpiryDecision::Enqueued);
    assert_eq!(fixture.decide(&due).await, ExpiryDecision::NotDue, "a repeated call finds it decided");
    // The transaction is repeated because its reply was lost, and the event was delivered and purged long ago.
    fixture.due_since("17", SECOND).await;
    let id = due.event_id();
    let _: u8 = fixture.run("HDEL", "entries", id.as_str()).await;
    assert_eq!(fixture.decide(&due).await, ExpiryDecision::AlreadyEnqueued);
    assert_eq!(fixture.found().await, []);
    let is_stored: bool = fixture.run("HEXISTS", "entries", id.as_str()).await;
    assert!(!is_stored, "it would be delivered again");
    fixture.end().await;
}

// S1-39: the decision may be forgotten while the event still exists.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn event_that_exists_is_not_stored_again() {
    let fixture = on_one_server(1).await;
    let due = fixture.due_since("17", SECOND).await;
    assert_eq!(fixture.decide(&due).await, ExpiryDecision::Enqueued);
    let _: u8 = fixture.run("DEL", "expired", NO_ARGS).await;
    fixture.due_since("17", SECOND).await;
    assert_eq!(fixture.decide(&due).await, ExpiryDecision::AlreadyEnqueued);
    assert_eq!((fixture.found().await, fixture.events_of("17").await.len()), (vec![], 1));
    fixture.end().await;
}

// S1-38, S1-42, S1-43
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn revoked_ticket_does_not_expire() {
    let fixture = on_one_server(1).await;
    let due = fixture.due_since("17", SECOND).await;
    assert_eq!(fixture.found().await, std::slice::from_ref(&due));
    // Between find and decide.
    assert_eq!(fixture.revoke("17").await, Revocation::Revoked);
    assert_eq!(fixture.decide(&due).await, ExpiryDecision::NotDue);
    // The transaction that minted the ticket is repeated.
    fixture.due_since("17", SECOND).await;
    assert_eq!(fixture.decide(&due).await, ExpiryDecision::SuppressedRevoked);
    assert_eq!((fixture.found().await, fixture.events_of("17").await), (vec![], vec![REVOKED.to_owned()]));
    fixture.end().await;
}

// S1-38, S1-42: a script of the service may have written the marker.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn revocation_marker_of_another_program_counts() {
    let fixture = on_one_server(1).await;
    let due = fixture.due_since("17", SECOND).await;
    let _: u8 = fixture.run("ZADD", "revoked", (1, "17")).await;
    assert_eq!(fixture.decide(&due).await, ExpiryDecision::SuppressedRevoked);
    assert_eq!(fixture.revoke("17").await, Revocation::AlreadyRevoked);
    assert!(fixture.rows().await.is_empty());
    fixture.end().await;
}

// S1-37
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn only_what_is_due_by_the_cutoff_is_decided() {
    let fixture = on_one_server(1).await;
    let past = fixture.due_since("past", SECOND).await;
    let later = fixture.record("later", fixture.start + HOUR).await;
    let decide = async |due: &DueExpiry, cutoff| {
        let event = event(EXPIRED, &due.ticket_id);
        fixture.expiry.decide_expiry(due, event, cutoff).await.expect("it is decided")
    };
    let just_before = |due: &DueExpiry| Some(due.expires_at - Duration::from_millis(1));
    assert_eq!(decide(&later, None).await, ExpiryDecision::NotDue, "by the server's clock");
    assert_eq!(decide(&past, just_before(&past)).await, ExpiryDecision::NotDue);
    assert_eq!(decide(&later, just_before(&later)).await, ExpiryDecision::NotDue);
    assert!(fixture.rows().await.is_empty());
    assert_eq!(decide(&past, Some(past.expires_at)).await, ExpiryDecision::Enqueued);
    assert_eq!(decide(&later, Some(later.expires_at)).await, ExpiryDecision::Enqueued);
    fixture.end().await;
}

// S1-37
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn rescheduled_or_unknown_ticket_is_not_due() {
    let fixture = on_one_server(1).await;
    let old = fixture.due_since("17", SECOND).await;
    let new = fixture.due_since("17", SECOND / 2).await;
    assert_eq!(fixture.decide(&old).await, ExpiryDecision::NotDue);
    let unknown = DueExpiry::new("18", old.expires_at);
    assert_eq!(fixture.decide(&unknown).await, ExpiryDecision::NotDue);
    assert_eq!((fixture.found().await, fixture.rows().await.len()), (vec![new.clone()], 0));
    assert_eq!(fixture.decide(&new).await, ExpiryDecision::Enqueued);
    // A new expiry time after that leads to a second expiry.
    let again = fixture.due_since("17", SECOND / 4).await;
    assert_eq!(fixture.decide(&again).await, ExpiryDecision::Enqueued);
    assert_eq!(fixture.events_of("17").await, [EXPIRED; 2]);
    fixture.end().await;
}

// S1-42
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn ticket_is_revoked_once_and_not_after_it_expired() {
    let fixture = on_one_server(4).await;
    assert_eq!(fixture.revoke("never recorded").await, Revocation::Revoked);
    assert_eq!(fixture.revoke("never recorded").await, Revocation::AlreadyRevoked);
    let due = fixture.due_since("17", SECOND).await;
    assert_eq!(fixture.decide(&due).await, ExpiryDecision::Enqueued);
    assert_eq!(fixture.revoke("17").await, Revocation::AlreadyExpired);
    assert_eq!(fixture.events_of("17").await, [EXPIRED]);
    // A new expiry time makes it a new ticket.
    fixture.record("17", fixture.start + HOUR).await;
    assert_eq!(fixture.revoke("17").await, Revocation::Revoked);
    assert_eq!(fixture.events_of("17").await, [EXPIRED, REVOKED]);
    assert_eq!(fixture.events_of("never recorded").await, [REVOKED]);
    fixture.end().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn event_of_another_ticket_is_refused() {
    let fixture = on_one_server(4).await;
    let due = fixture.due_since("17", SECOND).await;
    let strange = [event(EXPIRED, "18"), Event::json(EXPIRED, "no aggregate").expect("a good event")];
    for event in strange {
        let error = fixture.expiry.decide_expiry(&due, event.clone(), None).await.expect_err("refused");
        assert!(error.to_string().contains("the ticket's id as its aggregate id"), "{error}");
        let error = fixture.expiry.revoke("17", event).await.expect_err("refused");
        assert!(matches!(error, WriteError::Store(_)), "{error:?}");
    }
    assert_eq!((fixture.found().await, fixture.rows().await.len()), (vec![due], 0));
    fixture.end().await;
}

/// A hook that suppresses one event, and counts commits and rollbacks.
#[derive(Clone, Default)]
struct Hook {
    leaves_out: Arc<Mutex<Option<EventId>>>,
    committed: Arc<AtomicUsize>,
    rolled_back: Arc<AtomicUsize>,
}

impl Hook {
    fn ends(&self) -> (usize, usize) {
        (self.committed.load(Ordering::SeqCst), self.rolled_back.load(Ordering::SeqCst))
    }
}

impl WriterHook for Hook {
    fn before_write(&self, mut events: Vec<Event>) -> Result<Vec<Event>, BoxError> {
        let left_out = self.leaves_out.lock().expect("no panic").clone();
        events.retain(|event| Some(event.id()) != left_out.as_ref());
        Ok(events)
    }

    fn after_commit(&self, events: &[Event]) {
        self.committed.fetch_add(events.len(), Ordering::SeqCst);
    }

    fn after_rollback(&self, events: &[Event]) {
        self.rolled_back.fetch_add(events.len(), Ordering::SeqCst);
    }
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn hooks_see_the_events_and_can_suppress_them() {
    let mut fixture = on_one_server(1).await;
    let hook = Hook::default();
    let outbox =
        Outbox::builder(fixture.store.clone(), Routes::new()).writer_only().hook(hook.clone()).build();
    fixture.expiry = fixture.store.expiry(&outbox.expect("a good configuration"));
    let due = fixture.due_since("17", SECOND).await;
    assert_eq!((fixture.decide(&due).await, hook.ends()), (ExpiryDecision::Enqueued, (1, 0)));
    assert_eq!((fixture.decide(&due).await, hook.ends()), (ExpiryDecision::NotDue, (1, 1)));
    assert_eq!((fixture.revoke("17").await, hook.ends()), (Revocation::AlreadyExpired, (1, 2)));
    assert_eq!((fixture.revoke("18").await, hook.ends()), (Revocation::Revoked, (2, 2)));
    let due = fixture.due_since("19", SECOND).await;
    *hook.leaves_out.lock().expect("no panic") = Some(due.event_id());
    assert_eq!((fixture.decide(&due).await, hook.ends()), (ExpiryDecision::SuppressedByHook, (2, 2)));
    assert_eq!((fixture.found().await, fixture.events_of("19").await.len()), (vec![], 0));
    assert_eq!(fixture.revoke("19").await, Revocation::AlreadyExpired);
    fixture.end().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn event_of_a_decision_takes_the_hot_path() {
    let mut fixture = on_one_server(1).await;
    // This engine polls only once an hour.
    let (outbox, recorder) = engine(&fixture.store);
    within_timeout("it is idle", outbox.idle()).await.expect("the server replies");
    fixture.expiry = fixture.store.expiry(&outbox);
    let due = fixture.due_since("17", SECOND).await;
    assert_eq!(fixture.decide(&due).await, ExpiryDecision::Enqueued);
    assert_eq!(fixture.revoke("18").await, Revocation::Revoked);
    within_timeout("both are delivered", recorder.wait_for(2)).await;
    outbox.shutdown().await;
    fixture.end().await;
}

// S1-07
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn foreign_key_is_named_before_anything_is_written() {
    for foreign in ["expiry-leases", "expiry-begun", "revoked", "expired", "expired-at"] {
        let fixture = on_one_server(1).await;
        let due = fixture.due_since("17", SECOND).await;
        let key = fixture.key(foreign);
        let _: () = fixture.run("SET", foreign, "not ours").await;
        let error =
            fixture.expiry.decide_expiry(&due, event(EXPIRED, "17"), None).await.expect_err("refused");
        let WriteError::Store(error) = error else { panic!("{error:?}") };
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(source.contains(&key), "{source}");
        assert!(fixture.expiry.revoke("17", event(REVOKED, "17")).await.is_err());
        assert!(fixture.rows().await.is_empty(), "{foreign}");
        let error = support::builder(&fixture.name).connect().await.expect_err("refused at open");
        assert!(matches!(&error, OpenError::ForeignKey { key: named, .. } if *named == key), "{error:?}");
        fixture.end().await;
    }
}
