//! An expiry time in the transaction that mints the ticket.

use posthaste_redis::RedisCommitError;

use super::*;
use crate::support::event;

// S1-32, S1-45
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn ticket_its_event_and_its_expiry_time_are_one_transaction() {
    let fixture = on_one_server(1).await;
    let expires_at = fixture.start - SECOND;
    let mut tx = fixture.writer().begin();
    tx.set(fixture.key("ticket"), "minted");
    tx.record_expiry_due("17", expires_at).expect("the same shard");
    tx.write(event("TicketMinted", "17")).expect("a good event");
    tx.incr(fixture.key("minted"), 5);
    assert_eq!(fixture.found().await, [], "nothing was sent");
    let replies = tx.commit(&mut fixture.connection.clone()).await.expect("it commits");
    let (_set, minted): ((), u64) = replies.read().expect("only the service's own replies");
    assert_eq!(minted, 5);
    assert_eq!(fixture.found().await, [DueExpiry::new("17", expires_at)]);
    assert_eq!(fixture.events_of("17").await, ["TicketMinted"]);
    let _: u8 = fixture.run("DEL", "ticket", fixture.key("minted")).await;
    fixture.end().await;
}

// S1-32
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn expiry_time_that_was_not_recorded_is_reported() {
    let fixture = on_one_server(1).await;
    let _: () = fixture.run("SET", "expiry-due", "not ours").await;
    let mut tx = fixture.writer().begin();
    tx.set(fixture.key("ticket"), "minted");
    tx.write(event("TicketMinted", "17")).expect("a good event");
    tx.record_expiry_due("17", fixture.start).expect("the same shard");
    let error = tx.commit(&mut fixture.connection.clone()).await.expect_err("the ZADD fails");
    assert!(error.to_string().contains("0 of its events and 1 of its expiries"), "{error}");
    let RedisCommitError::EventsNotStored { events, expiries, replies, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!((events.len(), expiries, replies.values().len()), (0, vec!["17".to_owned()], 1));
    assert_eq!(fixture.events_of("17").await, ["TicketMinted"], "the event is stored");
    // The advice in the error works.
    let _: u8 = fixture.run("DEL", "expiry-due", fixture.key("ticket")).await;
    let due = fixture.record("17", fixture.start).await;
    assert_eq!(fixture.found().await, [due]);
    fixture.end().await;
}

// T14
#[tokio::test]
#[ignore = "needs a Redis Cluster: cargo xtask test"]
async fn ticket_of_another_shard_is_refused_on_a_cluster() {
    let fixture = on_a_cluster(6).await;
    let mut tickets = (0..).map(|n| n.to_string());
    let mine = tickets.next().expect("endless");
    let other =
        tickets.find(|ticket| fixture.store.tag(ticket) != fixture.store.tag(&mine)).expect("six shards");
    let mut tx = fixture.writer().begin();
    tx.record_expiry_due(&mine, fixture.start - SECOND).expect("the first");
    assert!(tx.record_expiry_due(&other, fixture.start).is_err());
    assert!(tx.write(event("TicketMinted", &other)).is_err());
    tx.write(event("TicketMinted", &mine)).expect("the same shard");
    tx.commit(&mut fixture.connection.clone()).await.expect("it commits");
    let found = fixture.found().await;
    assert_eq!(found.iter().map(|due| &due.ticket_id).collect::<Vec<_>>(), [&mine]);
    fixture.end().await;
}
