//! An expiry in the transaction of the mint.

use posthaste_redis::RedisCommitError;
use redis::AsyncCommands as _;

use super::*;
use crate::support::{event, key};

fn writer_of(scene: &Scene) -> posthaste_redis::RedisWriter {
    scene.store.writer(&Outbox::writer_only(scene.store.clone()).build().expect("a good configuration"))
}

// S1-32, S1-45
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn mint_its_event_and_its_expiry_are_one_transaction() {
    let mut scene = on_one_server(1).await;
    let expires_at = scene.start - SECOND;
    let mut tx = writer_of(&scene).begin();
    tx.set(key(&scene.name, "ticket"), "minted");
    tx.record_expiry_due("17", expires_at).expect("the same shard");
    tx.write(event("TicketMinted", "17")).expect("a good event");
    tx.incr(key(&scene.name, "minted"), 5);
    assert_eq!(scene.found().await, [], "nothing was sent");
    let replies = tx.commit(&mut scene.connection).await.expect("it commits");
    let (_set, minted): ((), u64) = replies.read().expect("the service's own answers alone");
    assert_eq!(minted, 5);
    assert_eq!(scene.found().await, [DueExpiry { ticket_id: "17".to_owned(), expires_at }]);
    assert_eq!(scene.events_of("17").await, ["TicketMinted"]);
    let _: i64 =
        scene.connection.del((key(&scene.name, "ticket"), key(&scene.name, "minted"))).await.expect("DEL");
    scene.end().await;
}

// S1-32
#[tokio::test]
#[ignore = "needs Redis: cargo xtask test"]
async fn expiry_that_was_not_recorded_is_reported() {
    let mut scene = on_one_server(1).await;
    let _: () = scene.connection.set(key(&scene.name, "expiry-due"), "not ours").await.expect("SET");
    let mut tx = writer_of(&scene).begin();
    tx.set(key(&scene.name, "ticket"), "minted");
    tx.write(event("TicketMinted", "17")).expect("a good event");
    tx.record_expiry_due("17", scene.start).expect("the same shard");
    let error = tx.commit(&mut scene.connection).await.expect_err("the ZADD fails");
    assert!(error.to_string().contains("0 of its events and 1 of its expiries"), "{error}");
    let RedisCommitError::EventsNotStored { events, expiries, replies, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!((events.len(), expiries, replies.values().len()), (0, vec!["17".to_owned()], 1));
    assert_eq!(scene.events_of("17").await, ["TicketMinted"], "the event is stored");
    // What it says to do works.
    let _: i64 = scene
        .connection
        .del((key(&scene.name, "expiry-due"), key(&scene.name, "ticket")))
        .await
        .expect("DEL");
    let due = scene.record("17", scene.start).await;
    assert_eq!(scene.found().await, [due]);
    scene.end().await;
}

// T14
#[tokio::test]
#[ignore = "needs a Redis Cluster: cargo xtask test"]
async fn ticket_of_another_shard_is_refused_on_a_cluster() {
    let mut scene = on_a_cluster(6).await;
    let mut tickets = (0..).map(|n| n.to_string());
    let mine = tickets.next().expect("endless");
    let other = tickets.find(|ticket| scene.store.tag(ticket) != scene.store.tag(&mine)).expect("six shards");
    let outbox = Outbox::writer_only(scene.store.clone()).build().expect("a good configuration");
    let mut tx = scene.store.writer(&outbox).begin();
    tx.record_expiry_due(&mine, scene.start - SECOND).expect("the first");
    assert!(tx.record_expiry_due(&other, scene.start).is_err());
    assert!(tx.write(event("TicketMinted", &other)).is_err());
    tx.write(event("TicketMinted", &mine)).expect("the same shard");
    tx.commit(&mut scene.connection).await.expect("it commits");
    let found = scene.found().await;
    assert_eq!(found.iter().map(|due| &due.ticket_id).collect::<Vec<_>>(), [&mine]);
    scene.end().await;
}
