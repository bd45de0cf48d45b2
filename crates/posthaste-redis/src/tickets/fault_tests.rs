//! Fault injection: a decision fails at each of its commands in turn. The next call must complete it, and a ticket must
//! never have two events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use posthaste::{Event, Outbox, Routes, Timestamp, WriteError};

use super::scripts::ExpiryScripts;
use super::{DueExpiry, ExpiryDecision, RedisExpiry, Revocation};
use crate::RedisStore;
use crate::script_fault_tests::{NO_ARGS, fresh, remove, run};
use crate::scripts::fault;

const TICKET: &str = "17";

fn event(event_type: &str) -> Event {
    Event::builder(event_type).aggregate("Ticket", TICKET).json_text("{}").build().expect("a good event")
}

fn due() -> DueExpiry {
    DueExpiry::new(TICKET, Timestamp::from_micros(1_700_000_000_000_000))
}

fn expiry(store: &RedisStore) -> RedisExpiry {
    store.expiry(
        &Outbox::builder(store.clone(), Routes::new()).writer_only().build().expect("a good configuration"),
    )
}

async fn decide(expiry: &RedisExpiry) -> Result<ExpiryDecision, WriteError> {
    expiry.decide_expiry(&due(), event("TicketExpired"), None).await
}

/// What the store contains about the ticket.
#[derive(Debug)]
struct TicketContents {
    /// The types of its events.
    events: Vec<String>,
    is_pending: bool,
    is_due: bool,
    is_held: bool,
    is_begun: bool,
    is_revoked: bool,
    is_expired: bool,
    will_be_forgotten: bool,
}

impl TicketContents {
    async fn in_store(store: &RedisStore) -> Self {
        let bodies: BTreeMap<String, String> = run(store, "HGETALL", "entries", NO_ARGS).await;
        let body = |text: &String| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        let type_of = |text| body(text)["event_type"].as_str().expect("a type").to_owned();
        let is_in = async |key: &str, id: &str| run::<Option<f64>>(store, "ZSCORE", key, id).await.is_some();
        let mut is_pending = true;
        for id in bodies.keys() {
            is_pending &= is_in("pending", id).await;
        }
        let is_revoked = is_in("revoked", TICKET).await;
        Self {
            events: bodies.values().map(type_of).collect(),
            is_pending,
            is_due: is_in("expiry-due", TICKET).await,
            is_held: is_in("expiry-leases", TICKET).await,
            is_begun: run(store, "HEXISTS", "expiry-begun", TICKET).await,
            is_revoked,
            is_expired: run(store, "HEXISTS", "expired", TICKET).await,
            will_be_forgotten: is_revoked || is_in("expired-at", TICKET).await,
        }
    }

    fn check(&self, case: &str) {
        assert_eq!(self.events.len(), 1, "{case}: {self:?}");
        assert!(self.is_pending, "{case}: no engine would deliver it: {self:?}");
        assert!(!self.is_due && !self.is_held && !self.is_begun, "{case}: something is left: {self:?}");
        assert!(self.will_be_forgotten, "{case}: {self:?}");
        let of_type = self.events[0].as_str();
        assert_eq!(self.is_revoked, of_type == "TicketRevoked", "{case}: {self:?}");
        assert_eq!(self.is_expired, of_type == "TicketExpired", "{case}: {self:?}");
    }
}

/// A step that fails, or one that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Decide,
    Revoke,
    Prune,
}

impl Step {
    async fn run(self, expiry: &RedisExpiry) -> Result<(), WriteError> {
        match self {
            Self::Decide => decide(expiry).await.map(|_| ()),
            Self::Revoke => expiry.revoke(TICKET, event("TicketRevoked")).await.map(|_| ()),
            Self::Prune => Ok(expiry.prune().await.map(|_| ())?),
        }
    }
}

/// Runs `first` with a fault at the first command, then at the second, and so on until it no longer fails. After each
/// run the `next` steps run without a fault.
async fn fail_everywhere(first: Step, next: &[Step]) {
    let mut n = 0;
    loop {
        n += 1;
        let store = fresh().await;
        let expiry = expiry(&store);
        expiry.record_expiry_due(TICKET, due().expires_at).await.expect("the ticket is recorded");
        expiry.claim(1, Duration::from_secs(30)).await.expect("the ticket is claimed");
        let failing = RedisExpiry { scripts: Arc::new(ExpiryScripts::after(&fault(n))), ..expiry.clone() };
        let has_failed = first.run(&failing).await.is_err();
        for step in next {
            step.run(&expiry).await.expect("no fault is injected");
        }
        TicketContents::in_store(&store).await.check(&format!("{first:?} failed at {n}, then {next:?}"));
        remove(&store).await;
        if !has_failed {
            break;
        }
    }
    assert!(n > 20, "only {n} commands: the fault does not reach the script");
}

// S1-36, S1-39
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn failed_decision_is_completed_by_the_next_call() {
    fail_everywhere(Step::Decide, &[Step::Decide]).await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn failed_revocation_is_completed_by_the_next_call() {
    fail_everywhere(Step::Revoke, &[Step::Revoke]).await;
}

// S1-42
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn ticket_whose_decision_failed_is_not_both_expired_and_revoked() {
    fail_everywhere(Step::Decide, &[Step::Revoke, Step::Decide]).await;
}

// S1-42
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn ticket_whose_revocation_failed_is_not_both_expired_and_revoked() {
    fail_everywhere(Step::Revoke, &[Step::Decide, Step::Revoke]).await;
}

/// The caller of a failed revocation may never repeat it. The worker completes it, or expires the ticket if nothing was
/// decided.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn revocation_that_is_never_repeated_is_completed_by_the_worker() {
    fail_everywhere(Step::Revoke, &[Step::Prune, Step::Decide]).await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn failed_pruning_is_completed_by_the_next_call() {
    fail_everywhere(Step::Prune, &[Step::Prune, Step::Decide]).await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn repeated_revocation_returns_already_revoked() {
    let store = fresh().await;
    let expiry = expiry(&store);
    let revoked = event("TicketRevoked");
    for expected in [Revocation::Revoked, Revocation::AlreadyRevoked] {
        assert_eq!(expiry.revoke(TICKET, revoked.clone()).await.expect("the server replies"), expected);
    }
    remove(&store).await;
}
