//! Workers and revocations that race for the same tickets.

use futures_util::{StreamExt as _, stream};
use posthaste_testkit::within_timeout;

use super::*;

/// Runs two workers and revocations on `count` tickets, and asserts that each ticket has exactly one event.
async fn race<C: ConnectionLike + Clone>(fixture: Fixture<C>, elsewhere: &RedisStore, count: u64) {
    let tickets: Vec<String> = (0..count).map(|n| format!("t{n}")).collect();
    let record = |(n, ticket): (u64, String)| {
        let (expiry, expires_at) = (&fixture.expiry, fixture.start - HOUR + Duration::from_millis(n));
        async move { expiry.record_expiry_due(&ticket, expires_at).await.expect("it is recorded") }
    };
    stream::iter((0..).zip(tickets.clone())).map(record).buffer_unordered(100).collect::<()>().await;

    let (near, far) =
        (fixture.expiry.worker(expired).batch(200), expiry_of(elsewhere).worker(expired).batch(200));
    let work = async |worker: posthaste_redis::tickets::ExpiryWorker| {
        let mut expired = 0;
        loop {
            let report = worker.run_once().await.expect("the server replies");
            assert_eq!((report.failed, report.already_enqueued), (0, 0), "{report:?}");
            expired += report.enqueued;
            if report == ExpiryReport::default() {
                return expired;
            }
        }
    };
    // Workers start with the oldest and revocations with the newest tickets, so they meet.
    let revoke = |ticket: &String| {
        let (expiry, ticket) = (&fixture.expiry, ticket.clone());
        async move {
            let event = support::event(REVOKED, &ticket);
            (expiry.revoke(&ticket, event).await.expect("the server replies"), ticket)
        }
    };
    let revocations = stream::iter(tickets.iter().rev()).map(revoke).buffer_unordered(32);
    let (near, far, revocations) = within_timeout("every ticket is expired or revoked", async {
        tokio::join!(work(near), work(far), revocations.collect::<Vec<_>>())
    })
    .await;

    let events = fixture.events().await;
    assert_eq!(events.len(), tickets.len(), "every ticket has an event");
    let mut revoked = 0;
    for (revocation, ticket) in &revocations {
        let expected = match revocation {
            Revocation::Revoked => REVOKED,
            Revocation::AlreadyExpired => EXPIRED,
            _ => panic!("{ticket} was revoked twice"),
        };
        assert_eq!(events[ticket], [expected], "{ticket}");
        revoked += usize::from(expected == REVOKED);
    }
    assert_eq!(near + far + revoked, tickets.len());
    assert!(near > 0 && far > 0 && revoked > 0, "no race: {near}, {far}, {revoked}");
    assert_eq!(fixture.found().await, []);
    fixture.end().await;
}

// S1-42, S1-44
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test"]
async fn ticket_either_expires_or_is_revoked_in_a_race() {
    let fixture = on_one_server(1).await;
    let elsewhere = fixture.elsewhere().await;
    race(fixture, &elsewhere, 10_000).await;
}

// S1-33, S1-44, T14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Redis Cluster: cargo xtask test"]
async fn tickets_expire_on_a_cluster() {
    let fixture = on_a_cluster(6).await;
    let elsewhere = support::cluster_builder(&fixture.name).connect().await.expect("the store opens");
    race(fixture, &elsewhere, 1_000).await;
}
