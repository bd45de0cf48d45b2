//! The ticket worker, alone and together with other workers.

use std::sync::{Arc, Mutex};

use posthaste_redis::tickets::ExpiryWorker;
use posthaste_testkit::{wait_until, within_timeout};
use tokio::sync::Notify;

use super::*;
use crate::support::event;

/// The tickets for which a worker requested an event, in order.
#[derive(Default)]
struct RequestedTickets(Arc<Mutex<Vec<String>>>);

impl RequestedTickets {
    /// A worker that records each ticket.
    fn worker(&self, expiry: &RedisExpiry) -> ExpiryWorker {
        let tickets = Arc::clone(&self.0);
        expiry.worker(move |due| {
            tickets.lock().expect("no panic").push(due.ticket_id.clone());
            expired(due)
        })
    }

    fn sorted(&self) -> Vec<String> {
        let mut requested = self.0.lock().expect("no panic").clone();
        requested.sort();
        requested
    }
}

// S1-34, S1-44
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn worker_decides_only_due_tickets() {
    let fixture = on_one_server(4).await;
    for n in 0..20 {
        fixture.due_since(&format!("due{n}"), SECOND).await;
    }
    fixture.record("later", fixture.start + HOUR).await;
    fixture.revoke("due0").await;
    fixture.due_since("due0", SECOND).await;
    let report = run_once(&fixture.expiry).await;
    assert_eq!((report.enqueued, report.suppressed), (19, 1), "{report:?}");
    assert_eq!(run_once(&fixture.expiry).await, ExpiryReport::default());
    let events = fixture.events().await;
    assert_eq!(events.len(), 20);
    assert!(
        events.iter().all(|(ticket, types)| *types == [if ticket == "due0" { REVOKED } else { EXPIRED }])
    );
    fixture.end().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn worker_takes_the_oldest_tickets_of_each_batch_first() {
    let fixture = on_one_server(1).await;
    for n in 1..=5_u32 {
        fixture.due_since(&format!("{n}"), SECOND * (10 - n)).await;
    }
    let requested = RequestedTickets::default();
    let worker = requested.worker(&fixture.expiry).batch(2);
    for expected in [2, 4, 5, 5] {
        worker.run_once().await.expect("the server replies");
        assert_eq!(requested.sorted().len(), expected);
        assert!(requested.sorted().iter().zip(1..).all(|(ticket, n)| *ticket == n.to_string()), "the oldest");
    }
    fixture.end().await;
}

// S1-44
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn two_nodes_share_the_work() {
    let fixture = on_one_server(1).await;
    for n in 0..40 {
        fixture.due_since(&format!("t{n:02}"), SECOND).await;
    }
    let elsewhere = fixture.elsewhere().await;
    let requested = RequestedTickets::default();
    let worker = |expiry: &RedisExpiry| requested.worker(expiry).batch(20);
    let (here, there) = (worker(&fixture.expiry), worker(&expiry_of(&elsewhere)));
    let (here, there) = tokio::join!(here.run_once(), there.run_once());
    let (here, there) = (here.expect("a report"), there.expect("a report"));
    assert_eq!((here.enqueued, there.enqueued), (20, 20), "each has its own tickets");
    let mut once = requested.sorted();
    once.dedup();
    assert_eq!((requested.sorted().len(), once.len()), (40, 40), "no ticket twice");
    assert_eq!(fixture.rows().await.len(), 40);
    fixture.end().await;
}

/// Runs a worker until its function is called, and drops it there, as a crash would.
async fn crash_inside_the_function(expiry: &RedisExpiry) {
    let requested = Arc::new(Notify::new());
    let notify = Arc::clone(&requested);
    let worker = expiry.worker(move |_| {
        notify.notify_one();
        std::future::pending()
    });
    tokio::select! {
        report = worker.run_once() => panic!("it does not end: {report:?}"),
        () = within_timeout("the function is called", requested.notified()) => {}
    }
}

// S1-44
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn ticket_of_a_crashed_worker_is_taken_over_after_its_lease() {
    let fixture = on_one_server(1).await;
    let due = fixture.due_since("17", HOUR).await;
    crash_inside_the_function(&fixture.expiry.at(fixture.start)).await;
    assert_eq!(fixture.found().await, std::slice::from_ref(&due), "it is still due");
    let before = fixture.expiry.at(fixture.start + SECOND * 30 - Duration::from_millis(1));
    assert_eq!(run_once(&before).await, ExpiryReport::default(), "the other worker holds it");
    let after = fixture.expiry.at(fixture.start + SECOND * 30);
    assert_eq!(run_once(&after).await.enqueued, 1);
    // The first worker was only slow, and decides late.
    assert_eq!(fixture.decide(&due).await, ExpiryDecision::NotDue);
    assert_eq!(fixture.events_of("17").await, [EXPIRED]);
    fixture.end().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn lease_for_the_old_time_does_not_delay_the_new_one() {
    let fixture = on_one_server(1).await;
    let old = fixture.due_since("17", HOUR).await;
    crash_inside_the_function(&fixture.expiry).await;
    let new = fixture.due_since("17", SECOND).await;
    assert_eq!(fixture.decide(&old).await, ExpiryDecision::NotDue);
    assert_eq!(run_once(&fixture.expiry).await.enqueued, 1);
    assert_eq!(fixture.rows().await[0].id, new.event_id());
    fixture.end().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn ticket_whose_function_fails_stays_due_and_does_not_block_others() {
    let fixture = on_one_server(1).await;
    for ticket in ["fails", "good", "hangs", "panics", "strange"] {
        fixture.due_since(ticket, SECOND).await;
    }
    let moody = async |due: DueExpiry| match due.ticket_id.as_str() {
        "fails" => Err(BoxError::from("no")),
        "hangs" => std::future::pending().await,
        // Not `panic!`: the panic hook would print a backtrace and delay the other tickets.
        "panics" => std::panic::resume_unwind(Box::new("on purpose")),
        "strange" => Ok(event(EXPIRED, "another")),
        _ => expired(due).await,
    };
    let lease = Duration::from_secs(2);
    let at_first = fixture.expiry.at(fixture.start).worker(moody).lease(lease);
    let report = at_first.run_once().await.expect("the server replies");
    assert_eq!((report.enqueued, report.failed), (1, 4), "{report:?}");
    assert_eq!(run_once(&fixture.expiry.at(fixture.start)).await.enqueued, 0, "they are held");
    assert_eq!(run_once(&fixture.expiry.at(fixture.start + lease)).await.enqueued, 4);
    assert!(fixture.events().await.values().all(|types| *types == [EXPIRED]));
    fixture.end().await;
}

/// The interval is an hour, so the worker must wait for the ticket that is due earlier.
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn worker_wakes_when_the_next_ticket_is_due_and_stops_on_shutdown() {
    let fixture = on_one_server(1).await;
    let soon_due = fixture.now().await + Duration::from_millis(50);
    fixture.record("17", soon_due).await;
    let mut handle = fixture.expiry.worker(expired).interval(HOUR).start();
    wait_until("it expires", async || !fixture.rows().await.is_empty()).await;
    assert!(fixture.now().await >= soon_due, "not too soon");
    within_timeout("it stops", handle.shutdown()).await;
    within_timeout("a second shutdown returns", handle.shutdown()).await;
    fixture.due_since("18", SECOND).await;
    assert_eq!(run_once(&fixture.expiry).await.enqueued, 1, "no other worker took it");
    fixture.end().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn full_batches_follow_each_other_without_a_pause() {
    let fixture = on_one_server(1).await;
    for n in 0..40 {
        fixture.due_since(&format!("t{n}"), SECOND).await;
    }
    let mut handle = fixture.expiry.worker(expired).batch(4).interval(HOUR).start();
    wait_until("all have expired", async || fixture.rows().await.len() == 40).await;
    handle.shutdown().await;
    fixture.end().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn decisions_are_forgotten_after_the_retention() {
    let fixture = on_one_server(1).await;
    let due = fixture.due_since("expired", SECOND).await;
    assert_eq!(fixture.decide(&due).await, ExpiryDecision::Enqueued);
    assert_eq!(fixture.revoke("revoked").await, Revocation::Revoked);
    // Recorded after the revocation. It must not expire when the revocation is forgotten.
    fixture.record("revoked", fixture.start + DAY * 60).await;
    let at = |days: u32| fixture.expiry.at(fixture.start + DAY * days);
    assert_eq!(run_once(&at(29)).await.pruned, 0);
    assert_eq!(fixture.revoke("expired").await, Revocation::AlreadyExpired);
    assert_eq!(run_once(&at(31)).await.pruned, 2);
    assert_eq!(run_once(&at(61)).await, ExpiryReport::default());
    assert_eq!(fixture.revoke("expired").await, Revocation::Revoked, "it is forgotten");
    assert_eq!(fixture.revoke("revoked").await, Revocation::Revoked, "it is forgotten");
    // A retention other than the default.
    let short = fixture.expiry.clone().retention(HOUR).at(fixture.start + HOUR * 2);
    assert_eq!(run_once(&short).await.pruned, 2);
    fixture.end().await;
}

#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn expired_leases_are_removed() {
    let fixture = on_one_server(1).await;
    fixture.due_since("17", SECOND).await;
    crash_inside_the_function(&fixture.expiry).await;
    // Another program removes the ticket.
    let _: u8 = fixture.run("ZREM", "expiry-due", "17").await;
    run_once(&fixture.expiry).await;
    assert_eq!(fixture.run::<u64>("ZCARD", "expiry-leases", NO_ARGS).await, 1);
    run_once(&fixture.expiry.at(fixture.start + SECOND * 60)).await;
    assert_eq!(fixture.run::<u64>("ZCARD", "expiry-leases", NO_ARGS).await, 0);
    fixture.end().await;
}
