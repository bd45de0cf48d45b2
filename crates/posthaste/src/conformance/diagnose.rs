//! Diagnosis: every problem in the rows is found, with what an operator needs to know, and nothing else.

#![allow(missing_docs, reason = "the name of a case is the claim that it proves")]

use std::time::Duration;

use super::Harness;
use super::store_fixture::{HOUR, LEASE, StoreFixture, delayed, failed, plain, row, unreachable};
use crate::admin::{Finding, Severity, Tolerance};
use crate::event::Event;

/// Findings that every store can see in its rows. Other findings depend on the server.
const ROW_FINDING_CODES: [&str; 9] = [
    "late",
    "dead-events",
    "unreadable-rows",
    "lapsing-leases",
    "crashing-event",
    "paused-route",
    "parked-route",
    "no-route",
    "clock-skew",
];

async fn found(k: &StoreFixture<'_>, tolerance: &Tolerance) -> Vec<Finding> {
    let findings = k.admin.diagnose(tolerance).await.expect("diagnose works");
    findings.into_iter().filter(|finding| ROW_FINDING_CODES.contains(&finding.code)).collect()
}

/// The only finding. It must have this code.
async fn the_one(k: &StoreFixture<'_>, code: &str, tolerance: &Tolerance) -> Finding {
    let mut findings = found(k, tolerance).await;
    let codes: Vec<_> = findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [code], "{findings:?}");
    findings.remove(0)
}

async fn assert_well(k: &StoreFixture<'_>, tolerance: &Tolerance) {
    let findings = found(k, tolerance).await;
    assert!(findings.is_empty(), "{findings:?}");
}

pub async fn healthy_outbox_has_no_findings(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    assert_well(&k, &Tolerance::default()).await;
    k.insert(&[row(plain()), delayed(HOUR)]).await;
    k.done(20, None).await;
    let leases = k.held(2).await;
    k.settle(h.now().await, &leases[0], failed(10, &[3600])).await;
    assert_well(&k, &Tolerance::default()).await;
}

pub async fn late_event_is_found(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.one().await;
    let finding = the_one(&k, "late", &Tolerance::default().with_late(Duration::ZERO)).await;
    assert_eq!(finding.severity, Severity::Problem);
}

pub async fn dead_events_are_found(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.dead(vec![plain(), plain()], "no", None).await;
    let finding = the_one(&k, "dead-events", &Tolerance::default()).await;
    assert!(finding.what.contains(": 2"), "{finding:?}");
}

pub async fn forgotten_pause_is_found(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let strict = Tolerance::default().with_paused(Duration::ZERO);
    k.admin.pause("mail", "ann").await.expect("pause works");
    k.admin.resume("mail", "ann").await.expect("resume works");
    assert_well(&k, &strict).await;
    k.admin.pause("mail", "bob").await.expect("pause works");
    assert_well(&k, &Tolerance::default()).await;
    let leases = k.held(2).await;
    k.park(h.now().await, &leases, "mail").await;
    let finding = the_one(&k, "paused-route", &strict).await;
    assert!(finding.what.contains("\"mail\" has been paused by \"bob\" for "), "{finding:?}");
    assert!(finding.what.ends_with("wait for it: 2"), "{finding:?}");
    assert!(finding.advice.contains("posthaste resume \"mail\""), "{finding:?}");
}

pub async fn events_that_wait_for_a_route_are_found_with_the_reason(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let leases = k.held(3).await;
    let t = h.now().await;
    k.park(t, &leases[..1], "mail").await;
    k.settle(t, &leases[1], unreachable(HOUR, Some("mail (probed)"))).await;
    let finding = the_one(&k, "parked-route", &Tolerance::default()).await;
    assert!(finding.what.contains("\"mail\", which is not paused: 2, the oldest for "), "{finding:?}");
    assert!(finding.what.ends_with("why: \"connection refused\""), "{finding:?}");
    k.admin.pause("mail", "ann").await.expect("pause works");
    assert_well(&k, &Tolerance::default()).await;
    k.park(t, &leases[2..], "no route").await;
    let finding = the_one(&k, "no-route", &Tolerance::default()).await;
    assert!(finding.what.contains("no route takes: 1, the oldest for "), "{finding:?}");
}

pub async fn event_that_loses_its_leases_is_found(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    let id = k.one().await;
    let mut t = k.now().await;
    for lost in 0..=3 {
        k.take_as_a_stranger(t).await;
        t = t + LEASE;
        match lost {
            0 => assert_well(&k, &Tolerance::default()).await,
            1 | 2 => drop(the_one(&k, "lapsing-leases", &Tolerance::default()).await),
            _ => {
                let finding = the_one(&k, "crashing-event", &Tolerance::default()).await;
                let said = format!("\"{id}\", lost {lost} of them");
                assert!(finding.what.contains(&said), "{finding:?}");
                assert_eq!(finding.severity, Severity::Problem);
            }
        }
    }
}

pub async fn producer_whose_clock_is_ahead_is_found(h: &dyn Harness) {
    let k = StoreFixture::new(h);
    k.done(1, None).await;
    let ahead = h.now().await + HOUR;
    let event = Event::builder("Tested").occurred_at(ahead).json_text("{}").build().expect("a good event");
    k.insert(&[row(event)]).await;
    let finding = the_one(&k, "clock-skew", &Tolerance::default()).await;
    assert!(finding.what.contains("inserted: 1, by up to "), "{finding:?}");
    assert_well(&k, &Tolerance::default().with_skew(2 * HOUR)).await;
}
